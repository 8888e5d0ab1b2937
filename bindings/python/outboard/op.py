"""Custom operations of GPSIMD cores: built from C++ or Rust, called with numpy arrays on the simulated pool.

::

    from outboard import op

    library = op.build("relu.cpp", schemas=["my_ops::relu(Tensor x) -> (Tensor)"], output="relu.so", multicore=True)
    y = library.relu(x)                                # the result is like the first tensor
    parts = library.call("topk", x, 5, shape=(8, 10))  # or as it is described
    run = library.run("relu", x, seed=7)               # with findings, text and cycles
    assert not run.findings, run.findings

Everything is done by the program ``outboard``: the one that ``$OUTBOARD_BIN`` names, the one in the path, or the one
that the last ``cargo build`` of this clone left.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .errors import Error

__all__ = ["Finding", "Library", "OperationError", "Run", "build", "load"]


class OperationError(Error):
    """An operation that was not built, was refused, or failed on the device.

    ``kind`` is ``device_fault`` when the device failed; ``details`` then has ``core``, ``pc``, ``text`` and
    ``backtrace``.
    """

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer.get("message", "the program `outboard` failed"))
        self.code = answer.get("name", "")
        self.kind = answer.get("error", "")
        self.help = answer.get("help", "")
        #: Everything that the program said.
        self.details = answer


@dataclass(frozen=True)
class Finding:
    """Something that the device would not have reported."""

    #: ``outboard explain CODE`` prints its page.
    code: str
    #: The core it happened on.
    core: int
    #: What happened and what to do.
    message: str
    #: Address of the instruction, where there is one.
    pc: int | None = None
    #: The function there.
    function: str | None = None
    #: Its source file and line, when the library has debug information.
    file: str | None = None
    line: int | None = None
    #: Everything that is known.
    details: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, item: dict[str, Any]) -> Finding:
        """A finding as the program reports it."""
        places = {key: item.get(key) for key in ("pc", "function", "file", "line")}
        return cls(item["code"], item["core"], item["message"], **places, details=item)


@dataclass(frozen=True)
class Run:
    """What one run of an operation did."""

    #: The result.
    output: np.ndarray
    findings: list[Finding]
    #: What core 0 printed (``print_all``: every core).
    text: str
    #: Cycles of the slowest core, by the simulator's cost table.
    cycles: int
    #: The whole report.
    report: dict[str, Any] = field(repr=False)


def _program() -> str:
    """The program ``outboard``."""
    root = Path(__file__).resolve().parents[3]
    named = os.environ.get("OUTBOARD_BIN") or shutil.which("outboard")
    if named:
        return named
    for kind in ("release", "debug"):
        built = root / "target" / kind / "outboard"
        if built.is_file():
            return str(built)
    raise OperationError({"error": "no_program", "message": "there is no program `outboard`: set OUTBOARD_BIN to it"})


def _answer(arguments: Sequence[str]) -> dict[str, Any]:
    """Runs the program and reads its answer."""
    done = subprocess.run([_program(), "op", *arguments, "--json"], capture_output=True, text=True, check=False)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        answer = {"error": "program", "message": done.stderr.strip() or f"the program ended with {done.returncode}"}
    if done.returncode != 0:
        raise OperationError(answer)
    return answer


def build(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    schemas: Sequence[str],
    output: str | os.PathLike[str],
    multicore: bool = False,
    shape: str = "fll",
    stack_size: int | None = None,
    flags: Sequence[str] = (),
    neff: str | os.PathLike[str] | None = None,
    operation: str | None = None,
    arguments: Sequence[np.ndarray | float] = (),
    result_shape: Sequence[int] | None = None,
    result_dtype: Any = None,
) -> Library:
    """Builds a library, as ``outboard op build`` does, and opens it.

    Sources are C++ files, one Rust file, or the folder of a Rust crate. ``neff`` also writes a model that runs
    ``operation`` (needed when there are several) on arrays like those in ``arguments``; numbers among them become part
    of it. ``result_shape`` and ``result_dtype`` describe its result; without them it is like the first array.

    Raises ``OperationError``: a schema, a source or the request is wrong, or a compiler is missing.
    """
    paths = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    command = ["build", *(os.fspath(path) for path in paths), "-o", os.fspath(output), "--shape", shape]
    for schema in schemas:
        command += ["--schema", schema]
    if multicore:
        command.append("--multicore")
    if stack_size is not None:
        command += ["--stack-size", str(stack_size)]
    command += [f"--flag={flag}" for flag in flags]
    if neff is not None:
        command += ["--neff", os.fspath(neff)]
        command += [f"--arg={_described(argument)}" for argument in arguments]
    if operation is not None:
        command += ["--op", operation]
    if result_shape is not None:
        command += ["--result-shape", _dims(result_shape)]
    if result_dtype is not None:
        command += ["--result-dtype", np.dtype(result_dtype).name]
    answer = _answer(command)
    files = [Path(file["file"]) for file in answer["files"]]
    return Library([file for file in files if file.suffix not in (".neff", ".metaneff")], answer["operations"])


def _dims(shape: Sequence[int]) -> str:
    return "x".join(str(dim) for dim in shape)


def _described(argument: np.ndarray | float) -> str:
    """An argument of a model: what an array looks like, or a number."""
    if isinstance(argument, np.ndarray):
        return f"{argument.dtype.name}:{_dims(argument.shape)}"
    return f"{float(argument)!r}" if isinstance(argument, float) else str(argument)


def load(*files: str | os.PathLike[str]) -> Library:
    """Opens a library: one file, or one for each core in their order."""
    return Library([Path(file) for file in files])


class Library:
    """A library of operations; each is a method."""

    def __init__(self, files: Sequence[Path], operations: Sequence[str] | None = None) -> None:
        for file in files:
            if not file.is_file():
                raise OperationError({"error": "file", "message": f"there is no file {file}"})
        #: One file, or one for each core.
        self.files = list(files)
        #: The operations, when this program built the library; else what is called decides.
        self.operations = list(operations) if operations is not None else None

    def __repr__(self) -> str:
        return f"<outboard.op.Library {self.files[0].name}: {', '.join(self.operations or ['?'])}>"

    def __getattr__(self, name: str) -> Callable[..., np.ndarray]:
        if name.startswith("_") or (self.operations is not None and name not in self.operations):
            raise AttributeError(f"the library has no operation {name!r}; it has {', '.join(self.operations or [])}")
        return lambda *arguments, **options: self.call(name, *arguments, **options)

    def call(self, name: str, *arguments: np.ndarray | float, **options: Any) -> np.ndarray:
        """Runs an operation; the options are those of ``run``."""
        return self.run(name, *arguments, **options).output

    def run(
        self,
        name: str,
        *arguments: np.ndarray | float,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        seed: int | None = None,
        cores: int | None = None,
        print_all: bool = False,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        diagnose: bool = True,
    ) -> Run:
        """Runs an operation on arrays and numbers.

        ``shape`` and ``dtype`` describe the result; without them it is like the first array. ``seed`` lets cores run
        in turns, in an order that depends on it. ``allow`` and ``deny`` are codes of findings: not reported, or errors
        (``"all"`` denies every one); without ``diagnose``, accesses to memory are not looked at. Raises
        ``OperationError``: an argument is refused, or the device
        failed.
        """
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "result.npy"
            command = ["run", *map(str, self.files), "--op", name, "-o", str(target)]
            for index, argument in enumerate(arguments):
                if isinstance(argument, np.ndarray):
                    path = Path(folder) / f"argument{index}.npy"
                    np.save(path, argument)
                    command.append(f"--arg={path}")
                else:
                    # A float stays one even when it is whole.
                    command.append(f"--arg={float(argument)!r}" if isinstance(argument, float) else f"--arg={argument}")
            if shape is not None:
                command += ["--shape", _dims(shape)]
            if dtype is not None:
                command += ["--dtype", np.dtype(dtype).name]
            if seed is not None:
                command += ["--seed", str(seed)]
            if cores is not None:
                command += ["--cores", str(cores)]
            if print_all:
                command.append("--print-all")
            command += [f"--allow={code}" for code in allow] + [f"--deny={code}" for code in deny]
            if not diagnose:
                command.append("--no-diagnose")
            report = _answer(command)
            output = np.load(target)
        findings = [Finding.of(item) for item in report.get("findings", [])]
        text = "".join(item["text"] for item in report["printed"])
        cycles = max((core["cycles"] for core in report["cores"]), default=0)
        return Run(output, findings, text, cycles, report)
