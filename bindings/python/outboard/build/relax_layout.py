"""Layouts: convolutions get channels last, and the transposes that this takes move to where they cancel.

Each convolution or pooling is put between transposes of its own. Then every transpose sinks below the element-wise
operators, concatenations and reductions that follow it, until it meets its opposite. TVM's pass for the same purpose
fails on operators without a rule; here an operator without one merely stops a transpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call, GenericConst, IRModule, Op

from .relax_integers import is_integer_sum
from .relax_simplify import Mutator, rewritten, shape_of

# A full tile of the widest vectors: output channels are padded to it so that no tile of a kernel is cut off.
_TILE = 16
_SMALL_TILE = 4

_UNARY = frozenset(
    f"relax.{name}"
    for name in (
        "abs acos acosh asin asinh atan atanh ceil clip cos cosh erf exp floor isfinite isinf isnan log logical_not "
        "negative nn.gelu nn.gelu_tanh nn.leakyrelu nn.relu nn.relu6 nn.silu nn.softplus round rsqrt sigmoid sign sin "
        "sinh sqrt square tan tanh astype bitwise_not trunc"
    ).split()
)
_BINARY = frozenset(
    f"relax.{name}"
    for name in (
        "add subtract multiply divide maximum minimum power floor_divide mod equal not_equal less less_equal greater "
        "greater_equal logical_and logical_or logical_xor"
    ).split()
)
_REDUCTIONS: dict[str, Callable[..., relax.Expr]] = {
    "relax.sum": relax.op.sum,
    "relax.mean": relax.op.mean,
    "relax.max": relax.op.max,
    "relax.min": relax.op.min,
    "relax.prod": relax.op.prod,
}
_CONVOLUTIONS: dict[str, Callable[..., relax.Expr]] = {
    "relax.nn.conv1d": relax.op.nn.conv1d,
    "relax.nn.conv2d": relax.op.nn.conv2d,
}
_POOLS: dict[str, Callable[..., relax.Expr]] = {
    "relax.nn.max_pool2d": relax.op.nn.max_pool2d,
    "relax.nn.avg_pool2d": relax.op.nn.avg_pool2d,
}


def channels_last(module: IRModule) -> IRModule:
    """Gives convolutions channels last, sinks the transposes, and makes the trivial ones reshapes."""
    values = [binding.value for block in module["main"].body.blocks for binding in block.bindings]
    if not any(name_of(value) in _CONVOLUTIONS or is_integer_sum(value) for value in values):
        return module
    return rewritten(rewritten(rewritten(module, _Convolutions), _Sinking), _Trivial)


def pad_columns(module: IRModule) -> IRModule:
    """Pads the constant weights of products and convolutions to whole tiles of outputs, and cuts the outputs back."""
    return rewritten(module, _Padding)


def name_of(expr: relax.Expr) -> str | None:
    """The name of the operator that an expression calls; None for other expressions."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else None


def _inverse(axes: Sequence[int]) -> list[int]:
    return [int(i) for i in np.argsort(axes)]


class OperatorMutator(Mutator):
    """Gives each operator to ``rewrite``, which returns what takes its place, or None."""

    def visit_call_(self, call: Call) -> relax.Expr:
        call = self.visit_expr_post_order(call)
        result = (
            self.rewrite(call, name_of(call)) if name_of(call) and call.args and shape_of(call) is not None else None
        )
        return call if result is None else result

    def rewrite(self, call: Call, name: str | None) -> relax.Expr | None:
        raise NotImplementedError

    def value_of(self, expr: relax.Expr) -> relax.Expr:
        """What a variable is bound to, through variables that stand for others."""
        while isinstance(expr, relax.Var):
            value = self.lookup_binding(expr)
            if value is None:
                return expr
            expr = value
        return expr

    def constant(self, expr: relax.Expr) -> np.ndarray | None:
        value = self.value_of(expr)
        return value.value.numpy() if isinstance(value, GenericConst) else None

    def transposed(self, expr: relax.Expr, axes: Sequence[int]) -> relax.Expr:
        """``expr`` with its axes in another order; constants are reordered now, two transposes become one."""
        axes = [int(axis) for axis in axes]
        constant = self.constant(expr)
        if constant is not None:
            return relax.const(np.ascontiguousarray(constant.transpose(axes)))
        source, before = self.transpose_of(expr)
        if before is not None:
            axes = [before[axis] for axis in axes]
        if axes == list(range(len(axes))):
            return source
        return self.emit(relax.op.permute_dims(source, axes))

    def transpose_of(self, expr: relax.Expr) -> tuple[relax.Expr, list[int] | None]:
        """The operand and the order of a transpose; the expression itself and None when it is none."""
        value = self.value_of(expr)
        if name_of(value) != "relax.permute_dims":
            return expr, None
        rank = len(shape_of(value.args[0]) or ())
        axes = value.attrs.axes
        return value.args[0], list(range(rank))[::-1] if axes is None else [int(axis) % rank for axis in axes]


