"""The tuner: times a handful of tiles of each kernel on this machine and takes the fastest.

It changes which of several equal schedules a kernel gets, and nothing else. What it has measured is in a cache file, so
that a build which only reads the file gives the same bytes everywhere. Reference: docs/reference/models.md, "Tuning".
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from tvm import tirx

from . import c_file, schedule
from .kernels import Written, write
from .memory import aligned
from .schedule import Tile, Vectors
from .tir_to_c import KernelC
from .toolchain import Compiler, Machine
from .tune_cache import Tuned, TuningCache

_ROUNDS = 9
_SECONDS = 2e-3
"""How long the calls of one kernel in one round take, at least."""
_GAIN = 0.97
"""A tile must take less than this part of the rule's own time: what is closer may be noise."""


class Tuner:
    """Chooses the tiles of the kernels of one target.

    Kernels that ``cache`` does not know are timed when there is a ``compiler`` to do it, and keep the rule's own tile
    otherwise.
    """

    def __init__(
        self, machine: Machine, cache: TuningCache, compiler: Compiler | None, say: Callable[[str], None]
    ) -> None:
        self._vectors = Vectors(machine.vector_bytes, machine.vector_registers)
        self._cache = cache
        self._compiler = compiler
        self._level = () if compiler is None else compiler.best_level(machine)
        self._say = say
        self._target = f"{machine.arch} {machine.march}" + (
            f": {','.join(machine.features)}" if machine.is_native else ""
        )

    def kernel(self, name: str, function: tirx.PrimFunc, constants: frozenset[int]) -> Written | None:
        """The kernel with its best tile; None as :func:`kernels.write` gives it."""
        own = write(function, self._vectors, constants)
        tiles = schedule.tiles(function, self._vectors)
        if own is None or len(tiles) < 2:
            return own
        key = _key(own.kernel)
        known = self._cache.find(self._target, key)
        if known is not None:
            tile = None if known.tile is None else Tile(**known.tile)  # type: ignore[arg-type]
            if tile is None or tile in tiles:
                return own if tile is None else write(function, self._vectors, constants, tile)
            self._say(f"{name}: the tile in {self._cache.path} does not fit")
        return own if self._compiler is None else self._measured(name, key, function, constants, own, tiles)

    def _measured(
        self,
        name: str,
        key: str,
        function: tirx.PrimFunc,
        constants: frozenset[int],
        own: Written,
        tiles: list[Tile],
    ) -> Written:
        choices: dict[KernelC, tuple[Written, Tile | None]] = {own.kernel: (own, None)}
        for tile in tiles[1:]:
            written = write(function, self._vectors, constants, tile)
            # Scratch is an argument more: what has another one cannot be called in the place of the rule's own.
            if written is not None and written.kernel.scratch == own.kernel.scratch:
                choices.setdefault(written.kernel, (written, tile))
        times = self._times(function, list(choices))
        fastest = min(times)
        number = times.index(fastest) if fastest < _GAIN * times[0] else 0
        best, chosen = list(choices.values())[number]
        tensors = tuple(_tensor_text(parameter) for parameter in function.params)
        fields = None if chosen is None else asdict(chosen)
        self._cache.add(self._target, key, Tuned(name, tensors, fields, round(times[number]), round(times[0])))
        gain = "" if chosen is None else f", {times[0] / times[number]:.2f} times as fast as untuned"
        if len(choices) > 1:
            self._say(f"{name}: the fastest of {len(choices)} tiles takes {times[number] / 1e3:.1f} µs{gain}")
        return best

    def _times(self, function: tirx.PrimFunc, choices: list[KernelC]) -> list[float]:
        """The median nanoseconds of a call of each kernel; they take turns."""
        assert self._compiler is not None
        arrays = [_array(_shape(p), str(p.ty.dtype.dtype)) for p in function.params]
        arrays += [aligned(np.zeros(scratch.nbytes, np.uint8)) for scratch in choices[0].scratch]
        places = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        source = c_file.render_choices(choices)
        with tempfile.TemporaryDirectory(prefix="outboard-tune-") as directory:
            library = self._compiler.library(source, self._level, Path(directory))
            run = library.outboard_tune_run
            run.restype = ctypes.c_int64
            run.argtypes = [ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64]
            once = max(min(run(choice, places, 1) for choice in range(len(choices)) for _ in range(2)), 1)
            calls = max(1, round(_SECONDS * 1e9 / once))
            times = [[run(choice, places, calls) / calls for choice in range(len(choices))] for _ in range(_ROUNDS)]
        return [statistics.median(column) for column in zip(*times, strict=True)]


def _key(kernel: KernelC) -> str:
    """What tells kernels apart: their C, whatever the tensors are called."""
    text = kernel.definition("kernel")
    for number, parameter in enumerate(kernel.parameters):
        text = re.sub(rf"\b{re.escape(parameter.split()[-1].lstrip('*'))}\b", f"parameter{number}", text)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _shape(parameter: tirx.Var) -> list[int]:
    return [int(dim) for dim in parameter.ty.shape]


def _tensor_text(parameter: tirx.Var) -> str:
    return f"{parameter.ty.dtype.dtype}[{','.join(map(str, _shape(parameter)))}]"


def _array(shape: list[int], dtype: str) -> np.ndarray:
    """Numbers of the kind that kernels meet: small ones, none of which makes arithmetic slow."""
    rng = np.random.default_rng(0)
    if dtype.startswith("float"):
        return aligned(rng.uniform(-1, 1, shape).astype(dtype))
    return aligned(rng.integers(0, 2, shape).astype(dtype))
