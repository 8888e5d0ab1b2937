"""Relax operators to fused loop programs: TVM's legalisation and fusion, and constants folded in numpy."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call, GenericConst, IRModule, Op

from .errors import BuildError
from .onnx_import import Imported, summary

# These change a shape and move nothing: they become another name for the same memory, see program.py.
RESHAPES = ("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.flatten")


def lower(imported: Imported) -> IRModule:
    """The module with ``main`` as a sequence of calls of loop programs, and reshapes between them."""
    t = relax.transform
    module = tvm.ir.transform.Sequential(
        [t.DecomposeOpsForInference(), t.CanonicalizeBindings(), t.EliminateCommonSubexpr()]
    )(imported.module)
    module["main"] = _Folder(module).visit_expr(module["main"])
    module = t.DeadCodeElimination()(module)
    _refuse_dynamic(module, imported)
    try:
        return tvm.ir.transform.Sequential(
            [
                t.LegalizeOps(skip_ops=list(RESHAPES)),
                t.AnnotateTIROpPattern(),
                t.FuseOps(),
                t.FuseTIR(),
                t.DeadCodeElimination(),
            ]
        )(module)
    except Exception as error:
        raise BuildError(f"TVM cannot lower the model: {summary(error)}") from error


def _refuse_dynamic(module: IRModule, imported: Imported) -> None:
    """Refuses a model in which a shape depends on the data."""
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if not _is_static(binding.var.ty):
                raise BuildError(
                    f"the shape of its result is not known at build time ({binding.var.ty})",
                    node=imported.label_of(binding.var.name),
                    hint="modules have fixed shapes: cut the model before this node, or fix the size in the model",
                )


def _is_static(ty: tvm.ir.Type) -> bool:
    if isinstance(ty, tvm.ir.TupleType):
        return all(_is_static(field) for field in ty.fields)
    if not isinstance(ty, relax.TensorType):
        return True
    shape = ty.shape
    return isinstance(shape, relax.ShapeExpr) and all(isinstance(dim, tvm.tirx.IntImm) for dim in shape.values)


@relax.expr_functor.mutator
class _Folder(relax.PyExprMutator):
    """Computes reorderings and casts of constants now instead of at every inference."""

    def visit_call_(self, call: Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        if not isinstance(call.op, Op) or not call.args:
            return call
        constant = self._constant(call.args[0])
        if constant is None or (call.op.name not in _FOLDABLE):
            return call
        shape = [int(dim) for dim in call.ty.shape.values] if _has_static_tensor_type(call) else None
        result = _FOLDABLE[call.op.name](constant, call, shape)
        return call if result is None else relax.const(np.ascontiguousarray(result))

    def _constant(self, expr: relax.Expr) -> np.ndarray | None:
        if isinstance(expr, relax.Var):
            expr = self.lookup_binding(expr)
        return expr.value.numpy() if isinstance(expr, GenericConst) else None


def _has_static_tensor_type(call: Call) -> bool:
    return isinstance(call.ty, relax.TensorType) and _is_static(call.ty)


def _reshape(value: np.ndarray, _call: Call, shape: list[int] | None) -> np.ndarray | None:
    return None if shape is None else value.reshape(shape)


def _permute(value: np.ndarray, call: Call, _shape: list[int] | None) -> np.ndarray:
    axes = call.attrs.axes
    return value.transpose(None if axes is None else [int(axis) for axis in axes])


def _cast(value: np.ndarray, call: Call, _shape: list[int] | None) -> np.ndarray | None:
    target = str(call.ty.dtype)
    # Casts to integers may round or wrap in more than one way: they stay as they are.
    return value.astype(target) if value.dtype.kind in "bi" or target.startswith("float") else None


_FOLDABLE = {
    **dict.fromkeys(RESHAPES, _reshape),
    "relax.permute_dims": _permute,
    "relax.astype": _cast,
}