@relax.expr_functor.mutator
class _Convolutions(OperatorMutator):
    def rewrite(self, call: Call, name: str | None) -> relax.Expr | None:
        a = call.attrs
        operator = _CONVOLUTIONS.get(name or "")
        if operator is None:
            return None
        if (a.data_layout, a.kernel_layout) not in (("NCHW", "OIHW"), ("NCW", "OIW")):
            return None
        rank = len(a.data_layout)
        half = str(call.ty.dtype) == "float16"  # sums of halves are kept in single precision
        data, kernel = ("NHWC", "HWIO") if rank == 4 else ("NWC", "WIO")
        result = operator(
            self.transposed(call.args[0], [0, *range(2, rank), 1]),
            self.transposed(call.args[1], [*range(2, rank), 1, 0]),
            strides=a.strides,
            padding=a.padding,
            dilation=a.dilation,
            groups=int(a.groups),
            data_layout=data,
            kernel_layout=kernel,
            out_layout=data,
            out_dtype="float32" if half else None,
        )
        if half:
            result = relax.op.astype(self.emit(result), "float16")
        return self.transposed(self.emit(result), [0, rank - 1, *range(1, rank - 1)])


@relax.expr_functor.mutator
class _Sinking(OperatorMutator):
    def rewrite(self, call: Call, name: str | None) -> relax.Expr | None:
        if name == "relax.permute_dims":
            inner, own = self.transpose_of(call.args[0])[1], self.transpose_of(call)[1]
            return None if inner is None or own is None else self.transposed(call.args[0], own)
        if name in _UNARY:
            return self._unary(call)
        if name in _BINARY:
            return self._binary(call)
        if name == "relax.concat":
            return self._concat(call)
        if name in _REDUCTIONS:
            return self._reduction(call, _REDUCTIONS[name])
        if name == "relax.squeeze":
            return self._squeeze(call)
        if name in _POOLS and call.attrs.layout == "NCHW" and self.transpose_of(call.args[0])[1] == [0, 3, 1, 2]:
            return self._pool(call, _POOLS[name])
        return None

    def _pool(self, call: Call, operator: Callable[..., relax.Expr]) -> relax.Expr:
        a = call.attrs
        result = operator(
            self.transposed(call.args[0], [0, 2, 3, 1]),
            pool_size=a.pool_size,
            strides=a.strides,
            padding=a.padding,
            dilation=a.dilation,
            ceil_mode=bool(a.ceil_mode),
            count_include_pad=bool(a.count_include_pad),
            layout="NHWC",
            out_layout="NHWC",
        )
        return self.transposed(self.emit(result), [0, 3, 1, 2])

    def _unary(self, call: Call) -> relax.Expr | None:
        source, axes = self.transpose_of(call.args[0])
        if axes is None:
            return None
        result = self.emit(Call(call.op, [source, *call.args[1:]], call.attrs))
        return self.transposed(result, axes)

    def _binary(self, call: Call) -> relax.Expr | None:
        shape = shape_of(call) or []
        found = [self.transpose_of(arg) for arg in call.args]
        axes = next((a for (_, a), arg in zip(found, call.args, strict=True) if a and shape_of(arg) == shape), None)
        if axes is None:
            return None
        operands = []
        for (source, own), arg in zip(found, call.args, strict=True):
            constant = self.constant(arg)
            if own == axes:
                operands.append(source)
            elif constant is not None:
                wide = constant.reshape([1] * (len(shape) - constant.ndim) + list(constant.shape))
                moved = wide.transpose(_inverse(axes)) if constant.size > 1 else constant
                operands.append(relax.const(np.ascontiguousarray(moved)))
            else:
                return None
        return self.transposed(self.emit(Call(call.op, operands, call.attrs)), axes)

    def _concat(self, call: Call) -> relax.Expr | None:
        tensors = self.value_of(call.args[0])
        if not isinstance(tensors, tvm.ir.Tuple) or call.attrs.axis is None:
            return None
        found = [self.transpose_of(field) for field in tensors.fields]
        axes = found[0][1]
        if axes is None or any(own != axes for _, own in found):
            return None
        axis = axes[int(call.attrs.axis) % len(axes)]
        return self.transposed(self.emit(relax.op.concat([source for source, _ in found], axis)), axes)

    def _reduction(self, call: Call, operator: Callable[..., relax.Expr]) -> relax.Expr | None:
        source, axes = self.transpose_of(call.args[0])
        if axes is None or call.attrs.axis is None:
            return None
        reduced = {int(axis) % len(axes) for axis in call.attrs.axis}
        keep = bool(call.attrs.keepdims)
        result = self.emit(operator(source, sorted(axes[axis] for axis in reduced), keepdims=keep))
        return self.transposed(result, axes if keep else _without(axes, reduced))

    def _squeeze(self, call: Call) -> relax.Expr | None:
        source, axes = self.transpose_of(call.args[0])
        if axes is None or call.attrs.axis is None:
            return None
        removed = {int(axis) % len(axes) for axis in call.attrs.axis}
        result = self.emit(relax.op.squeeze(source, sorted(axes[axis] for axis in removed)))
        return self.transposed(result, _without(axes, removed))


