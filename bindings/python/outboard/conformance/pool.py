"""Cases in processes of their own, several at a time, so that nothing one does can touch another."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NoReturn

from .cases import Case
from .check import CRASH, FRONT_END, Device, Outcome, check

LIMIT = 300.0
"""Seconds of a case after which it counts as a crash."""


@dataclass
class _Worker:
    case: Case
    pid: int
    pipe: int
    started: float
    deadline: float
    said: bytes = field(default=b"")


def run(cases: Sequence[Case], device: Device, jobs: int, limit: float = LIMIT) -> Iterator[tuple[str, Outcome]]:
    """Yields the name and outcome of every case, in the order they end."""
    # Loaded once here, inherited by every process.
    import outboard.build.lowering  # noqa: F401

    waiting = list(reversed(cases))
    running: dict[int, _Worker] = {}
    try:
        while waiting or running:
            while waiting and len(running) < max(jobs, 1):
                worker = _start(waiting.pop(), device, limit)
                running[worker.pipe] = worker
            now = time.monotonic()
            nearest = min(worker.deadline for worker in running.values())
            ready, _, _ = select.select(list(running), [], [], max(nearest - now, 0.0))
            for pipe in ready:
                worker = running[pipe]
                data = os.read(pipe, 1 << 16)
                worker.said += data
                if not data:
                    del running[pipe]
                    yield worker.case.name, _end(worker)
            for worker in [w for w in running.values() if w.deadline <= time.monotonic()]:
                del running[worker.pipe]
                os.kill(worker.pid, signal.SIGKILL)
                _end(worker)
                yield worker.case.name, Outcome(CRASH, f"not done after {limit:.0f} seconds", seconds=limit)
    finally:
        for worker in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
            _end(worker)


def _start(case: Case, device: Device, limit: float) -> _Worker:
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _child(writer, lambda say: check(case, device, say))
    os.close(writer)
    now = time.monotonic()
    return _Worker(case, pid, reader, now, now + limit)


def _child(writer: int, work: Callable[[Callable[[Outcome], None]], Outcome]) -> NoReturn:
    """Says each outcome as a line of JSON; the last one counts. Never returns."""

    def say(outcome: Outcome) -> None:
        os.write(writer, json.dumps(asdict(outcome)).encode() + b"\n")

    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        say(work(say))
    except BaseException as error:
        say(Outcome(CRASH, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"))
    finally:
        os._exit(0)


def _end(worker: _Worker) -> Outcome:
    os.close(worker.pipe)
    _, status = os.waitpid(worker.pid, 0)
    return replace(outcome(worker.said, status), seconds=round(time.monotonic() - worker.started, 3))


def outcome(said: bytes, status: int) -> Outcome:
    """What a process that ended with ``status`` came to, from the lines it wrote."""
    lines = [line for line in said.split(b"\n") if line]
    died = os.waitstatus_to_exitcode(status) != 0
    if not lines:
        return Outcome(CRASH, f"the process ended with status {os.waitstatus_to_exitcode(status)}")
    last = Outcome(**json.loads(lines[-1]))
    if died:
        # It was refused already, and ended while TVM's own importer looked at it.
        return Outcome(FRONT_END, f"TVM: its importer ends the process; {last.reason}")
    return last
