"""Python programs for the board, unchanged, over the nodes of a simulated one: RPMsg, caches that are not coherent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, nodes_library, outboard_program
from test_c7x import library

pytestmark = pytest.mark.usefixtures("device")

SESSION = """
import sys
import numpy as np
import outboard

x = np.arange(8, dtype=np.float32).reshape(1, 2, 4) / 4 - 1
with outboard.Session("rpmsg") as session, session.load(sys.argv[1]) as module:
    assert session.device == "rpmsg:7e000000.dsp", session.device
    session.reserve_io(4096, 4096)
    probabilities, top = module(x)
    staged = module.create_input(x.shape)
    for scale in (1, 2):
        staged[:] = x * scale
        np.testing.assert_array_equal(module.run_nocopy(staged)[0], module(x * scale)[0])
    buffer = module.input(x.shape)
    buffer.fill(x)
    buffer.hand_over()
    before = session.traffic
    np.testing.assert_array_equal(module.run_nocopy(buffer)[0], probabilities)
    assert session.traffic == before
print("right", probabilities.shape)
"""

MACHINE = """
import sys
import numpy as np
from outboard.c7x import C7xVirtualMachine

x = np.arange(8, dtype=np.float32).reshape(1, 2, 4) / 4 - 1
with C7xVirtualMachine(sys.argv[1], sys.argv[2]) as vm:
    probabilities, top = vm["main"](x)
    staged = vm.create_input(x.shape)
    staged[:] = x
    np.testing.assert_array_equal(vm.run_nocopy(staged)[0], probabilities)
    assert vm.last_cycles > 0
print("right", probabilities.shape)
"""


@pytest.mark.parametrize("program", [SESSION, MACHINE], ids=["session", "machine"])
def test_a_python_program_runs_unchanged_over_the_nodes_of_a_board(program: str, d4: Path) -> None:
    environment = os.environ | {
        "OUTBOARD_DEVICE": "rpmsg",
        "OUTBOARD_NODES_LIBRARY": str(nodes_library()),
        "PYTHONPATH": str(ROOT / "bindings/python"),
    }
    command = [outboard_program(), "board-env", "--incoherent", "--", sys.executable, "-c", program, d4, library()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "right (1, 4)\n"), done.stderr
