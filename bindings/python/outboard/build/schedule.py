"""The one schedule rule: inline what is cheap, and give every reduction a tile of accumulators in registers.

A loop program from TVM computes each operation over its whole tensor before the next begins, and adds into memory.
Here it becomes:

* element-wise operations are computed where they are used, unless that would repeat expensive work;
* constants are laid out in panels as wide as a tile, so that they are read from front to back;
* a reduction whose innermost output axis is contiguous computes a tile of ``rows`` x ``vectors`` vector registers, with
  the reduction loops outside and the tile unrolled inside; what follows element by element is done on the tile;
* a reduction along contiguous memory sums into one vector first.

A rule that does not fit a program leaves it as it is: schedules change speed, never results other than rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
_OFFERED = 7
"""How many tiles of a reduction are offered for a choice, the best by their cost."""
_TURNED = 2
"""How many of these with their loops in another order, and with rows along another axis."""
_MOST_RECOMPUTATION = 2
"""How often a cheap value may be computed again instead of being kept."""


@dataclass(frozen=True)
class Vectors:
    """The vector registers of the CPU the code is for."""

    nbytes: int = 16
    registers: int = 16


@dataclass(frozen=True)
class Scheduled:
    """A scheduled loop program, and the parameters it wants packed: the columns of each panel, by parameter."""

    function: tirx.PrimFunc
    packed: dict[int, int]


def apply(
    function: tirx.PrimFunc, vectors: Vectors, constants: frozenset[int] = frozenset(), tile: Tile | None = None
) -> Scheduled:
    """The scheduled form of a loop program. ``constants`` are the parameters whose layout may be changed.

    ``tile`` is the tile of the reduction that does most of the work; without it, it is the first of :func:`tiles`.
    """
    sch, reductions, heaviest = _prepared(function)
    packed: dict[int, int] = {}
    for number, block in enumerate(reductions):
        chosen = tile if number == heaviest else None
        sch = _attempt(sch, block, vectors, constants - packed.keys(), packed, chosen)
    return Scheduled(sch.mod["main"], packed)


def tiles(function: tirx.PrimFunc, vectors: Vectors) -> list[Tile]:
    """Tiles that may suit the reduction that does most of the work, the rule's own first; none where no tile fits."""
    sch, reductions, heaviest = _prepared(function)
    if not reductions:
        return []
    try:
        reduction = _Reduction.of(sch, _sum_lanes_first(sch, reductions[heaviest], vectors))
    except Exception:  # as in _attempt
        return []
    return [] if reduction is None else _tiles(reduction, vectors)


def pack(array: np.ndarray, columns: int) -> np.ndarray:
    """An array in panels of columns, each of which lies together: ``[…, n]`` becomes ``[n / columns, …, columns]``.

    >>> pack(np.arange(8).reshape(2, 4), 2).tolist()
    [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    """
    panels = array.reshape(*array.shape[:-1], -1, columns)
    return np.ascontiguousarray(np.moveaxis(panels, -2, 0))


def _root(sch: s_tir.Schedule) -> SBlockRV | None:
    try:
        return sch.get_sblock("root")
    except ScheduleError:
        return None


