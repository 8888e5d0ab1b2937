"""Fixtures of the tests. Every random number comes from a seed, which a failing test prints."""

from __future__ import annotations

import os

import numpy as np
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers from $OUTBOARD_SEED, or from a seed of this run; pytest shows the line when the test fails."""
    seed = int(os.environ.get("OUTBOARD_SEED") or np.random.SeedSequence().generate_state(1)[0])
    print(f"seed: run again with OUTBOARD_SEED={seed}")
    return np.random.default_rng(seed)
