"""Reads an ONNX file and gives every input a fixed shape; whatever is wrong with the file ends in one clear error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper

from .errors import BuildError
from .tensors import DTYPES, MAX_DIMS, InputOption, TensorSpec, carried_dtype

_LARGEST = (1 << 31) - 1


def load(path: Path) -> onnx.ModelProto:
    """Reads the model at ``path`` with its external data."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise BuildError(f"cannot read {path}: {error.strerror}") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(raw)
    except DecodeError as error:
        raise BuildError(f"{path} is not an ONNX model, or it is truncated ({len(raw)} bytes)") from error
    if not model.ir_version or not model.opset_import or not model.graph.output:
        raise BuildError(
            f"{path} is not an ONNX model: it has no {_what_is_missing(model)}",
            hint="export the model to ONNX (a .onnx file) first",
        )
    _load_external_data(model, path)
    if model.ByteSize() > _LARGEST:
        raise BuildError(f"{path} holds more than 2 GB, which is as much as ONNX's tools can take in one piece")
    return model


def _what_is_missing(model: onnx.ModelProto) -> str:
    if not model.ir_version:
        return "IR version"
    return "operator set" if not model.opset_import else "graph with outputs"


def _load_external_data(model: onnx.ModelProto, path: Path) -> None:
    for tensor in external_data_helper._get_all_tensors(model):
        if not external_data_helper.uses_external_data(tensor):
            continue
        location = external_data_helper.ExternalDataInfo(tensor).location
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(path.parent.resolve()))
        except Exception as error:
            raise BuildError(
                f'the data of "{tensor.name}" should be in {location!r} beside the model, and cannot be read',
                hint="keep the external data file in the folder of the .onnx file",
            ) from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def node_label(node: onnx.NodeProto, index: int) -> str:
    """How messages name a node: its operator, its name or first output, and its position in the graph."""
    domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
    name = node.name or (node.output[0] if node.output else "")
    return f'{domain}{node.op_type} "{name}" (node {index})'


def graph_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs a caller gives: those that no initialiser provides."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def check_outputs(model: onnx.ModelProto) -> None:
    """Refuses a model with an output that is no tensor."""
    for value in model.graph.output:
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise BuildError(f'output "{value.name}" is not a tensor ({value.type.WhichOneof("value")})')


def fix_inputs(
    model: onnx.ModelProto, options: Sequence[InputOption], bind: Mapping[str, int] | None = None
) -> list[TensorSpec]:
    """Gives every input of ``model`` (changed in place) a fixed shape, and returns the inputs in order.

    ``options`` are whole shapes, ``bind`` sizes of named dimensions. An option wins over the sizes in the model; a size
    that it gives to a named dimension holds for the other inputs with that dimension too.
    """
    inputs = graph_inputs(model)
    by_name = {option.name: option for option in options}
    unknown = by_name.keys() - {value.name for value in inputs}
    if unknown:
        names = ", ".join(f'"{value.name}"' for value in inputs) or "none"
        raise BuildError(f'the model has no input "{sorted(unknown)[0]}"', hint=f"its inputs are: {names}")
    sizes = dict(bind or {})
    for value in inputs:
        option = by_name.get(value.name)
        if option is not None:
            _check_option(value, option)
            _learn_sizes(value, option, sizes)
    specs = [_fix_input(value, by_name.get(value.name), sizes) for value in inputs]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return specs


def _dims(value: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension] | None:
    tensor = value.type.tensor_type
    return list(tensor.shape.dim) if tensor.HasField("shape") else None


def _check_option(value: onnx.ValueInfoProto, option: InputOption) -> None:
    dims = _dims(value)
    if dims is not None and len(dims) != len(option.shape):
        raise BuildError(
            f'input "{value.name}" has {len(dims)} dimensions, [{_shape_text(value)}], and '
            f"[{','.join(map(str, option.shape))}] has {len(option.shape)}"
        )
    declared, _ = carried_dtype(value.type.tensor_type.elem_type)
    if option.dtype is not None and declared is not None and option.dtype != declared:
        raise BuildError(f'input "{value.name}" is {declared.name} in the model, not {option.dtype.name}')


def _size(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    """The size of a dimension, when the model says one; some exporters write -1 for any."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def _learn_sizes(value: onnx.ValueInfoProto, option: InputOption, sizes: dict[str, int]) -> None:
    for dim, size in zip(_dims(value) or (), option.shape, strict=False):
        if dim.dim_param in ("", "?"):  # a question mark is no name: each stands for a size of its own
            continue
        if sizes.setdefault(dim.dim_param, size) != size:
            raise BuildError(
                f'dimension "{dim.dim_param}" is {sizes[dim.dim_param]} elsewhere and {size} in input "{value.name}"'
            )


def _fix_input(value: onnx.ValueInfoProto, option: InputOption | None, sizes: Mapping[str, int]) -> TensorSpec:
    if not value.type.HasField("tensor_type"):
        raise BuildError(f'input "{value.name}" is not a tensor ({value.type.WhichOneof("value")})')
    tensor = value.type.tensor_type
    dtype, holds = carried_dtype(tensor.elem_type)
    if dtype is None and option and not tensor.elem_type:
        dtype = option.dtype
    if dtype is None:
        raise BuildError(
            f'input "{value.name}" has the element type {onnx.TensorProto.DataType.Name(tensor.elem_type)}',
            hint=f"modules take {', '.join(DTYPES)}",
        )
    shape = option.shape if option is not None else _declared_shape(value, sizes)
    if len(shape) > MAX_DIMS:
        raise BuildError(f'input "{value.name}" has {len(shape)} dimensions; a module takes at most {MAX_DIMS}')
    tensor.elem_type = tensor.elem_type or dtype.onnx
    tensor.shape.CopyFrom(onnx.helper.make_tensor_type_proto(dtype.onnx, shape).tensor_type.shape)
    return TensorSpec(value.name, dtype, tuple(shape), holds)


def _declared_shape(value: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> tuple[int, ...]:
    dims = _dims(value)
    shape = []
    for dim in dims or ():
        size = sizes.get(dim.dim_param) if _size(dim) is None else _size(dim)
        if size is None:
            break
        shape.append(size)
    if dims is None or len(shape) < len(dims):
        example = ",".join(str(1 if _size(d) is None else _size(d)) for d in dims or ())
        dtype, _ = carried_dtype(value.type.tensor_type.elem_type)
        suffix = f",{dtype.name}" if dtype else ""
        raise BuildError(
            f'input "{value.name}" has no fixed shape: [{_shape_text(value)}]',
            hint=f'say which one to compile for, for example --input "{value.name}={example}{suffix}"',
        )
    return tuple(shape)


def _shape_text(value: onnx.ValueInfoProto) -> str:
    dims = _dims(value)
    if dims is None:
        return "unknown rank"
    return ",".join(d.dim_param or "?" if _size(d) is None else str(_size(d)) for d in dims)
