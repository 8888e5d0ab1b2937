"""Element types and tensor descriptions, under the names the module's manifest uses."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from .errors import BuildError
from .narrow_types import NARROW

MAX_DIMS = 6
"""Dimensions a tensor descriptor of the wire protocol can carry."""


@dataclass(frozen=True)
class DType:
    """An element type: its name, its DLPack code, its width, its C type and the number ONNX gives it."""

    name: str
    code: int
    bits: int
    c_type: str
    onnx: int

    @property
    def itemsize(self) -> int:
        return (self.bits + 7) // 8


_INT, _UINT, _FLOAT, _BFLOAT = 0, 1, 2, 4

# A bool is one byte. The wire carries it as an 8-bit unsigned integer.
DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("float32", _FLOAT, 32, "float", 1),
        DType("uint8", _UINT, 8, "uint8_t", 2),
        DType("int8", _INT, 8, "int8_t", 3),
        DType("uint16", _UINT, 16, "uint16_t", 4),
        DType("int16", _INT, 16, "int16_t", 5),
        DType("int32", _INT, 32, "int32_t", 6),
        DType("int64", _INT, 64, "int64_t", 7),
        DType("bool", _UINT, 8, "uint8_t", 9),
        DType("float16", _FLOAT, 16, "outboard_half", 10),
        DType("bfloat16", _BFLOAT, 16, "uint16_t", 16),
        DType("float64", _FLOAT, 64, "double", 11),
        DType("uint32", _UINT, 32, "uint32_t", 12),
        DType("uint64", _UINT, 64, "uint64_t", 13),
    )
}

_BY_ONNX = {d.onnx: d for d in DTYPES.values()}


def dtype_of_onnx(elem_type: int) -> DType | None:
    """The element type of an ONNX ``TensorProto`` type number, or None for one that no module can hold."""
    return _BY_ONNX.get(elem_type)


def carried_dtype(elem_type: int) -> tuple[DType | None, str]:
    """The element type on the wire of an ONNX type number, and the name of the narrow type that it carries."""
    narrow = NARROW.get(elem_type)
    if narrow is None or elem_type in _BY_ONNX:
        return _BY_ONNX.get(elem_type), ""
    return _BY_ONNX[narrow.carrier], narrow.name


@dataclass(frozen=True)
class TensorSpec:
    """A named tensor.

    ``holds`` names the narrow type that ``dtype`` carries; empty for all others. ``bounds`` has a name for each
    dimension whose size in ``shape`` is the largest one rather than the only one; empty when all are fixed.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    holds: str = ""
    bounds: tuple[str, ...] = ()

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.itemsize

    def __str__(self) -> str:
        names = self.bounds or ("",) * len(self.shape)
        dims = (f"{name}<={size}" if name else str(size) for name, size in zip(names, self.shape, strict=True))
        return f"{self.dtype.name}[{','.join(dims)}]"

    def manifest(self) -> dict[str, object]:
        record: dict[str, object] = {"name": self.name, "dtype": self.dtype.name, "shape": list(self.shape)}
        if self.holds:
            record["holds"] = self.holds
        if self.bounds:
            record["bounds"] = list(self.bounds)
        return record


@dataclass(frozen=True)
class InputOption:
    """What ``--input NAME=SHAPE,DTYPE`` says: a shape, and an element type if one was named."""

    name: str
    shape: tuple[int, ...]
    dtype: DType | None


def parse_input_option(text: str) -> InputOption:
    """Reads ``NAME=SHAPE[,DTYPE]``, for example ``bytes=1,2048,int32``; ``x`` may stand between dimensions too."""
    name, equals, rest = text.rpartition("=")
    parts = [part.strip() for piece in rest.split(",") for part in re.split(r"(?<=\d)x", piece)] if rest else []
    dtype = None
    if parts and parts[-1] in DTYPES:
        dtype = DTYPES[parts.pop()]
    if not equals or not name or not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        raise BuildError(
            f'--input "{text}" is not NAME=SHAPE,DTYPE',
            hint=f"write for example --input data=1,3,224,224,float32; element types: {', '.join(DTYPES)}",
        )
    return InputOption(name, tuple(int(part) for part in parts), dtype)
