"""A scheduled loop program to flat loops over flat buffers: TVM's passes up to, not including, calling conventions."""

from __future__ import annotations

import math

import tvm
from tvm import s_tir, tirx
from tvm.tirx import PrimFunc
from tvm.tirx import stmt as st

_TARGET = tvm.target.Target("c")


# The smallest finite value of each type, which TVM begins a maximum with. ONNX begins with minus infinity.
_LOWEST = {"float16": -65504.0, "float32": -3.4028234663852886e38, "float64": -1.7976931348623157e308}


def from_infinity(statement: st.Stmt) -> st.Stmt:
    """The statement with maxima and minima that begin with an infinity, so that rows of infinities give one."""
    if isinstance(statement, s_tir.SBlockRealize):
        block = statement.block
        is_init = block.name_hint.endswith("_init")
        init = None if block.init is None else _infinite(block.init)
        body = _infinite(block.body) if is_init else from_infinity(block.body)
        replaced = s_tir.SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            body,
            init,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
        )
        return s_tir.SBlockRealize(statement.iter_values, statement.predicate, replaced)
    if isinstance(statement, st.SeqStmt):
        return st.SeqStmt([from_infinity(part) for part in statement.seq])
    if isinstance(statement, st.For):
        return st.For(
            statement.loop_var,
            statement.min,
            statement.extent,
            statement.kind,
            from_infinity(statement.body),
            statement.thread_binding,
            statement.annotations,
            statement.step,
        )
    return statement


def _infinite(init: st.Stmt) -> st.Stmt:
    if isinstance(init, st.SeqStmt):
        return st.SeqStmt([_infinite(part) for part in init.seq])
    if not isinstance(init, st.BufferStore) or not isinstance(init.value, tirx.FloatImm):
        return init
    value, dtype = float(init.value.value), str(init.value.ty.dtype)
    lowest = _LOWEST.get(dtype)
    if lowest is None or abs(value) != -lowest:
        return init
    return st.BufferStore(init.buffer, tirx.FloatImm(dtype, math.copysign(math.inf, value)), init.indices)


def lower(function: PrimFunc) -> PrimFunc:
    """The same function with one-dimensional buffers and 32-bit indices wherever they fit."""
    s, t = s_tir.transform, tirx.transform
    passes = tvm.ir.transform.Sequential(
        [
            t.BindTarget(_TARGET),
            s.CanonicalizeLoop(),
            s.LowerInitBlock(),
            s.PlanAndUpdateBufferAllocationLocation(),
            s.ConvertBlocksToOpaque(),
            s.CompactBufferAllocation(),
            s.LowerMatchBuffer(),
            s.StmtSimplify(),
            s.LowerOpaqueBlock(),
            t.FlattenBuffer(),
            t.NarrowDataType(32),
            s.LoopPartition(),
            t.VectorizeLoop(True),
            s.HoistIfThenElse(),
            s.RenormalizeSplitPattern(),
            t.StmtSimplify(),
            t.RemoveNoOp(),
            s.RewriteUnsafeSelect(),
            t.LowerIntrin(),
        ]
    )
    function = function.with_body(from_infinity(function.body))
    module = tvm.IRModule({"kernel": function.with_attr("global_symbol", "kernel")})
    return passes(module)["kernel"]