def _prepared(function: tirx.PrimFunc) -> tuple[s_tir.Schedule, list[SBlockRV], int]:
    """A schedule in which what is cheap is inlined, its reductions, and the number of the one with the most steps."""
    sch = s_tir.Schedule(tvm.IRModule({"main": function}))
    root = _root(sch)
    if root is None:
        return sch, [], 0
    _inline(sch, root)
    reductions = [block for block in sch.get_child_blocks(root) if _is_reduction(sch.get(block))]
    steps = [math.prod(_extents(sch.get(block))) for block in reductions]
    return sch, reductions, steps.index(max(steps)) if steps else 0


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
class _Reduction:
    """A block that sums (or takes the largest, …) over some of its loops, each of which runs over one of its axes."""

    store: tirx.stmt.BufferStore
    axes: tuple[Var, ...]
    extents: tuple[int, ...]
    reduced: tuple[bool, ...]

    @staticmethod
    def of(sch: s_tir.Schedule, block: SBlockRV) -> _Reduction | None:
        body = sch.get(block)
        store = analysis.store_of(body)
        if store is None or body.init is None or len(sch.get_loops(block)) != len(body.iter_vars):
            return None
        return _Reduction(
            store,
            tuple(v.var for v in body.iter_vars),
            tuple(_extents(body)),
            tuple(v.iter_type == _REDUCE for v in body.iter_vars),
        )

    @property
    def itemsize(self) -> int:
        return int(np.dtype(analysis.dtype_of(self.store.value)).itemsize)

    def loads(self) -> list[TensorLoad]:
        """What it reads, other than the sum so far."""
        return [load for load in analysis.loads(self.store.value) if not load.source.same_as(self.store.buffer)]

    def stride(self, load: TensorLoad, axis: int) -> int | None:
        return analysis.stride(load.source, load.indices, self.axes[axis], self.extents[axis])

    def reads_in_order(self, axis: int) -> bool:
        """Whether along an axis every operand stands still or moves by one element, and one of them moves."""
        strides = [self.stride(load, axis) for load in self.loads()]
        return 1 in strides and all(s in (0, 1) for s in strides)

    def stores_in_order(self, axis: int) -> bool:
        return analysis.stride(self.store.buffer, self.store.indices, self.axes[axis], self.extents[axis]) == 1

    def column(self) -> int | None:
        """The axis of contiguous results made of contiguous operands."""
        free = [i for i, reduced in enumerate(self.reduced) if not reduced and self.extents[i] > 1]
        return free[-1] if free and self.stores_in_order(free[-1]) and self.reads_in_order(free[-1]) else None

    def rows(self, column: int) -> list[int]:
        """The axes along which the vectors of a column are used again and again, the innermost first."""
        vectors = [load for load in self.loads() if self.stride(load, column) == 1]
        free = [i for i, reduced in enumerate(self.reduced) if i != column and not reduced and self.extents[i] > 1]
        return [axis for axis in reversed(free) if any(self.stride(load, axis) == 0 for load in vectors)]


@dataclass(frozen=True)
class Tile:
    """What a reduction computes at a time: which loops of the block it cuts, by their numbers, and how large it is."""

    column: int
    lanes: int
    """Elements of a vector."""
    vectors: int
    """Vectors along the column."""
    row: int | None
    rows: int
    column_first: bool
    """Whether the loop over the columns' tiles is the outermost one."""


def _attempt(
    sch: s_tir.Schedule,
    block: SBlockRV,
    vectors: Vectors,
    constants: frozenset[int],
    packed: dict[int, int],
    tile: Tile | None,
) -> s_tir.Schedule:
    """A schedule with this reduction in registers, or ``sch`` itself when no rule fits. Adds to ``packed``."""
    for rule in (_tile, _accumulate):
        trial = sch.copy()
        try:
            panels = rule(trial, block, vectors, constants, tile)
        except Exception:  # TVM refuses a schedule in many ways, some of them by failing a check of its own
            continue
        if panels is not None:
            packed.update(panels)
            return trial
    return sch


def _accumulate(
    sch: s_tir.Schedule, block: SBlockRV, _vectors: Vectors, _constants: frozenset[int], _tile: Tile | None
) -> dict[int, int] | None:
    """Sums into a local variable, or into a local row where the columns are contiguous, instead of into memory."""
    reduction = _Reduction.of(sch, block)
    if reduction is None:
        return None
    loops = sch.get_loops(block)
    column = reduction.column()
    row: list[LoopRV] = []
    if column is not None and reduction.extents[column] * reduction.itemsize <= _ROW_BYTES:
        row = [loops[column]]
    free = zip(loops, reduction.reduced, strict=True)
    outer = [loop for i, (loop, reduced) in enumerate(free) if not reduced and not (row and i == column)]
    reduce = [loop for loop, reduced in zip(loops, reduction.reduced, strict=True) if reduced]
    if not outer:
        outer = [sch.add_unit_loop(loops[0])]
    sch.reorder(*outer, *reduce, *row)
    sch.reverse_compute_at(sch.cache_write(block, 0, "global"), outer[-1])
    sch.decompose_reduction(block, reduce[0])
    return {}


