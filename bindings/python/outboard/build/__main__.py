"""``python -m outboard.build MODEL.onnx -o lib0.out``: compiles a model into a device module."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from .command import Parser
from .errors import BuildError
from .files import write_whole
from .tensors import DTYPES
from .toolchain import TARGETS

if TYPE_CHECKING:
    from .compiler import Module

_EPILOG = f"""\
examples:
  python -m outboard.build model.onnx -o lib0.out
  python -m outboard.build magika.onnx -o lib0.out --input bytes=1,2048,int32
  python -m outboard.build model.onnx -o out/ --target c-only
  python -m outboard.build model.onnx -o lib0.out --tune --tune-cache tuning.json

element types: {", ".join(DTYPES)}
exit status: 0 when the module is written, 1 when it cannot be built; nothing is left half-written
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = Parser(
        prog="python -m outboard.build",
        description="Compiles an ONNX model into a module that an Outboard device loads.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("model", metavar="MODEL.onnx", help="the model")
    p.add_argument(
        "-o", "--output", required=True, metavar="PATH", help="the module to write (with --target c-only: a folder)"
    )
    p.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=SHAPE,DTYPE",
        help="fix the shape of an input, for example data=1,3,224,224,float32; may be repeated",
    )
    p.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="NAME=N",
        help="fix the size of a named dimension; may be repeated",
    )
    p.add_argument(
        "--bound",
        action="append",
        default=[],
        metavar="NAME=N",
        help="let a named dimension be anything from 1 to N at run time, with code for each size; may be repeated",
    )
    p.add_argument(
        "--target",
        choices=TARGETS,
        default="host",
        help="host: this CPU's architecture at a portable level (default); host-native: everything this CPU has; "
        "c-only: the C source and its data, no module",
    )
    p.add_argument("--name", help="the model's name in the module (default: the file's name)")
    p.add_argument(
        "--keep-c", metavar="PATH", help="keep the C source: a file that ends in .c, or a folder for all of it"
    )
    p.add_argument(
        "--cache",
        action="append",
        default=[],
        metavar="PAST=PRESENT",
        help="an input and the output that replaces it in the next call, which the device may keep; may be repeated; "
        "auto: pairs named past… and present…",
    )
    p.add_argument(
        "--profile-layers",
        action="store_true",
        help="count the cycles of each layer; the device prints them after a run",
    )
    p.add_argument(
        "--tune",
        action="store_true",
        help="time a handful of schedules of each kernel on this machine and take the fastest; takes minutes, once",
    )
    p.add_argument(
        "--tune-cache",
        metavar="FILE",
        help="where timings are kept (default: tuning.json in the user's cache folder); without --tune: take what it "
        "knows and measure nothing",
    )
    p.add_argument("-q", "--quiet", action="store_true", help="say nothing unless it fails")
    p.add_argument("--version", action="version", version=f"outboard.build {__version__}")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    options = parser().parse_args(arguments)
    started = time.monotonic()

    def say(what: str) -> None:
        if not options.quiet:
            print(f"outboard.build: {what}", file=sys.stderr)

    try:
        from . import compile
    except ImportError as error:
        print(f"error: {error}\n  help: pip install -r bindings/python/requirements.txt", file=sys.stderr)
        return 1
    try:
        result = compile(
            options.model,
            inputs=options.input,
            bind=_sizes("--bind", options.bind),
            bounds=_sizes("--bound", options.bound),
            target=options.target,
            name=options.name,
            profile_layers=options.profile_layers,
            caches=options.cache,
            tune=options.tune,
            tune_cache=options.tune_cache,
            progress=say,
        )
        if options.keep_c:
            _keep_c(result, Path(options.keep_c))
        if result.elf is None:
            result.write_c(options.output)
        else:
            result.write(options.output)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 1
    say(_summary(result, options.output, time.monotonic() - started))
    return 0


def _sizes(option: str, texts: Sequence[str]) -> dict[str, int]:
    sizes = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or not name or not number.isdecimal():
            raise BuildError(f'{option} "{text}" is not NAME=N', hint=f"write for example {option} batch=1")
        sizes[name] = int(number)
    return sizes


def _keep_c(result: Module, path: Path) -> None:
    if path.suffix == ".c":
        write_whole(path, result.c_source.encode())
    else:
        result.write_c(path)


def _summary(result: Module, output: str, seconds: float) -> str:
    tensors = "; ".join(
        f"{kind} " + ", ".join(f"{t.name} {t}" for t in specs)
        for kind, specs in (("in", result.inputs), ("out", result.outputs))
    )
    sizes = f"weights {len(result.weights):,} bytes, workspace {result.workspace_bytes:,} bytes"
    return f"{output}: {tensors}; {sizes}; {seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
