"""``python -m outboard.conformance --all``: runs the ONNX node tests on the simulated device."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from outboard.build.command import Parser

if TYPE_CHECKING:
    from .check import Device, Outcome

_EPILOG = """\
examples:
  python -m outboard.conformance --sample 100 --outboard target/release/outboard
  python -m outboard.conformance --all --jobs 2 --write --outboard target/release/outboard

standard output: a table, or with --json a line for each case and one with the counts
exit status: 0 when no case is worse than the committed list says, 1 for a wrong request, 3 when one is
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = Parser(
        prog="python -m outboard.conformance",
        description="Builds ONNX's backend node tests, runs them on the simulated device and compares.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = p.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="every case")
    which.add_argument("--sample", type=int, metavar="N", help="N cases spread evenly, the same every time")
    which.add_argument("--case", action="append", metavar="NAME", help="this case; may be repeated")
    p.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time (default: 2)")
    p.add_argument("--json", action="store_true", help="print JSON: a line for each case, then the counts")
    p.add_argument("--outboard", type=Path, required=True, metavar="PROGRAM", help="the outboard program")
    p.add_argument("--expected", type=Path, metavar="FILE", help="the list of cases that do not pass")
    p.add_argument("--table", type=Path, metavar="FILE", help="the page that --write writes")
    p.add_argument("--resume", type=Path, metavar="FILE", help="take over the outcomes of an earlier --json run")
    p.add_argument("--write", action="store_true", help="with --all: write the list and the page from this run")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    options = parser().parse_args(arguments)
    problem = _problem(options)
    if problem:
        _say(f"error: {problem}")
        return 1
    from . import cases, expected, pool, table

    # A run that is told to end ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    collected = cases.collect()
    names = [case.name for case in collected]
    _say(f"{len(names)} node tests")
    if len(names) != cases.TOTAL:
        _say(f"error: onnx gives {len(names)} node tests, not {cases.TOTAL}: use the versions of requirements.txt")
        return 1
    wanted = options.case or (names if options.all else cases.sample(names, options.sample))
    missing = sorted(set(wanted) - set(names))
    if missing:
        _say(f'error: there is no case "{missing[0]}"')
        return 1
    chosen = [case for case in collected if case.name in set(wanted)]
    try:
        results = _earlier(options.resume, set(wanted))
    except (OSError, ValueError, TypeError, KeyError) as error:
        _say(f"error: {options.resume} is not what a run with --json prints: {error}")
        return 1
    chosen = [case for case in chosen if case.name not in results]
    total = len(results) + len(chosen)
    with standing_device(options.outboard) as device:
        for name, outcome in pool.run(chosen, device, options.jobs):
            results[name] = outcome
            _progress(name, outcome, len(results), total, options.json)
    minutes = sum(outcome.seconds for outcome in results.values()) / options.jobs / 60
    _print_counts(results, options.json, minutes)
    if options.write:
        options.expected.write_text(expected.text(results), encoding="utf-8")
        options.table.write_text(table.page(results, minutes, options.jobs), encoding="utf-8")
        return _judge(results, None, names)
    return _judge(results, options.expected, names)


def _earlier(path: Path | None, wanted: set[str]) -> dict[str, Outcome]:
    """The outcomes of an earlier run, of the cases that are wanted now."""
    from .check import OUTCOMES, Outcome

    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path else ():
        fields = json.loads(line)
        name = fields.pop("case", None)
        if name in wanted:
            found[name] = Outcome(**fields)
            if found[name].outcome not in OUTCOMES:
                raise ValueError(f"{name} has the outcome {found[name].outcome}")
    return found


def _problem(options: argparse.Namespace) -> str | None:
    if not options.outboard.is_file():
        return f"no outboard program at {options.outboard}: cargo build -p outboard-cli"
    if options.jobs < 1 or (options.sample is not None and options.sample < 1):
        return "--jobs and --sample take a number from 1 on"
    if options.write and not (options.all and options.expected and options.table):
        return "--write needs --all, --expected and --table"
    return None


def _judge(results: dict[str, Outcome], path: Path | None, names: Sequence[str]) -> int:
    """Holds the outcomes against the committed list, or without one against what must never be."""
    from . import expected

    listed = expected.read(path) if path else {}
    stale = expected.unknown(listed, names)
    worse, better = expected.differences(results, listed) if path else ([], [])
    broken = [f"{name}: {r.outcome} ({r.reason})" for name, r in sorted(results.items()) if r.outcome in _NEVER]
    for title, lines in (("worse", worse), ("better", better), ("broken", broken), ("no such case", stale)):
        for line in lines:
            _say(f"{title}: {line}")
    return 3 if worse or broken or stale else 0


_NEVER = ("wrong", "crash")


def _progress(name: str, outcome: Outcome, done: int, total: int, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"case": name, **asdict(outcome)}), flush=True)
    if outcome.outcome in _NEVER:
        _say(f"{outcome.outcome}: {name}: {outcome.reason}")
    if done % 100 == 0 or done == total:
        _say(f"{done} of {total}")


def _print_counts(results: dict[str, Outcome], as_json: bool, minutes: float) -> None:
    from .check import OUTCOMES

    counts = Counter(outcome.outcome for outcome in results.values())
    if as_json:
        print(json.dumps({name: counts[name] for name in OUTCOMES}), flush=True)
        return
    for name in OUTCOMES:
        print(f"{name:<22} {counts[name]:>5}")
    print(f"{'all':<22} {len(results):>5}   {minutes:.1f} minutes")


@contextlib.contextmanager
def standing_device(program: Path) -> Iterator[Device]:
    """A simulated device that gives every client a process of its own, for as long as the context lasts."""
    from .check import Device

    with tempfile.TemporaryDirectory(prefix="outboard-onnx-") as folder:
        socket = Path(folder) / "device"
        command = [str(program), "device", "run", "--socket", str(socket)]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            try:
                deadline = time.monotonic() + 30
                while not socket.exists():
                    if child.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(f"{program} device run does not listen (status {child.poll()})")
                    time.sleep(0.01)
                yield Device(program.resolve(), socket)
            finally:
                child.terminate()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