def _sum_lanes_first(sch: s_tir.Schedule, block: SBlockRV, vectors: Vectors) -> SBlockRV:
    """Splits a reduction along contiguous memory into one per lane; gives the block that does the bulk of the work."""
    reduction = _Reduction.of(sch, block)
    if reduction is None or reduction.column() is not None:
        return block
    last = max((i for i, reduced in enumerate(reduction.reduced) if reduced and reduction.extents[i] > 1), default=-1)
    lanes = vectors.nbytes // reduction.itemsize
    if last < 0 or reduction.extents[last] % lanes or not reduction.reads_in_order(last):
        return block
    _, lane = sch.split(sch.get_loops(block)[last], [None, lanes])
    return sch.rfactor(lane, len(reduction.store.indices))


def _tiles(reduction: _Reduction, vectors: Vectors) -> list[Tile]:
    """The best tiles of a reduction by what they should cost, then the best of them in other ways; at most 11."""
    column = reduction.column()
    if column is None or not _is_vectorisable(reduction.store.value):
        return []
    columns = reduction.extents[column]
    lanes = vectors.nbytes // reduction.itemsize
    while lanes > 1 and columns % lanes:
        lanes //= 2
    if lanes * reduction.itemsize < _SMALLEST_VECTOR:
        return []
    shared = [n for i, n in enumerate(reduction.extents) if reduction.reduced[i] or i == column]
    column_first = math.prod(shared) * reduction.itemsize > _BIG_WEIGHTS
    cost = _Cost.of(reduction, vectors, column)
    found: list[list[Tile]] = []
    axes: list[int | None] = [*reduction.rows(column)]
    for row in axes or [None]:
        sizes = [
            (rows, count)
            for count in (1, 2, 3, 4, 6, 8)
            for rows in (_divisors(reduction.extents[row]) if row is not None else (1,))
            if columns % (count * lanes) == 0 and _registers(rows, count) <= vectors.registers
        ]
        sizes.sort(key=lambda size: (cost(*size), *size))
        found.append([Tile(column, lanes, count, row, rows, column_first) for rows, count in sizes])
    innermost, *others = found
    turned = [replace(tile, column_first=not column_first) for tile in innermost[:_TURNED]]
    return innermost[:_OFFERED] + turned + [tile for other in others for tile in other][:_TURNED]


def _registers(rows: int, count: int) -> int:
    """How many vector registers a tile needs: its sums, the vectors that its rows share, and the rows' factor."""
    return rows * count + (count if rows > 1 else 0) + 1


@dataclass(frozen=True)
class _Cost:
    """Time of a product in a tile, roughly: the loads it needs, the wait for the one before, a share of the rest.

    The weights are fitted to the times of all tiles of the benchmark's networks: docs/reference/models.md, "Tuning".
    """

    load: float
    """Of a vector that the rows of a tile share."""
    broadcast: float
    """Of a factor that the vectors of a row share."""
    wait: float
    latency: float
    """Sums that are under way at a time."""
    rest: float
    """Of a sum, spread over its products: it is set to zero before them and stored behind them."""

    @staticmethod
    def of(reduction: _Reduction, vectors: Vectors, column: int) -> _Cost:
        steps = math.prod(n for n, reduced in zip(reduction.extents, reduction.reduced, strict=True) if reduced)
        if sum(reduction.stride(load, column) == 1 for load in reduction.loads()) > 1:
            # Each row has vectors of its own, as in a convolution of single channels: what rows share is little.
            return _Cost(0.25, 0.1, 0.5, 6, 0.1 / steps)
        is_float = analysis.dtype_of(reduction.store.value).startswith("float")
        load, latency = (3, 10) if vectors.nbytes > 32 else (1, 8)
        return _Cost(load, 1, 1, latency, (0.1 if is_float else 0.6) / steps)

    def __call__(self, rows: int, count: int) -> float:
        sums = rows * count
        waiting = max(0.0, self.latency / sums - 1)
        return self.load / rows + self.broadcast / count + self.wait * waiting + self.rest * sums


def _divisors(n: int) -> list[int]:
    return [d for d in range(1, 33) if n % d == 0]


