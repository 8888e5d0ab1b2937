"""Questions about loop programs that the schedules ask: what an expression reads, and with what stride."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from tvm import s_tir, tirx
from tvm.ir import Call, Expr, Op, PrimType, TensorLoad, Var
from tvm.tirx import stmt as st

from .relax_integers import DOT4

_MOST_STEPS = 256

_PARTS = ("a", "b", "value", "condition", "true_value", "false_value")

# Calls that cost as little as an addition.
_CHEAP_CALLS = frozenset(("likely", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right", "fabs"))


def children(expr: Expr) -> Iterator[Expr]:
    """The operands of an expression."""
    if isinstance(expr, Call):
        yield from expr.args
    elif isinstance(expr, TensorLoad):
        yield from expr.indices
    else:
        for name in _PARTS:
            part = getattr(expr, name, None)
            if isinstance(part, Expr):
                yield part


def walk(expr: Expr) -> Iterator[Expr]:
    """An expression and all it is made of."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def loads(expr: Expr) -> list[TensorLoad]:
    """Every element of a buffer that an expression reads."""
    return [e for e in walk(expr) if isinstance(e, TensorLoad)]


def store_of(block: s_tir.SBlock) -> st.BufferStore | None:
    """The one store a block consists of, or None when it is more than that."""
    return block.body if isinstance(block.body, st.BufferStore) else None


def is_expensive(expr: Expr) -> bool:
    """Whether to compute an expression twice costs more than to keep its result."""
    for e in walk(expr):
        if isinstance(e, Call) and e.op.name.rpartition(".")[2] not in _CHEAP_CALLS:
            return True
        if isinstance(e, tirx.Div | tirx.Mod | tirx.FloorDiv | tirx.FloorMod) and reads_memory(e):
            return True
    return False


def is_dot4(expr: Expr) -> bool:
    """Whether an expression is four products of bytes in one operation, see relax_integers.py."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == DOT4


def choice_of(expr: Expr) -> tuple[Expr, Expr, Expr] | None:
    """The condition of a choice and its two values; None for other expressions."""
    if isinstance(expr, tirx.Select):
        return expr.condition, expr.true_value, expr.false_value
    if isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name.endswith(".if_then_else"):
        return expr.args[0], expr.args[1], expr.args[2]
    return None


def reads_memory(expr: Expr) -> bool:
    """Whether an element of a buffer is read anywhere in an expression."""
    return any(isinstance(e, TensorLoad) for e in walk(expr))


def dtype_of(expr: Expr) -> str:
    """The element type of an expression, as TVM writes it."""
    ty = expr.ty
    return str(ty.dtype) if isinstance(ty, PrimType) else str(ty)


def buffer_shape(buffer: Var) -> list[int] | None:
    """The shape of a buffer, or None when it is not fixed."""
    dims = list(buffer.ty.shape)
    return [int(d) for d in dims] if all(isinstance(d, tirx.IntImm) for d in dims) else None


def stride(buffer: Var, indices: Sequence[Expr], var: Var, extent: int = 2) -> int | None:
    """How far an access moves, in elements, with each step of ``var`` up to ``extent``; None when steps differ."""
    shape = buffer_shape(buffer)
    if shape is None:
        return None
    places = []
    for value in range(min(extent, _MOST_STEPS)):
        place = 0
        for index, dim in zip(indices, shape, strict=True):
            number = _evaluate(index, {var: value})
            if number is None:
                return None
            place = place * dim + number
        places.append(place)
    steps = {after - before for before, after in pairwise(places)}
    return steps.pop() if len(steps) == 1 else None if steps else 0


def _evaluate(expr: Expr, values: Mapping[Var, int]) -> int | None:
    """The value of an index expression in which variables that are not given are zero."""
    if isinstance(expr, Var):
        return next((v for var, v in values.items() if var.same_as(expr)), 0)
    if isinstance(expr, tirx.IntImm):
        return int(expr.value)
    if isinstance(expr, tirx.Cast):
        return _evaluate(expr.value, values)
    function = _ARITHMETIC.get(type(expr))
    if function is None:
        return None
    a, b = _evaluate(expr.a, values), _evaluate(expr.b, values)
    return None if a is None or b is None else function(a, b)


_ARITHMETIC: dict[type, Callable[[int, int], int | None]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.Min: min,
    tirx.Max: max,
    tirx.FloorDiv: lambda a, b: a // b if b else None,
    tirx.FloorMod: lambda a, b: a % b if b else None,
}
