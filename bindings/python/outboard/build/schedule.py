"""The one schedule rule: inline what is cheap, and give every reduction a tile of accumulators in registers.

A loop program from TVM computes each operation over its whole tensor before the next begins, and adds into memory.
Here it becomes:

* element-wise operations are computed where they are used, unless that would repeat expensive work;
* a reduction whose innermost output axis is contiguous computes a tile of ``rows`` x ``vectors`` vector registers, with
  the reduction loops outside and the tile unrolled inside; what follows element by element is done on the tile;
* a reduction along contiguous memory sums into one vector first.

A rule that does not fit a program leaves it as it is: schedules change speed, never results other than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import s_tir, tirx
from tvm.ir import TensorLoad, Var
from tvm.s_tir.schedule import LoopRV, SBlockRV, ScheduleError
from tvm.tirx.stmt import ForKind

from . import tir_analysis as analysis

_REDUCE = 2  # IterVar.CommReduce
_BIG_WEIGHTS = 1 << 18
_ROW_BYTES = 4096
"""Largest row of accumulators."""
_SMALLEST_VECTOR = 8
_MOST_RECOMPUTATION = 2
"""How often a cheap value may be computed again instead of being kept."""


@dataclass(frozen=True)
class Vectors:
    """The vector registers of the CPU the code is for."""

    nbytes: int = 16
    registers: int = 16


def apply(function: tirx.PrimFunc, vectors: Vectors) -> tirx.PrimFunc:
    """The scheduled form of a loop program."""
    sch = s_tir.Schedule(tvm.IRModule({"main": function}))
    root = _root(sch)
    if root is None:
        return function
    _inline(sch, root)
    for block in sch.get_child_blocks(root):
        if _is_reduction(sch.get(block)):
            sch = _attempt(sch, block, vectors)
    return sch.mod["main"]


def _root(sch: s_tir.Schedule) -> SBlockRV | None:
    try:
        return sch.get_sblock("root")
    except ScheduleError:
        return None


def _is_reduction(block: s_tir.SBlock) -> bool:
    return any(v.iter_type == _REDUCE for v in block.iter_vars)


def _extents(block: s_tir.SBlock) -> list[int]:
    return [int(v.dom.extent) for v in block.iter_vars]


# ---- inlining ----


def _inline(sch: s_tir.Schedule, root: SBlockRV) -> None:
    """Computes cheap element-wise results at their uses."""
    for block in sch.get_child_blocks(root):
        body = sch.get(block)
        store = analysis.store_of(body)
        consumers = sch.get_consumers(block)
        if store is None or _is_reduction(body) or not consumers:
            continue
        uses = sum(_uses(sch.get(consumer), store.buffer) for consumer in consumers)
        elements = math.prod(_extents(body))
        limit = 1 if analysis.is_expensive(store.value) else _MOST_RECOMPUTATION
        if uses <= limit * elements or _is_copy(store):
            try:
                sch.compute_inline(block)
            except ScheduleError:
                continue


def _uses(consumer: s_tir.SBlock, buffer: Var) -> int:
    """How many elements of ``buffer`` a block reads over its whole run."""
    store = analysis.store_of(consumer)
    if store is None:
        return 1 << 62
    # The same element read twice is computed once: the C compiler sees that it is the same expression.
    reads = {str(load) for load in analysis.loads(store.value) if load.source.same_as(buffer)}
    return max(len(reads), 1) * math.prod(_extents(consumer))


def _is_copy(store: tirx.stmt.BufferStore) -> bool:
    return isinstance(store.value, TensorLoad | tirx.IntImm | tirx.FloatImm)


# ---- reductions ----


@dataclass(frozen=True)
class _Plan:
    """A tile: which loops it cuts (numbers of loops of the block), and how large it is."""

    column: int
    lanes: int
    vectors: int
    row: int | None
    rows: int
    column_first: bool


def _attempt(sch: s_tir.Schedule, block: SBlockRV, vectors: Vectors) -> s_tir.Schedule:
    """A schedule with this reduction in registers, or ``sch`` itself when no rule fits."""
    for rule in (_tile, _accumulate):
        trial = sch.copy()
        try:
            if rule(trial, block, vectors):
                return trial
        except ScheduleError:
            continue
    return sch


def _accumulate(sch: s_tir.Schedule, block: SBlockRV, _vectors: Vectors) -> bool:
    """Sums into a local variable, or into a local row where the columns are contiguous, instead of into memory."""
    body = sch.get(block)
    loops = sch.get_loops(block)
    store = analysis.store_of(body)
    if store is None or len(loops) != len(body.iter_vars):
        return False
    kinds = [v.iter_type for v in body.iter_vars]
    outer = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != _REDUCE]
    reduce = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == _REDUCE]
    column = _column(body, store)
    row: list[LoopRV] = []
    if column is not None and _extents(body)[column] * _itemsize(store) <= _ROW_BYTES:
        row = [loops[column]]
        outer = [loop for loop in outer if not loop.same_as(loops[column])]
    if not outer:
        outer = [sch.add_unit_loop(loops[0])]
    sch.reorder(*outer, *reduce, *row)
    sch.reverse_compute_at(sch.cache_write(block, 0, "global"), outer[-1])
    sch.decompose_reduction(block, reduce[0])
    return True


def _column(body: s_tir.SBlock, store: tirx.stmt.BufferStore) -> int | None:
    """The loop that runs over contiguous results and contiguous operands."""
    extents = _extents(body)
    spatial = [i for i, v in enumerate(body.iter_vars) if v.iter_type != _REDUCE and extents[i] > 1]
    if not spatial:
        return None
    var = body.iter_vars[spatial[-1]].var
    contiguous = analysis.stride(store.buffer, store.indices, var) == 1 and _moves_by(store, var, (1,))
    return spatial[-1] if contiguous else None


def _sum_lanes_first(sch: s_tir.Schedule, block: SBlockRV, vectors: Vectors) -> SBlockRV:
    """Splits a reduction along contiguous memory into one per lane; gives the block that does the bulk of the work."""
    body = sch.get(block)
    loops = sch.get_loops(block)
    store = analysis.store_of(body)
    if store is None or len(loops) != len(body.iter_vars):
        return block
    last = max(
        (i for i, v in enumerate(body.iter_vars) if v.iter_type == _REDUCE and _extents(body)[i] > 1), default=-1
    )
    lanes = vectors.nbytes // _itemsize(store)
    if last < 0 or _extents(body)[last] % lanes or not _moves_by(store, body.iter_vars[last].var, (1,)):
        return block
    columns = [v.var for v in body.iter_vars if v.iter_type != _REDUCE]
    if any(
        _moves_by(store, column, (0, 1))
        for column in columns
        if analysis.stride(store.buffer, store.indices, column) == 1
    ):
        return block
    _, lane = sch.split(loops[last], [None, lanes])
    return sch.rfactor(lane, len(store.indices))


def _moves_by(store: tirx.stmt.BufferStore, var: Var, strides: Sequence[int]) -> bool:
    """Whether every load moves by one of ``strides`` as ``var`` goes up, and one of them moves by 1."""
    found = [
        analysis.stride(load.source, load.indices, var)
        for load in analysis.loads(store.value)
        if not load.source.same_as(store.buffer)
    ]
    return 1 in found and all(s in (*strides, 0) for s in found)


def _itemsize(store: tirx.stmt.BufferStore) -> int:
    return max(int(np.dtype(analysis.dtype_of(store.value)).itemsize), 1)


def _plan(body: s_tir.SBlock, loops: int, vectors: Vectors) -> _Plan | None:
    store = analysis.store_of(body)
    if store is None or body.init is None or loops != len(body.iter_vars) or not _is_vectorisable(store.value):
        return None
    column = _column(body, store)
    if column is None:
        return None
    extents = _extents(body)
    lanes = vectors.nbytes // _itemsize(store)
    while lanes > 1 and extents[column] % lanes:
        lanes //= 2
    if lanes * _itemsize(store) < _SMALLEST_VECTOR:
        return None
    row = _row(body, store, column)
    best: tuple[float, int, int] | None = None
    for count in (count for count in (1, 2, 3, 4, 6, 8) if extents[column] % (count * lanes) == 0):
        for rows in _divisors(extents[row]) if row is not None else (1,):
            registers = rows * count + (count if rows > 1 else 0) + 1
            if registers <= vectors.registers:
                cost = _cost(rows, count)
                best = min(best or (cost, rows, count), (cost, rows, count))
    if best is None:
        return None
    weights = math.prod(extents[i] for i, v in enumerate(body.iter_vars) if v.iter_type == _REDUCE or i == column)
    return _Plan(column, lanes, best[2], row, best[1], weights * _itemsize(store) > _BIG_WEIGHTS)


def _cost(rows: int, count: int) -> float:
    """Time of a multiplication, roughly: the loads it needs, and the wait for the one before."""
    return 1 + 1 / rows + 1 / count + max(0.0, 8 / (rows * count) - 1)


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, 33) if n % d == 0]


def _row(body: s_tir.SBlock, store: tirx.stmt.BufferStore, column: int) -> int | None:
    """The loop whose iterations share the vectors that a step loads: the innermost one that does."""
    column_var = body.iter_vars[column].var
    vectors = [
        load
        for load in analysis.loads(store.value)
        if not load.source.same_as(store.buffer) and analysis.stride(load.source, load.indices, column_var) == 1
    ]
    extents = _extents(body)
    for i in reversed(range(len(extents))):
        is_row = i != column and body.iter_vars[i].iter_type != _REDUCE and extents[i] > 1
        if is_row and any(analysis.stride(load.source, load.indices, body.iter_vars[i].var) == 0 for load in vectors):
            return i
    return None


_VECTORISABLE = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min, tirx.Cast, tirx.IntImm, tirx.FloatImm)


def _is_vectorisable(expr: tirx.expr.ExprOp) -> bool:
    """Whether an expression is made of operations that vector types of C have."""
    if isinstance(expr, TensorLoad):
        return True
    return isinstance(expr, _VECTORISABLE) and all(_is_vectorisable(child) for child in analysis.children(expr))


def _tile(sch: s_tir.Schedule, block: SBlockRV, vectors: Vectors) -> bool:
    """Computes a tile of vector registers at a time, and what follows on the tile."""
    block = _sum_lanes_first(sch, block, vectors)
    plan = _plan(sch.get(block), len(sch.get_loops(block)), vectors)
    if plan is None:
        return False
    loops = sch.get_loops(block)
    kinds = [v.iter_type for v in sch.get(block).iter_vars]
    reduce = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == _REDUCE]
    followers = _followers(sch, block)
    outer: list[LoopRV] = []
    rows: list[LoopRV] = []
    columns: list[LoopRV] = []
    for i, (loop, kind) in enumerate(zip(loops, kinds, strict=True)):
        if i == plan.column:
            column_outer, *columns = sch.split(loop, [None, plan.vectors, plan.lanes])
        elif i == plan.row and plan.rows > 1:
            row_outer, *rows = sch.split(loop, [None, plan.rows])
            outer.append(row_outer)
        elif kind != _REDUCE:
            outer.append(loop)
    outer = [column_outer, *outer] if plan.column_first else [*outer, column_outer]
    tile = [*rows, *columns]
    sch.reorder(*outer, *reduce, *tile)
    copy = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(copy, outer[-1])
    for follower in followers:
        sch.reverse_compute_at(follower, outer[-1])
    _vectorise(sch, tile)
    init = sch.decompose_reduction(block, reduce[0])
    _vectorise(sch, sch.get_loops(init)[-len(tile) :])
    _vectorise_copy(sch, copy, plan, len(outer))
    return True


def _vectorise(sch: s_tir.Schedule, loops: Sequence[LoopRV]) -> None:
    """Makes the innermost loop one vector operation, and writes the loops around it out."""
    for loop in loops[:-1]:
        if sch.get(loop).kind == ForKind.SERIAL:
            sch.unroll(loop)
    if sch.get(loops[-1]).kind == ForKind.SERIAL:
        sch.vectorize(loops[-1])


def _vectorise_copy(sch: s_tir.Schedule, copy: SBlockRV, plan: _Plan, outer: int) -> None:
    """Moves the accumulators out of their registers with the same vectors."""
    inner = [loop for loop in sch.get_loops(copy)[outer:] if int(sch.get(loop).extent) > 1]
    if inner and int(sch.get(inner[-1]).extent) % plan.lanes == 0:
        _vectorise(sch, [*inner[:-1], *sch.split(inner[-1], [None, plan.lanes])])


def _followers(sch: s_tir.Schedule, block: SBlockRV) -> list[SBlockRV]:
    """The chain of element-wise blocks behind a reduction, each the only reader of the one before."""
    followers: list[SBlockRV] = []
    while True:
        consumers = sch.get_consumers(followers[-1] if followers else block)
        if len(consumers) != 1 or not _follows(sch.get(consumers[0])):
            return followers
        followers.append(consumers[0])


def _follows(body: s_tir.SBlock) -> bool:
    return not _is_reduction(body) and analysis.store_of(body) is not None