_VECTORISABLE = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Max, tirx.Min, tirx.Cast, tirx.IntImm, tirx.FloatImm)


def _is_vectorisable(expr: tirx.expr.ExprOp) -> bool:
    """Whether an expression is made of operations that vector types of C have."""
    if analysis.dtype_of(expr) == "float16":
        return False  # few CPUs compute with halves, and compilers split their vectors badly
    if isinstance(expr, TensorLoad):
        return True
    is_vector = isinstance(expr, _VECTORISABLE) or analysis.is_dot4(expr)
    return is_vector and all(_is_vectorisable(child) for child in analysis.children(expr))


def _tile(
    sch: s_tir.Schedule, block: SBlockRV, vectors: Vectors, constants: frozenset[int], tile: Tile | None
) -> dict[int, int] | None:
    """Computes a tile of vector registers at a time, and what follows on the tile."""
    block = _sum_lanes_first(sch, block, vectors)
    reduction = _Reduction.of(sch, block)
    if reduction is None:
        return None
    plan = tile or next(iter(_tiles(reduction, vectors)), None)
    if plan is None:
        return None
    packed = _pack_columns(sch, block, reduction, plan, constants)
    followers = _followers(sch, block)
    outer: list[LoopRV] = []
    reduce: list[LoopRV] = []
    rows: list[LoopRV] = []
    columns: list[LoopRV] = []
    for i, loop in enumerate(sch.get_loops(block)):
        if reduction.reduced[i]:
            reduce.append(loop)
        elif i == plan.column:
            column_outer, *columns = sch.split(loop, [None, plan.vectors, plan.lanes])
        elif i == plan.row and plan.rows > 1:
            row_outer, *rows = sch.split(loop, [None, plan.rows])
            outer.append(row_outer)
        else:
            outer.append(loop)
    outer = [column_outer, *outer] if plan.column_first else [*outer, column_outer]
    inner = [*rows, *columns]
    sch.reorder(*outer, *reduce, *inner)
    copy = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(copy, outer[-1])
    for follower in followers:
        sch.reverse_compute_at(follower, outer[-1])
    _vectorise(sch, inner)
    init = sch.decompose_reduction(block, reduce[0])
    _vectorise(sch, sch.get_loops(init)[-len(inner) :])
    _vectorise_copy(sch, copy, plan, len(outer))
    return packed


def _pack_columns(
    sch: s_tir.Schedule, block: SBlockRV, reduction: _Reduction, plan: Tile, constants: frozenset[int]
) -> dict[int, int]:
    """Lays the constant operand of a tile out in panels as wide as the tile, so that it is read from front to back."""
    columns = plan.vectors * plan.lanes
    parameters = sch.mod["main"].params
    for place, region in enumerate(sch.get(block).reads):
        number = next((i for i, p in enumerate(parameters) if p.same_as(region.source)), None)
        load = next((load for load in reduction.loads() if load.source.same_as(region.source)), None)
        if number not in constants or number is None or load is None or not _is_matrix_of(load, reduction, plan.column):
            continue
        if reduction.extents[plan.column] > columns:
            sch.transform_layout(block, ("read", place), lambda *i: [i[-1] // columns, *i[:-1], i[-1] % columns])
            return {number: columns}
    return {}


def _is_matrix_of(load: TensorLoad, reduction: _Reduction, column: int) -> bool:
    """Whether a load reads the column of its last index, and all of it."""
    shape = analysis.buffer_shape(load.source)
    axis = reduction.axes[column]
    last = load.indices[-1]
    return shape is not None and isinstance(last, Var) and last.same_as(axis) and shape[-1] == reduction.extents[column]


def _vectorise(sch: s_tir.Schedule, loops: Sequence[LoopRV]) -> None:
    """Makes the innermost loop one vector operation, and writes the loops around it out."""
    for loop in loops[:-1]:
        if sch.get(loop).kind == ForKind.SERIAL:
            sch.unroll(loop)
    if sch.get(loops[-1]).kind == ForKind.SERIAL:
        sch.vectorize(loops[-1])


def _vectorise_copy(sch: s_tir.Schedule, copy: SBlockRV, plan: Tile, outer: int) -> None:
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
