"""The preparations of a model: as it is, with its control inputs as constants, folded by onnxruntime.

A node test gives at run time what real models hold as constants: axes, shapes, sizes. A module has fixed shapes, so a
test that cannot be built as it is gets another try with such inputs bound to the values of the test. What is *data*
stays an input: an input is control when it decides a shape or an axis, or is one of several inputs and has one element.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

NAMES = ("as it is", "control inputs bound", "folded by onnxruntime")

# The operands of operators that decide shapes, axes or how often something happens.
_CONTROL: dict[str, tuple[int, ...]] = {
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "SplitToSequence": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    "AffineGrid": (1,),
}
_LARGEST = 16


def variants(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The prepared models in the order they are tried, with the names of the preparations."""
    plain = _copy(model)
    yield NAMES[0], plain
    bound = bind(plain, values)
    if bound is not None:
        yield NAMES[1], bound
    folded = fold(bound or plain)
    if folded is not None:
        yield NAMES[2], folded


def bind(model: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> onnx.ModelProto | None:
    """A copy in which the control inputs are initialisers; None without any."""
    names = [value.name for value in model.graph.input]
    control = {name for name in control_inputs(model) if name in values and _is_small(values[name])}
    scalars = {name for name in names if name in values and values[name].size == 1 and values[name].ndim <= 1}
    if len(control | scalars) < len(names):
        control |= scalars
    control &= set(names)
    if not control:
        return None
    bound = _copy(model)
    kept = [value for value in model.graph.input if value.name not in control]
    del bound.graph.input[:]
    bound.graph.input.extend(kept)
    bound.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in names if name in control)
    return bound


def control_inputs(model: onnx.ModelProto) -> set[str]:
    """The names of everything that a control operand of some node is computed from."""
    makers = {output: node for node in model.graph.node for output in node.output if output}
    wanted = [
        node.input[index]
        for node in model.graph.node
        for index in control_operands(node)
        if index < len(node.input) and node.input[index]
    ]
    found: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found.add(name)
        maker = makers.get(name)
        # Shape and Size look at the shape of their operand only, which is fixed anyway.
        if maker is not None and maker.op_type not in ("Shape", "Size"):
            wanted.extend(maker.input)
    return found


def control_operands(node: onnx.NodeProto) -> tuple[int, ...]:
    """The positions of a node's control operands."""
    if node.domain not in ("", "ai.onnx"):
        return ()
    return (1,) if node.op_type.startswith("Reduce") else _CONTROL.get(node.op_type, ())


def fold(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model after onnxruntime's basic optimisations; None when onnxruntime does not take it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "folded.onnx"
        options.optimized_model_filepath = str(path)
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            return onnx.load(path)
        except Exception:  # whatever it is, this preparation does not exist for the model
            return None


def _is_small(value: np.ndarray) -> bool:
    return value.ndim <= 1 and value.size <= _LARGEST


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(model.SerializeToString())
