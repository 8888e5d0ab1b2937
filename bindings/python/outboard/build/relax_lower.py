"""Relax operators to fused loop programs: TVM's legalisation and fusion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, topi
from tvm.ir import Call, GlobalVar, IRModule, Op

from .errors import BuildError
from .onnx_import import Imported, summary
from .relax_layout import channels_last, pad_columns
from .relax_quantise import quantise
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
    module = simplify(pad_columns(channels_last(simplify(quantise(simplify(module))))))
    module = _run(
        module,
        t.LegalizeOps({"relax.take": _take}, skip_ops=list(RESHAPES)),
        t.AnnotateTIROpPattern(),
    )
    users = _users(module)
    module = _run(module, t.FuseOps())
    nodes = _fused_nodes(module, imported, users)
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


def _fused_nodes(
    module: IRModule, imported: Imported, users: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The ONNX nodes that were fused into each function, by the function's name.

    Fusion renames the last variable of each group; ``users`` says by whom each variable was read before, and so which
    one that was.
    """
    groups = list(_groups(module))
    named = {name for _, names, _ in groups for name in names}
    nodes: dict[str, list[str]] = {}
    for function, names, fused in groups:
        readers = (user for name in reversed(names) for user in users.get(name, ()) if user not in named)
        last = next(readers, None) if fused else None
        labels = nodes.setdefault(function, [])
        for name in names if last is None else [*names, last]:
            label = imported.label_of(name)
            if label is not None and label not in labels:
                labels.append(label)
    return {name: tuple(labels) for name, labels in nodes.items()}


def _groups(module: IRModule) -> Iterator[tuple[str, list[str], bool]]:
    """For each call in ``main`` its function, the variables computed by it, and whether it is several operators."""
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            callee = _callee(binding.value)
            if callee is not None:
                function = module[callee]
                fused = isinstance(function, relax.Function)
                inner = function.body.blocks if fused else []
                yield callee.name_hint, [*(b.var.name for i in inner for b in i.bindings), binding.var.name], fused


def _users(module: IRModule) -> dict[str, list[str]]:
    """The variables that a loop program computes from each variable."""
    users: dict[str, list[str]] = {}
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            for name in _variables(binding.value) if _callee(binding.value) is not None else ():
                users.setdefault(name, []).append(binding.var.name)
    return users


def _variables(expr: relax.Expr) -> Iterator[str]:
    if isinstance(expr, relax.Var):
        yield expr.name
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from _variables(arg)
    elif isinstance(expr, tvm.ir.Tuple):
        for field in expr.fields:
            yield from _variables(field)


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
