"""What is timed: generated code, onnxruntime and TVM's virtual machine, each on one thread."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np
import onnx

from outboard.build import Module, compile, weights
from outboard.build.errors import BuildError
from outboard.build.memory import aligned
from outboard.build.toolchain import C_FLAGS, Compiler, level_flags

Contestant = Callable[[int], tuple[float, np.ndarray]]
"""Runs a number of calls; gives the CPU seconds of one, and the result of the last."""


def generated(
    model: onnx.ModelProto, x: np.ndarray, target: str, folder: Path, tune_cache: Path | None = None
) -> tuple[Contestant, float]:
    """The code of :mod:`outboard.build` for a target, tuned with a cache if one is given; the seconds of the build."""
    began = time.monotonic()
    result = compile(model, target=target, tune=tune_cache is not None, tune_cache=tune_cache)
    seconds = time.monotonic() - began
    library = _library(result, target, folder / (target if tune_cache is None else f"{target}-tuned"))
    arrays = [aligned(np.frombuffer(tensor, np.uint8)) for tensor in _constants(result, library)]
    room = library.outboard_bench_workspace()
    workspace = aligned(np.zeros(room, np.uint8))
    y = aligned(np.zeros(result.outputs[0].shape, np.float32))
    given = aligned(x)
    places = [(ctypes.c_void_p * max(len(a), 1))(*(b.ctypes.data for b in a)) for a in ([given], arrays, [y])]

    def run(calls: int) -> tuple[float, np.ndarray]:
        nanoseconds = library.outboard_bench_run(*places, ctypes.c_void_p(workspace.ctypes.data), ctypes.c_int64(calls))
        return nanoseconds * 1e-9 / calls, y

    run._keep = (given, arrays, workspace)  # type: ignore[attr-defined]
    return run, seconds


def _library(result: Module, target: str, folder: Path) -> ctypes.CDLL:
    result.write_c(folder)
    (folder / "driver.c").write_bytes((resources.files(__package__) / "driver.c").read_bytes())
    compiler, objects = Compiler(), []
    for suffix, flags in level_flags(compiler.machine(native=target == "host-native"), levels=True).items():
        objects.append(f"driver{suffix}.o")
        source = "lib0.c" if suffix else "driver.c"  # a level has no entry, which is what the driver needs
        compiler.run([*C_FLAGS, *flags, "-w", "-c", source, "-o", objects[-1]], str(folder))
    compiler.run(["-shared", *objects, "-o", "driver.so", "-lm"], str(folder))
    library = ctypes.CDLL(str(folder / "driver.so"))
    library.outboard_bench_workspace.restype = ctypes.c_uint64
    library.outboard_bench_constant.restype = ctypes.c_int64
    library.outboard_bench_constant.argtypes = [ctypes.c_int64]
    library.outboard_bench_run.restype = ctypes.c_int64
    return library


def _constants(result: Module, library: ctypes.CDLL) -> list[bytes]:
    """The data of each constant the code refers to, in its order."""
    tensors = weights.unpack(result.weights)
    found: list[bytes] = []
    while (place := library.outboard_bench_constant(len(found))) >= 0:
        tensor = tensors[place]
        if not isinstance(tensor, bytes):
            raise BuildError(f"constant {place} is no tensor")
        found.append(tensor)
    return found


def onnxruntime(model: onnx.ModelProto, x: np.ndarray) -> Contestant:
    """onnxruntime with all its optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return _timed(lambda: session.run(None, {"x": x})[0])


def tvm_vm(model: onnx.ModelProto, x: np.ndarray) -> Contestant:
    """TVM's own virtual machine with its LLVM code generator and its default pipeline."""
    os.environ["TVM_NUM_THREADS"] = "1"
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = from_onnx(model, keep_params_in_input=False)
    target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu()})
    machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
    given = tvm.runtime.tensor(x)
    return _timed(lambda: machine["main"](given).numpy())


def _timed(call: Callable[[], np.ndarray]) -> Contestant:
    def run(calls: int) -> tuple[float, np.ndarray]:
        began = time.thread_time()
        for _ in range(calls):
            result = call()
        return (time.thread_time() - began) / calls, result

    return run
