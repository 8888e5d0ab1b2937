"""The whole way of a build, in the order it happens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from .. import __version__
from . import io_meta, notes, onnx_cache, variants
from . import tune_cache as tuning
from .errors import BuildError
from .files import write_whole
from .onnx_load import check_outputs, fix_inputs, load
from .package_data import data_text
from .tensors import InputOption, TensorSpec, parse_input_option
from .toolchain import TARGETS, Compiler, Machine

BUILDER = f"outboard.build {__version__}"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Module:
    """A compiled model. ``elf`` is the file, or None for the target ``c-only``."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    c_source: str
    weights: bytes
    io_meta: bytes
    workspace_bytes: int
    machine: Machine | None
    elf: bytes | None
    caches: tuple[onnx_cache.Cache, ...] = ()
    """Inputs and outputs that are one cache, which may stay on the device between calls."""

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the module to ``path``, whole or not at all."""
        if self.elf is None:
            raise BuildError("the target c-only makes no module", hint="write_c() writes the C source and its data")
        write_whole(Path(path), self.elf)

    def write_c(self, directory: str | os.PathLike[str]) -> None:
        """Writes ``lib0.c``, ``weights.bin``, ``tvm_dsp_io_meta.bin`` and ``weights.S`` into ``directory``."""
        folder = Path(directory)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BuildError(f"cannot make the folder {folder}: {error.strerror}") from error
        write_whole(folder / "lib0.c", self.c_source.encode())
        write_whole(folder / "weights.bin", self.weights)
        write_whole(folder / "tvm_dsp_io_meta.bin", self.io_meta)
        write_whole(folder / "notes.bin", self._notes())
        write_whole(folder / "weights.S", data_text("weights.S").encode())

    def _notes(self) -> bytes:
        manifest = notes.manifest_note(self.name, self.inputs, self.outputs, self.caches)
        if self.machine is None:
            return manifest
        return notes.cpu_note(self.machine.arch, self.machine.features, BUILDER) + manifest


def compile(
    model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    inputs: Sequence[str | InputOption] = (),
    bind: Mapping[str, int] | None = None,
    bounds: Mapping[str, int] | None = None,
    target: str = "host",
    name: str | None = None,
    profile_layers: bool = False,
    caches: Sequence[str] = (),
    tune: bool = False,
    tune_cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Module:
    """Compiles an ONNX model.

    ``inputs`` fixes shapes (``"data=1,3,224,224"``), ``bind`` the sizes of named dimensions; ``bounds`` lets named
    dimensions be anything from 1 to a bound at run time, with code for each size. ``target`` is ``host``
    (this machine's CPU at a portable level), ``host-native`` (all this CPU has) or ``c-only`` (C source, no module).
    ``caches`` pairs inputs with the outputs that replace them (``"past=present"``, or ``"auto"`` for names like these):
    the outputs become the one result and then the caches, which the device can keep. With ``profile_layers`` the module
    counts the cycles of each layer, and the device prints them after a run.
    With ``tune`` the schedules of kernels are timed on this machine and the fastest taken; the timings are kept in the
    file ``tune_cache`` (default: ``tuning.json`` in the user's cache folder). ``tune_cache`` without ``tune`` takes
    what the file knows and measures nothing.
    Raises :class:`BuildError` for whatever is wrong with the model or the machine; nothing is written.
    """
    if target not in TARGETS:
        raise BuildError(f'there is no target "{target}"', hint=f"targets: {', '.join(TARGETS)}")
    say = progress or (lambda _: None)
    if isinstance(model, onnx.ModelProto):
        proto, label = onnx.ModelProto.FromString(model.SerializeToString()), model.graph.name or "model"
    else:
        proto, label = load(Path(model)), Path(model).stem
    label = name or label
    options = [parse_input_option(i) if isinstance(i, str) else i for i in inputs]
    check_outputs(proto)
    cached = onnx_cache.order_outputs(proto, caches)
    sizes = variants.sizes_of(proto, bounds or {})
    if len(sizes) > 1 and profile_layers:
        raise BuildError("layers are profiled for one size of each dimension", hint="use --bind instead of --bound")
    fixed = []
    for combination in sizes:
        variant = onnx.ModelProto.FromString(proto.SerializeToString())
        fixed.append((variant, fix_inputs(variant, options, {**(bind or {}), **combination})))
    specs = variants.merged([variant_specs for _, variant_specs in fixed], sizes)
    compiler = None if target == "c-only" else Compiler()
    machine = None if compiler is None else compiler.machine(native=target == "host-native")
    known = _tuning_cache(tune, tune_cache, machine)

    # TVM takes seconds to load: what can fail before it has failed by now.
    try:
        from .lowering import lower, to_c
        from .tune import Tuner
    except ImportError as error:
        raise BuildError(
            f"TVM cannot be loaded: {error}", hint="pip install -r bindings/python/requirements.txt"
        ) from error
    tuner = None
    if known is not None and machine is not None:
        tuner = Tuner(machine, known, compiler if tune else None, say)
    lowered = []
    try:
        for number, (variant, variant_specs) in enumerate(fixed, start=1):
            if len(fixed) > 1:
                say(f"variant {number} of {len(fixed)}: {', '.join(map(str, variant_specs))}")
            lowered.append(lower(variant, variant_specs, machine, say, tuner))
    finally:
        if tune and known is not None:
            known.save()  # what was measured before an error or an interruption, too
    outputs = variants.merged([v.program.outputs for v in lowered], sizes)
    source = to_c(lowered, label, BUILDER, profile_layers)
    result = Module(
        label,
        tuple(specs),
        tuple(outputs),
        source.c_source,
        source.weights,
        io_meta.pack(specs, outputs),
        source.workspace_bytes,
        machine,
        None,
        onnx_cache.caches(cached, specs, outputs),
    )
    beyond = onnx_cache.beyond_the_original(specs, result.caches)
    if beyond:
        say(f"note: {beyond}; the simulated device does so when told (KvLayout::Packed)")
    if compiler is None or machine is None:
        return result
    say("compiling the C source")
    # A layer profile counts in one place, so its kernels are there once.
    levelled = None if profile_layers else "lib0.c"
    return _link(result, compiler, machine, levelled)


def _tuning_cache(
    tune: bool, path: str | os.PathLike[str] | None, machine: Machine | None
) -> tuning.TuningCache | None:
    """The cache that a build reads and, when it tunes, writes: that it can be is found out before anything is timed."""
    if not tune and path is None:
        return None
    if machine is None:
        raise BuildError(
            "the target c-only is for another machine, and tuning is for this one", hint="leave --tune out"
        )
    cache = tuning.TuningCache(path or tuning.default_path(), must_exist=not tune)
    if tune:
        cache.save()
    return cache


def _link(result: Module, compiler: Compiler, machine: Machine, levelled: str | None) -> Module:
    elf = compiler.compile_and_link(
        {"lib0.c": result.c_source.encode(), "weights.S": data_text("weights.S").encode()},
        {"weights.bin": result.weights, "tvm_dsp_io_meta.bin": result.io_meta, "notes.bin": result._notes()},
        "lib0.out",
        machine,
        levelled,
    )
    return replace(result, elf=elf)
