"""The committed list of every case that does not pass, with its reason: what a run is held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from .check import OUTCOMES, PASS, Outcome

_HEADER = """\
# Every ONNX node test that does not pass, with its outcome and reason: `cargo xtask onnx --all --write`.
# A case that is not listed passes. unsupported_front_end: TVM's own importer raises for every preparation.
"""


def read(path: Path) -> dict[str, Outcome]:
    """The outcomes by case. Raises ValueError for a line that is none."""
    found: dict[str, Outcome] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 3 or fields[1] not in OUTCOMES or fields[1] == PASS or fields[0] in found:
            raise ValueError(f"{path}:{number}: not a case, an outcome and a reason with tabs between, each case once")
        found[fields[0]] = Outcome(fields[1], fields[2])
    return found


def text(results: Mapping[str, Outcome]) -> str:
    """The list of a full run."""
    lines = [
        f"{name}\t{outcome.outcome}\t{' '.join(outcome.reason.split())}\n"
        for name, outcome in sorted(results.items())
        if outcome.outcome != PASS
    ]
    return _HEADER + "".join(lines)


def differences(results: Mapping[str, Outcome], listed: Mapping[str, Outcome]) -> tuple[list[str], list[str]]:
    """What is worse than the list says and what is better, a line each."""
    worse, better = [], []
    for name, outcome in sorted(results.items()):
        before = listed.get(name, Outcome(PASS)).outcome
        line = f"{name}: {before} before, {outcome.outcome} now{f' ({outcome.reason})' if outcome.reason else ''}"
        if OUTCOMES.index(outcome.outcome) > OUTCOMES.index(before):
            worse.append(line)
        elif outcome.outcome != before:
            better.append(line)
    return worse, better


def unknown(listed: Iterable[str], names: Iterable[str]) -> list[str]:
    """Names of the list that no case has."""
    return sorted(set(listed) - set(names))
