"""A scheduled loop program to flat loops over flat buffers: TVM's passes up to, not including, calling conventions."""

from __future__ import annotations

import tvm
from tvm import s_tir, tirx
from tvm.tirx import PrimFunc

_TARGET = tvm.target.Target("c")


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
    module = tvm.IRModule({"kernel": function.with_attr("global_symbol", "kernel")})
    return passes(module)["kernel"]
