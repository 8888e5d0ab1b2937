"""Modules in C for the tests of sessions, built by the C compiler, and what they answer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from support import ROOT

EXAMPLES = ROOT / "examples/models"
MODULES = ROOT / "crates/cli/tests/modules"


def build(source: Path, folder: Path, *more: Path, name: str | None = None) -> Path:
    """A module, by the C compiler with the documented flags; ``more`` is linked in."""
    target = folder / f"{name or source.stem}.out"
    cflags, ldflags = ((EXAMPLES / name).read_text().split() for name in ("cflags.txt", "ldflags.txt"))
    subprocess.run(["cc", *cflags, "-I", EXAMPLES / "include", source, *more, "-o", target, *ldflags], check=True)
    return target


X = np.arange(8, dtype=np.float32).reshape(1, 2, 4) / 4 - 1


def expected() -> tuple[np.ndarray, int]:
    """The answer of the model in d4.c, from the formulas of its weights."""
    i, j = np.arange(8)[:, None], np.arange(6)[None, :]
    hidden = np.maximum(X.reshape(8) @ (((3 * i + 5 * j) % 7 - 3) / 4) + (np.arange(6) - 2) / 8, 0)
    i, j = np.arange(6)[:, None], np.arange(4)[None, :]
    logits = hidden @ (((5 * i + 2 * j) % 9 - 4) / 4) + (2 * np.arange(4) - 3) / 16
    powers = np.exp(logits - logits.max())
    return (powers / powers.sum()).reshape(1, 4), int(logits.argmax())
