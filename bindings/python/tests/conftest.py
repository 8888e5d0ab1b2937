"""Fixtures of the tests. Every random number comes from a seed, which a failing test prints."""

from __future__ import annotations

import os

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers from $OUTBOARD_SEED, or always the same ones; pytest shows the line when the test fails."""
    seed = int(os.environ.get("OUTBOARD_SEED") or 20261129)
    print(f"seed: OUTBOARD_SEED={seed}")
    return np.random.default_rng(seed)
