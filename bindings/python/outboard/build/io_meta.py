"""``tvm_dsp_io_meta``: how much room a module's inputs and outputs need, said before it runs.

The record is 40 bytes, see docs/reference/models.md, "io_meta".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .tensors import TensorSpec

MAGIC = 0x4D4F4954
VERSION = 1
SIZES_EXACT = 1
DESCRIPTOR_BYTES = 80
_LAYOUT = struct.Struct("<IIIIQQII")


def round64(size: int) -> int:
    """``size`` rounded up to a multiple of 64."""
    return (size + 63) & ~63


def capacity(tensors: Sequence[TensorSpec]) -> int:
    """Bytes a buffer needs for the descriptors of these tensors and their data."""
    return round64(len(tensors) * DESCRIPTOR_BYTES) + sum(round64(t.nbytes) for t in tensors)


def pack(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> bytes:
    """The metadata record of a module with these inputs and outputs; bounded dimensions make its sizes upper bounds.

    >>> from .tensors import DTYPES
    >>> x = TensorSpec("x", DTYPES["float32"], (1, 4))
    >>> pack([x], [x]).hex()
    '54494f4d010000000100000001000000c000000000000000c0000000000000000100000000000000'
    """
    exact = 0 if any(tensor.bounds for tensor in (*inputs, *outputs)) else SIZES_EXACT
    return _LAYOUT.pack(MAGIC, VERSION, len(inputs), len(outputs), capacity(inputs), capacity(outputs), exact, 0)
