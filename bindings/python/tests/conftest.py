"""Fixtures of the tests. Every random number comes from a seed, which a failing test prints."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from c_modules import EXAMPLES, MODULES, build
from support import outboard_program


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers from $OUTBOARD_SEED, or always the same ones; pytest shows the line when the test fails."""
    seed = int(os.environ.get("OUTBOARD_SEED") or 20261129)
    print(f"seed: OUTBOARD_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(scope="module")
def d4(folder: Path) -> Path:
    return build(EXAMPLES / "handwritten/d4.c", folder)


@pytest.fixture(scope="module")
def echo(folder: Path) -> Path:
    return build(MODULES / "echo.c", folder)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A simulated device, whatever the environment says."""
    monkeypatch.setenv("OUTBOARD_DEVICE", "sim")
    monkeypatch.setenv("OUTBOARD_DEVICE_PROGRAM", str(outboard_program()))
    # What the virtual machine returns depends on whether the program uses TVM; these tests do not.
    monkeypatch.delitem(sys.modules, "tvm", raising=False)
    yield
    gc.collect()