def _without(axes: Sequence[int], removed: set[int]) -> list[int]:
    """The order of the axes that are left when some of a transpose's results go."""
    left = [axis for place, axis in enumerate(axes) if place not in removed]
    return [sorted(left).index(axis) for axis in left]


@relax.expr_functor.mutator
class _Trivial(OperatorMutator):
    """A transpose that moves only axes of size one moves no data."""

    def rewrite(self, call: Call, name: str | None) -> relax.Expr | None:
        if name != "relax.permute_dims":
            return None
        source, axes = self.transpose_of(call)
        shape = shape_of(source)
        if axes is None or shape is None:
            return None
        moving = [axis for axis in axes if shape[axis] != 1]
        return relax.op.reshape(source, shape_of(call)) if moving == sorted(moving) else None


@relax.expr_functor.mutator
class _Padding(OperatorMutator):
    def rewrite(self, call: Call, name: str | None) -> relax.Expr | None:
        if name == "relax.matmul":
            weights = self.constant(call.args[1])
            if weights is None or weights.ndim != 2:
                return None
            padded = _padded(weights)
            return None if padded is None else self._cut(call, relax.op.matmul(call.args[0], relax.const(padded)))
        if name in _CONVOLUTIONS and int(call.attrs.groups) == 1 and call.attrs.kernel_layout in ("HWIO", "WIO"):
            weights = self.constant(call.args[1])
            padded = None if weights is None else _padded(weights)
            if padded is not None:
                return self._cut(call, Call(call.op, [call.args[0], relax.const(padded)], call.attrs))
        return None

    def _cut(self, call: Call, wide: relax.Expr) -> relax.Expr:
        shape = shape_of(call) or []
        last = len(shape) - 1
        return relax.op.strided_slice(self.emit(wide), [last], [0], [shape[last]])


def _padded(weights: np.ndarray) -> np.ndarray | None:
    """Weights with zeros behind their last axis up to a whole number of tiles; None when there is nothing to add."""
    columns = weights.shape[-1]
    missing = -columns % (_TILE if columns > _SMALL_TILE * 2 else _SMALL_TILE)
    if columns == 1 or missing == 0 or weights.dtype.kind != "f":
        return None
    return np.pad(weights, [(0, 0)] * (weights.ndim - 1) + [(0, missing)])
