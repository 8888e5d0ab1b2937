"""``weights.bin``: the constants of a model, in the order its code counts them.

Format: docs/reference/models.md, "weights.bin". The reader of the original firmware tolerates at most three bytes of
padding before a tensor, so wider alignment cannot come from padding. It comes from fillers instead: a string constant
that no code refers to, just long enough to put the data of the next tensor on the boundary asked for. Every reader
that follows the format reads such a file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import BuildError
from .tensors import DType

MAX_CONSTANTS = 4096
TENSOR_MAGIC = 0xDD5E40F096B4A13F

_INT, _FLOAT, _DTYPE, _STR, _SHAPE, _TENSOR = 1, 3, 5, 65, 69, 70
_FILLER = "alignment "


@dataclass(frozen=True)
class Tensor:
    """A tensor constant: element type, shape and dense little-endian data."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Shape:
    """A shape constant."""

    dims: tuple[int, ...]


Constant = Tensor | Shape | str | int | float | DType


@dataclass(frozen=True)
class Packed:
    """A finished blob, and the index in it of each constant that was asked for."""

    blob: bytes
    indices: tuple[int, ...]


def pack(constants: Iterable[Constant], align: int = 4) -> Packed:
    """Packs constants in order; the data of each tensor starts at a multiple of ``align`` (4, 8, 16, … 128).

    >>> two = struct.pack("<2f", 1.0, -2.0)
    >>> packed = pack([Tensor(DTYPES["float32"], (2,), two), Shape((1, 1000))])
    >>> len(packed.blob), packed.indices
    (96, (0, 1))
    """
    body = bytearray()
    indices = []
    count = 0
    for constant in constants:
        if isinstance(constant, Tensor):
            filler = _filler(8 + len(body), constant, align)
            if filler is not None:
                body += _encode(filler)
                count += 1
            body += bytes(-(8 + len(body) + _header_bytes(constant)) % 4)
        body += _encode(constant)
        indices.append(count)
        count += 1
    if count > MAX_CONSTANTS:
        if align > 4:
            return pack(list(constants), 4)
        raise BuildError(f"the model has {count} constants; weights.bin holds at most {MAX_CONSTANTS}")
    return Packed(struct.pack("<Q", count) + bytes(body), tuple(indices))


def _header_bytes(tensor: Tensor) -> int:
    return 44 + 8 * len(tensor.shape)


def _filler(position: int, tensor: Tensor, align: int) -> str | None:
    """The string constant to insert at ``position`` so that the tensor after it has aligned data."""
    if align <= 4 or (position + _header_bytes(tensor)) % align == 0:
        return None
    length = -(position + 12 + _header_bytes(tensor)) % align
    return (_FILLER * (length // len(_FILLER) + 1))[:length]


def _encode(constant: Constant) -> bytes:
    if isinstance(constant, Tensor):
        return (
            struct.pack("<iQQiii", _TENSOR, TENSOR_MAGIC, 0, 1, 0, len(constant.shape))
            + struct.pack("<BBH", constant.dtype.code, constant.dtype.bits, 1)
            + struct.pack(f"<{len(constant.shape)}q", *constant.shape)
            + struct.pack("<q", len(constant.data))
            + constant.data
        )
    if isinstance(constant, Shape):
        return struct.pack(f"<iQ{len(constant.dims)}q", _SHAPE, len(constant.dims), *constant.dims)
    if isinstance(constant, str):
        text = constant.encode()
        return struct.pack("<iQ", _STR, len(text)) + text
    if isinstance(constant, DType):
        return struct.pack("<iBBH", _DTYPE, constant.code, constant.bits, 1)
    if isinstance(constant, int):
        return struct.pack("<iq", _INT, constant)
    return struct.pack("<id", _FLOAT, constant)


def unpack(blob: bytes) -> list[bytes | None]:
    """The data of each tensor of a blob that :func:`pack` made; None for constants of other kinds."""
    (count,) = struct.unpack_from("<Q", blob)
    found: list[bytes | None] = []
    at = 8
    for _ in range(count):
        while blob[at] == 0:
            at += 1
        (kind,) = struct.unpack_from("<i", blob, at)
        if kind == _TENSOR:
            (ndim,) = struct.unpack_from("<i", blob, at + 28)
            data = at + 44 + 8 * ndim
            (size,) = struct.unpack_from("<q", blob, data - 8)
            found.append(blob[data : data + size])
            at = data + size
            continue
        (items,) = struct.unpack_from("<Q", blob, at + 4) if kind in (_STR, _SHAPE) else (0,)
        at += {_STR: 12 + items, _SHAPE: 12 + 8 * items, _DTYPE: 8}.get(kind, 12)
        found.append(None)
    return found
