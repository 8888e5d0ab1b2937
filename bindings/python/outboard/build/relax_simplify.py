"""Rewrites of Relax operators: what is constant is computed now, and what does nothing goes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call, GenericConst, IRModule, Op

# These change a shape and move nothing: they become another name for the same memory, see program.py.
RESHAPES = ("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten")


def is_static(ty: tvm.ir.Type) -> bool:
    """Whether a type has no dimension that is unknown at build time."""
    if isinstance(ty, tvm.ir.TupleType):
        return all(is_static(field) for field in ty.fields)
    if not isinstance(ty, relax.TensorType):
        return True
    shape = ty.shape
    return isinstance(shape, relax.ShapeExpr) and all(isinstance(dim, tvm.tirx.IntImm) for dim in shape.values)


def shape_of(expr: relax.Expr) -> list[int] | None:
    """The shape of a tensor, or None when it is not fixed or not a tensor."""
    ty = expr.ty
    if not isinstance(ty, relax.TensorType) or not is_static(ty):
        return None
    return [int(dim) for dim in ty.shape.values]


def simplify(module: IRModule) -> IRModule:
    """Folds constants and drops operators that do nothing."""
    return rewritten(module, _Simplifier)


def rewritten(module: IRModule, mutator: type[relax.PyExprMutator]) -> IRModule:
    """A copy of the module in which ``main`` went through a mutator."""
    rewriter = mutator(tvm.IRModule(dict(module.functions.items())))
    main = rewriter.visit_expr(module["main"])
    # The builder holds the module's functions, and the loop programs that the rewriter has added.
    result = rewriter.builder_.get()
    result["main"] = main
    passes = [relax.transform.CanonicalizeBindings(), relax.transform.DeadCodeElimination()]
    return tvm.ir.transform.Sequential(passes)(result)


class Mutator(relax.PyExprMutator):
    """A mutator whose new variables are named after the one they are computed for."""

    _current = ""

    def visit_var_binding_(self, binding: relax.VarBinding) -> None:
        self._current = binding.var.name
        super().visit_var_binding_(binding)

    def emit(self, expr: relax.Expr) -> relax.Var:
        return self.builder_.emit(expr, name_hint=self._current)


@relax.expr_functor.mutator
class _Simplifier(Mutator):
    def visit_call_(self, call: Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, Op) or not call.args or shape_of(call) is None:
            return call
        name = call.op.name
        constant = self._constant(call.args[0])
        if constant is not None and name in _FOLDABLE:
            result = _FOLDABLE[name](constant, call)
            return call if result is None else relax.const(np.ascontiguousarray(result))
        if name in _IDENTITIES and _IDENTITIES[name](call):
            return call.args[0]
        if name == "relax.power":
            return self._power(call)
        if str(call.ty.dtype) == "float16" and name in _SUMS:
            return relax.op.astype(self.emit(_SUMS[name](self, call)), "float16")
        return call

    def wide(self, expr: relax.Expr) -> relax.Expr:
        """A half-precision value in single precision."""
        return self.emit(relax.op.astype(expr, "float32"))

    def _constant(self, expr: relax.Expr) -> np.ndarray | None:
        while isinstance(expr, relax.Var):
            expr = self.lookup_binding(expr)
        return expr.value.numpy() if isinstance(expr, GenericConst) else None

    def _power(self, call: Call) -> relax.Expr:
        """A square is a product and costs no call of ``pow``; its result is the exactly rounded one."""
        exponent = self._constant(call.args[1])
        x = call.args[0]
        if exponent is None or exponent.size != 1 or shape_of(call) != shape_of(x) or exponent.item() != 2:
            return call
        return relax.op.multiply(x, x) if str(x.ty.dtype).startswith("float") else call


def _reshape(value: np.ndarray, call: Call) -> np.ndarray:
    return value.reshape(shape_of(call))


def _permute(value: np.ndarray, call: Call) -> np.ndarray:
    axes = call.attrs.axes
    return value.transpose(None if axes is None else [int(axis) for axis in axes])


def _cast(value: np.ndarray, call: Call) -> np.ndarray | None:
    target = str(call.ty.dtype)
    # Casts to integers may round or wrap in more than one way: they stay as they are.
    return value.astype(target) if value.dtype.kind in "bi" or target.startswith("float") else None


_FOLDABLE: dict[str, Callable[[np.ndarray, Call], np.ndarray | None]] = {
    **dict.fromkeys(RESHAPES, _reshape),
    "relax.permute_dims": _permute,
    "relax.astype": _cast,
}


# Sums of halves are kept in single precision, and rounded once at the end.
_SUMS: dict[str, Callable[[_Simplifier, Call], relax.Expr]] = {
    "relax.matmul": lambda _, call: relax.op.matmul(call.args[0], call.args[1], out_dtype="float32"),
    "relax.sum": lambda s, call: relax.op.sum(s.wide(call.args[0]), call.attrs.axis, bool(call.attrs.keepdims)),
    "relax.mean": lambda s, call: relax.op.mean(s.wide(call.args[0]), call.attrs.axis, bool(call.attrs.keepdims)),
}


def _keeps_shape(call: Call) -> bool:
    return shape_of(call) == shape_of(call.args[0])


def _slices_all(call: Call) -> bool:
    strides = call.args[4].fields if len(call.args) > 4 else ()
    return _keeps_shape(call) and all(int(stride) == 1 for stride in strides)


_IDENTITIES: dict[str, Callable[[Call], bool]] = {
    "relax.astype": lambda call: str(call.ty.dtype) == str(call.args[0].ty.dtype),
    "relax.broadcast_to": _keeps_shape,
    "relax.strided_slice": _slices_all,
}
