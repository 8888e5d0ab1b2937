"""The examples of docs/reference/custom-ops.md, run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT, outboard_program

PAGE = (ROOT / "docs/reference/custom-ops.md").read_text()


def block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return found[0]


def walk(folder: Path) -> str:
    """Runs the five commands in a folder with nothing but what the page asks for in the path."""
    programs = folder / "programs"
    programs.mkdir()
    (programs / "outboard").symlink_to(outboard_program())
    (programs / "python3").symlink_to(sys.executable)
    empty = folder / "empty"
    empty.mkdir()
    # A link to the interpreter of a virtual environment does not find its packages by itself.
    packages = os.pathsep.join(path for path in sys.path if path)
    env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": packages}
    done = subprocess.run(
        ["bash", "-e", "-c", block("sh")], cwd=empty, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_stranger_walks_from_an_empty_folder_to_eight_cores_in_five_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lines = re.sub(r"^cat > .*?^END$", "cat", block("sh"), flags=re.MULTILINE | re.DOTALL).splitlines()
    assert len(lines) == 5
    said = walk(tmp_path)
    assert said.endswith("equal\n") and "8 cores" in said

    # The example in Python uses what the walk has made.
    monkeypatch.chdir(tmp_path / "empty")
    monkeypatch.setenv("OUTBOARD_BIN", str(outboard_program()))
    names: dict = {}
    exec(compile(block("python"), "custom-ops.md", "exec"), names)
    names["test_scale_agrees_with_numpy"](tmp_path)
