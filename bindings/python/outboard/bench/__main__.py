"""``python -m outboard.bench``: times generated code beside onnxruntime and TVM's virtual machine, in one run."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from outboard.build.command import Parser
from outboard.build.errors import BuildError

from . import contestants
from .contestants import Contestant
from .networks import NETWORKS, SEED

_CALLS = {"resnet18": 1, "mobilenet_v2": 3, "transformer": 20, "resnet18_int8": 1, "mobilenet_v2_int8": 3}
_TOLERANCE = 1e-4
_STEPS = 0.06
"""Of eight bits: onnxruntime's answers differ as much from each other, with and without its optimisations."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    parser = Parser(
        prog="python -m outboard.bench",
        description="Times generated code beside onnxruntime and TVM's virtual machine: CPU time of one thread, the "
        "median of rounds in which all take turns.",
    )
    parser.add_argument("--network", action="append", choices=list(NETWORKS), help="this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds (default: 5)")
    parser.add_argument("--no-vm", action="store_true", help="leave TVM's virtual machine out, which is slow to build")
    parser.add_argument("--tune", metavar="FILE", type=Path, help="time tuned code as well, with this tuning cache")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each network")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("--rounds takes a number from 1 on")
    if not options.json:
        heads = ["onnxruntime", "`host`", "`host-native`", "TVM's VM", "`host` tuned", "`host-native` tuned"]
        heads += ["native ÷ onnxruntime", "build", "difference"]
        print(f"| network | {' | '.join(heads)} |")
        print("| --- |" + " ---: |" * len(heads))
    try:
        for name in options.network or NETWORKS:
            _report(name, measure(name, options.rounds, not options.no_vm, options.tune), options.json)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def measure(name: str, rounds: int, with_vm: bool, tune_cache: Path | None = None) -> dict[str, float]:
    """The median milliseconds of each contestant, the seconds of a build, and the difference to onnxruntime."""
    model = NETWORKS[name]()
    dims = model.graph.input[0].type.tensor_type.shape.dim
    x = np.random.default_rng(SEED).standard_normal([d.dim_value for d in dims]).astype(np.float32)
    with tempfile.TemporaryDirectory(prefix="outboard-bench-") as scratch:
        native, seconds = contestants.generated(model, x, "host-native", Path(scratch))
        portable, _ = contestants.generated(model, x, "host", Path(scratch))
        runners: dict[str, Contestant] = {
            "onnxruntime": contestants.onnxruntime(model, x),
            "host": portable,
            "host-native": native,
        }
        if tune_cache is not None:
            for target in ("host", "host-native"):
                tuned, _ = contestants.generated(model, x, target, Path(scratch), tune_cache)
                runners[f"{target}_tuned"] = tuned
        if with_vm:
            runners["tvm_vm"] = contestants.tvm_vm(model, x)
        results = {kind: run(1)[1].copy() for kind, run in runners.items()}  # warm, and what they answer
        times: dict[str, list[float]] = {kind: [] for kind in runners}
        for _ in range(rounds):
            for kind, run in runners.items():
                times[kind].append(run(1 if kind == "tvm_vm" else _CALLS[name])[0])
    expected = results["onnxruntime"]
    difference = max(float(np.abs(r - expected).max() / np.abs(expected).max()) for r in results.values())
    if difference > (_STEPS if name.endswith("_int8") else _TOLERANCE):
        raise BuildError(f"{name}: the answers differ by {difference:.1e}, so their times mean nothing")
    figures = {kind: 1e3 * statistics.median(values) for kind, values in times.items()}
    return {**figures, "build_seconds": seconds, "difference": difference}


def _report(name: str, figures: dict[str, float], as_json: bool) -> None:
    if as_json:
        print(
            json.dumps({"network": name, **{key: float(f"{value:.4g}") for key, value in figures.items()}}), flush=True
        )
        return
    ratio = figures["host-native"] / figures["onnxruntime"]
    cells = [
        f"{figures[kind]:.3g}" if kind in figures else ""
        for kind in ("onnxruntime", "host", "host-native", "tvm_vm", "host_tuned", "host-native_tuned")
    ]
    end = f"{ratio:.2f} | {figures['build_seconds']:.0f} s | {figures['difference']:.0e}"
    print(f"| {name} | {' | '.join(cells)} | {end} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
