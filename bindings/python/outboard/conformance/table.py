"""The page docs/onnx.md, written from the outcomes of a full run."""

from __future__ import annotations

import platform
import re
from collections import Counter, defaultdict
from collections.abc import Mapping

import onnx
import tvm

from . import prepare
from .check import CRASH, FRONT_END, OUTCOMES, PASS, UNSUPPORTED, WRONG, Outcome

_MEANING = {
    PASS: "built, run on the simulated device, equal to the suite's result",
    FRONT_END: "refused, and TVM's own importer raises for every preparation too",
    UNSUPPORTED: "refused by name, though TVM's importer takes it",
    WRONG: "another result than the suite's, or an error of the device",
    CRASH: "the build or the device ended unasked, or an unnamed exception",
}

_PAGE = """\
# ONNX conformance

The ONNX project's backend node tests on the simulated C7x: every model is compiled by `outboard.build`, loaded, called
and compared with the result that the suite gives. `cargo xtask onnx --all --write` writes this page and
[the list of every case that does not pass](../bindings/python/conformance-expected.txt), with its exception.

onnx {onnx}, TVM {tvm}, Python {python}, {machine}; {total:,} cases, all of them counted below; {minutes:.0f} minutes
with {jobs} at a time on a shared machine.

| outcome | cases | share | |
| --- | ---: | ---: | --- |
{outcomes}
| all | {total} | 100.0 % | |

Of the {importable:,} cases that TVM's importer takes or a rewrite makes importable, {share:.1f} % pass; the others are
refused by name.

## How the passes were prepared

A node test gives at run time what models hold as constants: axes, shapes, sizes. A module has fixed shapes. So a case
is tried as it is; with its control inputs bound to the test's values (an input that decides a shape or an axis, or a
single element beside other inputs); folded by onnxruntime's basic optimisations. Data is never bound.

| preparation | passes |
| --- | ---: |
{preparations}

{constant} of the passes have no input left: control inputs decide the whole result, and the module holds it.

## How near is near enough

The suite's own tolerance, relative 1e-3, with two differences: an absolute 1e-6 instead of 1e-7, and 2e-3 for float16
or 1.6e-2 for bfloat16 results, which is two units in the last place. Shapes, element types and integers must be equal.

## What does not pass

| operator or input (outcome) | cases | the first reason |
| --- | ---: | --- |
{refusals}
"""


_NODE = re.compile(r'(?:TVM: )?([\w.]+) "[^"]*" \(node \d+\)')
_INPUT = re.compile(r'(?:in|out)put "[^"]*" (?:has the element type (\w+)|(has \d+ dimensions)|(is not a tensor))')


def page(results: Mapping[str, Outcome], minutes: float, jobs: int) -> str:
    """The page for the outcomes of all cases."""
    counts = Counter(outcome.outcome for outcome in results.values())
    total = len(results)
    importable = total - counts[FRONT_END]
    passes = [outcome for outcome in results.values() if outcome.outcome == PASS]
    preparations = Counter(outcome.preparation for outcome in passes)
    return _PAGE.format(
        onnx=onnx.__version__,
        tvm=tvm.__version__,
        python=platform.python_version(),
        machine=platform.machine(),
        total=total,
        minutes=minutes,
        jobs=jobs,
        outcomes="\n".join(
            f"| {name} | {counts[name]} | {100 * counts[name] / max(total, 1):.1f} % | {_MEANING[name]} |"
            for name in OUTCOMES
        ),
        importable=importable,
        share=100 * counts[PASS] / max(importable, 1),
        preparations="\n".join(f"| {name} | {preparations[name]} |" for name in prepare.NAMES),
        constant=sum(outcome.inputs == 0 for outcome in passes),
        refusals=_refusals(results),
    )


def _refusals(results: Mapping[str, Outcome]) -> str:
    """A line for each subject of a refusal, the commonest first."""
    by_subject: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for _, outcome in sorted(results.items()):
        if outcome.outcome != PASS:
            by_subject[subject(outcome.reason), outcome.outcome].append(outcome.reason)
    lines = sorted(by_subject.items(), key=lambda item: (-len(item[1]), item[0]))
    return "\n".join(f"| {name} ({kind}) | {len(reasons)} | {_cell(reasons[0])} |" for (name, kind), reasons in lines)


def subject(reason: str) -> str:
    """What a refusal is about: an operator, an element type, or a few words."""
    if match := _NODE.match(reason):
        return match[1]
    if match := re.match(
        r'(?:in|out)put "[^"]*" (?:has the element type (\w+)|(has \d+ dimensions)|(is not a tensor))', reason
    ):
        return "tensors of type " + match[1] if match[1] else "an input or output that " + (match[2] or match[3])
    if match := re.search(r"not supported for frontend ONNX: (\w+)", reason):
        return match[1]
    if match := re.match(r"TVM: (\w+)", reason):
        return f"TVM {match[1]}"
    return re.sub(r'"[^"]*"', "…", reason)[:40]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
