"""Memory: places every temporary of a model in one workspace, so that an inference allocates once; aligns arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64


@dataclass(frozen=True)
class Block:
    """A temporary: its size, and the first and last step at which it is needed."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Layout:
    """Offsets of the blocks, in their order, and the size of the whole."""

    offsets: tuple[int, ...]
    nbytes: int


def plan(blocks: Iterable[Block]) -> Layout:
    """Lays blocks out so that any two that are needed at one time do not overlap. Large ones are placed first.

    >>> plan([Block(100, 0, 1), Block(50, 1, 2), Block(100, 2, 3)])
    Layout(offsets=(0, 128, 0), nbytes=192)
    """
    items = list(blocks)
    offsets = [0] * len(items)
    placed: list[int] = []
    for index in sorted(range(len(items)), key=lambda i: (-items[i].nbytes, i)):
        block = items[index]
        busy = sorted(
            (offsets[other], offsets[other] + _aligned(items[other].nbytes))
            for other in placed
            if items[other].first <= block.last and block.first <= items[other].last
        )
        offset = 0
        for start, end in busy:
            if offset + _aligned(block.nbytes) <= start:
                break
            offset = max(offset, end)
        offsets[index] = offset
        placed.append(index)
    total = max((offsets[i] + _aligned(items[i].nbytes) for i in range(len(items))), default=0)
    return Layout(tuple(offsets), total)


def _aligned(nbytes: int) -> int:
    return (nbytes + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def aligned(array: np.ndarray, boundary: int = 128) -> np.ndarray:
    """A copy whose memory begins at a multiple of ``boundary`` bytes, as the device's tensors do."""
    memory = np.zeros(array.nbytes + boundary, np.uint8)
    start = -memory.ctypes.data % boundary
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
