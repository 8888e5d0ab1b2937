"""The command: what it writes, what it says, how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import models
import onnx
import pytest
from onnx import TensorProto, helper
from support import ROOT

from outboard.build import fetch


def build(*arguments: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outboard.build", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bindings" / "python"), **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def model(tmp_path, rng) -> Path:
    path = tmp_path / "small.onnx"
    onnx.save(models.two_outputs(rng), path)
    return path


def test_a_module_is_written_and_described_on_standard_error(model, tmp_path) -> None:
    done = build(model, "-o", "lib0.out", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "lib0.out: in x float32[3,5]; out scores float32[3,7], top int64[3], same float32[3,5]" in done.stderr
    assert (tmp_path / "lib0.out").read_bytes().startswith(b"\x7fELF")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lib0.out", "small.onnx"]


def test_quiet_says_nothing(model, tmp_path) -> None:
    done = build(model, "-o", "lib0.out", "-q", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_same_model_gives_the_same_bytes_anywhere(model, tmp_path) -> None:
    other = tmp_path / "another folder"
    other.mkdir()
    assert build(model, "-o", "a.out", folder=tmp_path).returncode == 0
    assert build(model, "-o", "b.out", folder=other, TMPDIR=str(other)).returncode == 0
    assert (tmp_path / "a.out").read_bytes() == (other / "b.out").read_bytes()


def test_the_c_source_can_be_kept_as_a_file_or_a_folder(model, tmp_path) -> None:
    assert build(model, "-o", "a.out", "--keep-c", "a.c", folder=tmp_path).returncode == 0
    assert build(model, "-o", "a.out", "--keep-c", "parts", folder=tmp_path).returncode == 0
    assert (tmp_path / "a.c").read_text() == (tmp_path / "parts" / "lib0.c").read_text()


def test_c_only_writes_what_a_c_compiler_makes_a_module_of(model, tmp_path) -> None:
    done = build(model, "-o", "parts", "--target", "c-only", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    parts = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert parts == ["lib0.c", "notes.bin", "tvm_dsp_io_meta.bin", "weights.S", "weights.bin"]


def test_c_only_needs_no_compiler(model, tmp_path) -> None:
    assert build(model, "-o", "parts", "--target", "c-only", folder=tmp_path, CC="/nonexistent").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.onnx", "-o", "lib0.out"], "cannot read absent.onnx"),
        (["small.onnx", "-o", "lib0.out", "--input", "x=2,5,1"], "has 2 dimensions"),
        (["small.onnx", "-o", "lib0.out", "--bind", "n"], "is not NAME=N"),
        (["small.onnx", "-o", "no/such/folder/lib0.out"], "cannot write"),
        (["small.onnx", "-o", "lib0.out", "--keep-c", "no/such/folder/a.c"], "cannot write"),
        (["small.onnx"], "required: -o/--output"),
        (["small.onnx", "-o", "lib0.out", "--target", "vax"], "invalid choice"),
    ],
)
def test_a_wrong_request_ends_with_status_1_and_writes_nothing(arguments, message, model, tmp_path) -> None:
    done = build(*arguments, folder=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [model.name]


def test_a_failing_compiler_leaves_an_older_module_as_it_was(model, tmp_path) -> None:
    (tmp_path / "lib0.out").write_text("an older module")
    done = build(model, "-o", "lib0.out", folder=tmp_path, CC="false")
    assert done.returncode == 1
    assert "the C compiler failed" in done.stderr
    assert (tmp_path / "lib0.out").read_text() == "an older module"


def test_missing_packages_are_said_with_their_remedy(model, tmp_path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "onnx.py").write_text("raise ImportError('no onnx', name='onnx')")
    paths = [str(tmp_path / "hidden"), str(ROOT / "bindings" / "python")]
    command = [sys.executable, "-m", "outboard.build", str(model), "-o", "lib0.out"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "requirements.txt, and onnx is missing" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_compiler_is_said_before_the_work_begins(model, tmp_path) -> None:
    done = build(model, "-o", "lib0.out", folder=tmp_path, CC="/nonexistent/cc")
    assert done.returncode == 1
    assert "does not start" in done.stderr
    assert "importing" not in done.stderr


def test_an_operator_that_cannot_be_compiled_is_named_with_its_node(tmp_path) -> None:
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["y"], name="noise")]
    both = {"x": (TensorProto.FLOAT, (4,))}, {"y": (TensorProto.FLOAT, (4,))}
    onnx.save(models.make(nodes, *both), tmp_path / "random.onnx")
    done = build("random.onnx", "-o", "lib0.out", folder=tmp_path)
    assert done.returncode == 1
    assert 'RandomNormalLike "noise" (node 0): this operator cannot be compiled' in done.stderr
    assert not (tmp_path / "lib0.out").exists()


def test_a_fetched_file_with_another_checksum_is_fetched_again(tmp_path, monkeypatch) -> None:
    network = fetch.NETWORKS["silero"]
    (tmp_path / network.members[0].name).write_bytes(b"half a download")
    asked = []

    def download(package: str, _directory: Path) -> Path:
        asked.append(package)
        wheel = tmp_path / "empty.whl"
        wheel.write_bytes(b"not a wheel")
        return wheel

    monkeypatch.setattr(fetch, "_download", download)
    with pytest.raises(fetch.BuildError, match=r"does not hold silero_vad/data/silero_vad_openvino_16k\.onnx"):
        fetch.fetch("silero", tmp_path)
    assert asked == ["silero-vad==6.2.3"]
    assert (tmp_path / network.members[0].name).read_bytes() == b"half a download"
