"""From an ONNX graph with fixed input shapes to the C source: the part of a build that needs TVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx
from tvm import tirx

from . import (
    c_file,
    kernels,
    onnx_import,
    onnx_narrow,
    onnx_rewrite,
    onnx_simplify,
    program,
    relax_lower,
    schedule,
    tir_lower,
    tir_to_c,
)
from . import weights as weights_bin
from .c_file import Variant
from .errors import BuildError
from .narrow_types import NARROW
from .onnx_facts import Facts
from .onnx_import import summary
from .program import ConstantPool, Program, Step
from .tensors import DTYPES, TensorSpec, carried_dtype, dtype_of_onnx
from .toolchain import Machine
from .tune import Tuner

WEIGHTS_ALIGNMENT = 64


@dataclass(frozen=True)
class Lowered:
    """The C source of a model, its constants, and the largest workspace it asks for."""

    c_source: str
    weights: bytes
    workspace_bytes: int


def lower(
    model: onnx.ModelProto,
    inputs: Sequence[TensorSpec],
    machine: Machine | None,
    say: Callable[[str], None],
    tuner: Tuner | None = None,
) -> Variant:
    """Lowers ``model``, which it may change. ``machine`` guides the schedules; the C is portable either way.

    ``tuner`` chooses among schedules; without it, the rules of schedule.py do.
    """
    output_names = [output.name for output in model.graph.output]
    say("folding constants")
    model = onnx_simplify.simplify(model)
    output_types = {output.name: output.type.tensor_type.elem_type for output in model.graph.output}
    model = onnx_simplify.simplify(onnx_narrow.widen(model))
    model = onnx_rewrite.rewrite(model, onnx_import.importable_operators()) or model
    say(f"importing {len(model.graph.node)} operators")
    imported = onnx_import.import_model(model)
    say("lowering")
    flat = program.flatten(relax_lower.lower(imported), imported, inputs, output_names)
    _check_outputs(flat, Facts.of(model))
    flat.outputs = [_as_declared(output, output_types.get(output.name, 0)) for output in flat.outputs]
    say(f"generating {len(flat.kernels)} kernels")
    written = _kernels(flat, machine, tuner)
    flat.number_constants()
    return Variant(flat, written)


def to_c(lowered: Sequence[Variant], name: str, builder: str, profile_layers: bool) -> Lowered:
    """The C source for models that differ in the sizes of their dimensions only, and their constants."""
    pool = ConstantPool()
    for variant in lowered:
        variant.program.share_constants(pool)
    packed = weights_bin.pack(
        (
            weights_bin.Tensor(DTYPES[str(array.dtype)], array.shape, np.ascontiguousarray(array).tobytes())
            for array in pool.arrays
        ),
        align=WEIGHTS_ALIGNMENT,
    )
    rendered = c_file.render(name, builder, lowered, pool.arrays, packed.indices, profile_layers)
    return Lowered(rendered.text, packed.blob, rendered.workspace_bytes)


def _kernel(
    flat: Program, name: str, function: tirx.PrimFunc, vectors: schedule.Vectors, tuner: Tuner | None
) -> tir_to_c.KernelC:
    """The kernel in C: scheduled, or as it came where its schedule leads to something that C cannot say."""
    constants = flat.constant_arguments(name)
    written = kernels.write(function, vectors, constants) if tuner is None else tuner.kernel(name, function, constants)
    if written is None:
        return tir_to_c.print_kernel(tir_lower.lower(function))
    for argument, columns in written.packed.items():
        flat.replace_constant(name, argument, partial(schedule.pack, columns=columns))
    return written.kernel


def _as_declared(output: TensorSpec, elem_type: int) -> TensorSpec:
    """An output as the model declares it: a narrow type travels in another one, a bfloat16 in 16 bits of its own."""
    dtype, holds = carried_dtype(elem_type) if elem_type in NARROW else (None, "")
    return output if dtype is None else replace(output, dtype=dtype, holds=holds)


def _check_outputs(flat: Program, expected: Facts) -> None:
    """TVM and ONNX must agree on what comes out; where they do not, the importer has misread an operator."""
    for output in flat.outputs:
        if output.elements == 0:
            raise BuildError(f'output "{output.name}" is empty: its shape is {list(output.shape)}')
        shape = expected.shapes.get(output.name, output.shape)
        if shape != output.shape:
            raise BuildError(
                f'output "{output.name}" has the shape {list(shape)} in ONNX, and TVM makes it {list(output.shape)}',
                hint="an operator of the model has a form that cannot be compiled",
            )
        dtype = dtype_of_onnx(expected.types.get(output.name, 0))
        if dtype is not None and dtype != output.dtype:
            raise BuildError(
                f'output "{output.name}" is {dtype.name} in ONNX, and TVM makes it {output.dtype.name}',
                hint="an operator of the model has a form that cannot be compiled",
            )


def _node_names(nodes: Sequence[str]) -> str | None:
    """How a message names the nodes that were fused into one kernel."""
    return None if not nodes else nodes[0] if len(nodes) == 1 else f"{nodes[0]} to {nodes[-1]}"


def _kernels(flat: Program, machine: Machine | None, tuner: Tuner | None) -> dict[str, tir_to_c.KernelC]:
    labels = {step.kernel: _node_names(step.nodes) for step in reversed(flat.steps) if isinstance(step, Step)}
    vectors = schedule.Vectors(machine.vector_bytes, machine.vector_registers) if machine else schedule.Vectors()
    written = {}
    for name, function in flat.kernels.items():
        try:
            written[name] = _kernel(flat, name, function, vectors, tuner)
        except BuildError as error:
            raise BuildError(error.message, node=error.node or labels[name] or name, hint=error.hint) from error
        except Exception as error:
            raise BuildError(f"TVM cannot lower {name}: {summary(error)}", node=labels[name]) from error
    return written
