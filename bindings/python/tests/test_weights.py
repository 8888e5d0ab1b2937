"""weights.bin: the golden bytes, alignment, sharing, limits."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from outboard.build import BuildError, weights
from outboard.build.tensors import DTYPES
from outboard.build.weights import Shape, Tensor

# docs/reference/models.md, "weights.bin": one tensor of two floats, and the shape (1, 1000).
GOLDEN = bytes.fromhex(
    "0200000000000000 46000000 3fa1b496f0405edd 0000000000000000 01000000 00000000 01000000 02200100"
    "0200000000000000 0800000000000000 0000803f 000000c0 45000000 0200000000000000 0100000000000000 e803000000000000"
)


def test_the_golden_file_is_written_byte_for_byte() -> None:
    packed = weights.pack([Tensor(DTYPES["float32"], (2,), struct.pack("<2f", 1, -2)), Shape((1, 1000))])
    assert packed.blob == GOLDEN
    assert packed.indices == (0, 1)


def parse(blob: bytes) -> list[tuple[int, int, bytes]]:
    """Constants as the original's reader sees them: kind, place of the payload, payload. At most 3 bytes of padding."""
    (count,) = struct.unpack_from("<Q", blob)
    at, found = 8, []
    for _ in range(count):
        skipped = 0
        while blob[at] == 0:
            at, skipped = at + 1, skipped + 1
        assert skipped <= 3
        (kind,) = struct.unpack_from("<i", blob, at)
        at += 4
        if kind == 70:
            (ndim,) = struct.unpack_from("<i", blob, at + 24)
            (size,) = struct.unpack_from("<q", blob, at + 32 + 8 * ndim)
            at += 40 + 8 * ndim
        elif kind in (65, 69):
            (length,) = struct.unpack_from("<Q", blob, at)
            size, at = length * (8 if kind == 69 else 1), at + 8
        else:
            size = {1: 8, 3: 8, 5: 4}[kind]
        found.append((kind, at, blob[at : at + size]))
        at += size
    assert at == len(blob)
    return found


@pytest.mark.parametrize("align", [4, 8, 16, 64, 128])
def test_tensor_data_starts_on_the_boundary_asked_for(align, rng) -> None:
    sizes = rng.integers(0, 70, 40)
    tensors = [Tensor(DTYPES["uint8"], (int(size),), rng.bytes(int(size))) for size in sizes]
    packed = weights.pack(tensors, align)
    found = parse(packed.blob)
    for tensor, index in zip(tensors, packed.indices, strict=True):
        kind, at, data = found[index]
        assert (kind, at % align, data) == (70, 0, tensor.data)


def test_constants_of_every_kind_can_be_read_back() -> None:
    packed = weights.pack([7, 2.5, "text", DTYPES["int8"], Shape(()), Shape((3,))])
    assert [(kind, payload) for kind, _, payload in parse(packed.blob)] == [
        (1, struct.pack("<q", 7)),
        (3, struct.pack("<d", 2.5)),
        (65, b"text"),
        (5, bytes([0, 8, 1, 0])),
        (69, b""),
        (69, struct.pack("<q", 3)),
    ]


def test_fillers_give_way_before_the_limit_of_constants_does() -> None:
    one = Tensor(DTYPES["float32"], (1,), np.float32(1).tobytes())
    assert len(parse(weights.pack([one] * 4096, 64).blob)) == 4096
    with pytest.raises(BuildError, match="4097 constants"):
        weights.pack([one] * 4097, 64)
