"""Relax operators to fused loop programs: TVM's legalisation and fusion."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax, topi
from tvm.ir import Call, GlobalVar, IRModule, Op

from .errors import BuildError
from .onnx_import import Imported, summary
from .relax_layout import channels_last, pad_columns
from .relax_simplify import RESHAPES, is_static, simplify


@dataclass(frozen=True)
class LoweredModule:
    """The module with ``main`` as calls of loop programs, and the ONNX nodes that each loop program computes."""

    module: IRModule
    nodes: dict[str, tuple[str, ...]]


def lower(imported: Imported) -> LoweredModule:
    """Lowers ``main`` to a sequence of calls of loop programs, with reshapes between them."""
    t = relax.transform
    module = _run(imported.module, t.DecomposeOpsForInference(), t.CanonicalizeBindings(), t.EliminateCommonSubexpr())
    _refuse_dynamic(module, imported)
    module = simplify(pad_columns(channels_last(simplify(module))))
    module = _run(
        module,
        t.LegalizeOps({"relax.take": _take}, skip_ops=list(RESHAPES)),
        t.AnnotateTIROpPattern(),
        t.FuseOps(),
    )
    nodes = _fused_nodes(module, imported)
    return LoweredModule(_run(module, t.FuseTIR(), t.DeadCodeElimination()), nodes)


def _run(module: IRModule, *passes: tvm.ir.transform.Pass) -> IRModule:
    try:
        return tvm.ir.transform.Sequential(list(passes))(module)
    except Exception as error:
        raise BuildError(f"TVM cannot lower the model: {summary(error)}") from error


def _take(builder: relax.BlockBuilder, call: Call) -> relax.Expr:
    """Gather, which never reads outside of its data: an index that is out of range is moved to the nearest element."""
    axis = call.attrs.axis
    return builder.call_te(topi.take, call.args[0], call.args[1], None if axis is None else int(axis), mode="clip")


def _fused_nodes(module: IRModule, imported: Imported) -> dict[str, tuple[str, ...]]:
    """The ONNX nodes that were fused into each function, by the function's name."""
    nodes: dict[str, list[str]] = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            callee = _callee(binding.value)
            if callee is None:
                continue
            names = [binding.var.name]
            function = module[callee]
            if isinstance(function, relax.Function):
                names = [b.var.name for inner in function.body.blocks for b in inner.bindings] + names
            labels = nodes.setdefault(callee.name_hint, [])
            found = (imported.label_of(name) for name in names)
            labels.extend(label for label in found if label is not None and label not in labels)
    return {name: tuple(labels) for name, labels in nodes.items()}


def _callee(value: relax.Expr) -> GlobalVar | None:
    if not isinstance(value, Call):
        return None
    if isinstance(value.op, GlobalVar):
        return value.op
    is_call_tir = isinstance(value.op, Op) and value.op.name == "relax.call_tir"
    return value.args[0] if is_call_tir else None


def _refuse_dynamic(module: IRModule, imported: Imported) -> None:
    """Refuses a model in which a shape depends on the data."""
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if not is_static(binding.var.ty):
                raise BuildError(
                    f"the shape of its result is not known at build time ({binding.var.ty})",
                    node=imported.label_of(binding.var.name),
                    hint="modules have fixed shapes: cut the model before this node, or fix the size in the model",
                )
