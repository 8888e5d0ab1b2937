"""The tuner: what it measures decides, is kept, and is used again; wrong caches are refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import models
import numpy as np
import pytest
from onnx import TensorProto, helper
from support import difference, run_module, run_reference
from test_command import build

from outboard.build import BuildError, compile
from outboard.build.tune import Tuner
from outboard.build.tune_cache import TuningCache


def two_layers(rng: np.random.Generator):
    """A convolution and a product, each of which has several tiles."""
    n = helper.make_node
    weights = {
        "k": rng.standard_normal((32, 8, 3, 3)).astype(np.float32) / 8,
        "w": rng.standard_normal((32, 48)).astype(np.float32) / 8,
    }
    nodes = [
        n("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1]),
        n("Relu", ["c"], ["r"]),
        n("Transpose", ["r"], ["t"], perm=[0, 2, 3, 1]),
        n("MatMul", ["t", "w"], ["y"]),
    ]
    return models.make(
        nodes, {"x": (TensorProto.FLOAT, (1, 8, 14, 14))}, {"y": (TensorProto.FLOAT, (1, 14, 14, 48))}, weights
    )


@pytest.fixture
def model(rng):
    return two_layers(rng)


@pytest.fixture
def no_timing(monkeypatch) -> None:
    def times(*_):
        raise AssertionError("nothing is to be measured")

    monkeypatch.setattr(Tuner, "_times", times)


def pretend(monkeypatch, fastest: int) -> list[int]:
    """Lets the tile of a number be the fastest; gives the numbers of tiles that are offered, as kernels are timed."""
    offered: list[int] = []

    def times(_tuner, _function, choices):
        offered.append(len(choices))
        return [1e3 * (number != fastest % len(choices)) + 10 for number in range(len(choices))]

    monkeypatch.setattr(Tuner, "_times", times)
    return offered


def entries(path: Path) -> list[dict]:
    return [entry for kernels in json.loads(path.read_text())["targets"].values() for entry in kernels.values()]


def test_what_was_measured_is_kept_and_decides_later_builds(model, tmp_path, monkeypatch) -> None:
    cache, said = tmp_path / "tuning.json", []
    offered = pretend(monkeypatch, 3)
    tuned = compile(model, tune=True, tune_cache=cache, progress=said.append)
    assert len(offered) == 2 and min(offered) > 3
    assert sum("times as fast as untuned" in line for line in said) == 2
    kernels = entries(cache)
    assert len(kernels) == 2
    for entry in kernels:
        assert entry["tile"]["rows"] * entry["tile"]["vectors"] > 0
        assert (entry["nanoseconds"], entry["untuned_nanoseconds"]) == (10, 1010)
        assert entry["parameters"][0].startswith("float32[")

    before = cache.read_bytes()
    pretend(monkeypatch, 1)
    assert compile(model, tune=True, tune_cache=cache).elf == tuned.elf, "what is known is not measured again"
    assert compile(model, tune_cache=cache).elf == tuned.elf
    assert cache.read_bytes() == before
    assert compile(model).elf != tuned.elf, "without the options the rule's own tiles are taken"


def test_every_tile_that_is_offered_computes_the_same(model, rng, tmp_path, monkeypatch) -> None:
    x = rng.standard_normal((1, 8, 14, 14)).astype(np.float32)
    expected = run_reference(model, {"x": x})[0]
    sources = set()
    for number in range(10):
        pretend(monkeypatch, number)
        result = compile(model, tune=True, tune_cache=tmp_path / f"{number}.json")
        sources.add(result.c_source)
        result.write(tmp_path / "lib0.out")
        assert difference(run_module(tmp_path / "lib0.out", [x], 1, tmp_path)[0], expected) < 1e-4
    assert len(sources) > 5


@pytest.mark.parametrize("target", ["host", "host-native"])
def test_kernels_are_timed_on_this_machine(model, target, tmp_path) -> None:
    cache = tmp_path / "tuning.json"
    compile(model, target=target, tune=True, tune_cache=cache)
    for entry in entries(cache):
        assert 0 < entry["nanoseconds"] <= entry["untuned_nanoseconds"]
        assert (entry["tile"] is None) == (entry["nanoseconds"] == entry["untuned_nanoseconds"])


def test_a_cache_knows_the_kernels_of_its_target_only(model, tmp_path, monkeypatch) -> None:
    cache = tmp_path / "tuning.json"
    pretend(monkeypatch, 2)
    compile(model, tune=True, tune_cache=cache)
    assert (
        compile(model, target="host-native", tune_cache=cache).c_source == compile(model, target="host-native").c_source
    )
    compile(model, target="host-native", tune=True, tune_cache=cache)
    assert len(json.loads(cache.read_text())["targets"]) == 2


def test_what_was_measured_before_an_interruption_is_kept(model, tmp_path, monkeypatch) -> None:
    cache = tmp_path / "tuning.json"

    def times(_tuner, _function, choices):
        if entries_added:
            raise KeyboardInterrupt
        entries_added.append(1)
        return [10.0] * len(choices)

    entries_added: list[int] = []
    monkeypatch.setattr(Tuner, "_times", times)
    with pytest.raises(KeyboardInterrupt):
        compile(model, tune=True, tune_cache=cache)
    assert [entry["tile"] for entry in entries(cache)] == [None]


def test_caches_of_builds_at_one_time_are_joined(model, tmp_path, monkeypatch) -> None:
    cache = tmp_path / "tuning.json"
    first = TuningCache(cache)
    pretend(monkeypatch, 1)
    compile(model, tune=True, tune_cache=cache)
    first.add("another target", "key", next(iter(TuningCache(cache)._known.values())))
    first.save()
    assert len(entries(cache)) == 3


def test_a_tile_that_does_not_fit_is_said_and_left(model, tmp_path, monkeypatch, no_timing) -> None:
    cache, said = tmp_path / "tuning.json", []
    pretend(monkeypatch, 2)
    compile(model, tune=True, tune_cache=cache)
    cache.write_text(cache.read_text().replace('"rows": ', '"rows": 1'))
    assert compile(model, tune_cache=cache, progress=said.append).c_source == compile(model).c_source
    assert sum(f"the tile in {cache} does not fit" in line for line in said) == 2


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "Expecting value"),
        ("[" * 100_000, "recursion"),
        ("[]", "does not say that it is one"),
        ('{"what": @, "version": 2, "targets": {}}', "its version is 2"),
        ('{"what": @, "version": 1, "targets": []}', "targets is not an object"),
        ('{"what": @, "version": 1, "targets": {"t": {"k": 1}}}', "t, k is not an object"),
        ('{"what": @, "version": 1, "targets": {"t": {"k": {"parameters": [1]}}}}', 't, k: "parameters"'),
        (
            '{"what": @, "version": 1, "targets": {"t": {"k": {"parameters": [], "kernel": "k", "nanoseconds": 1, '
            '"untuned_nanoseconds": 1, "tile": {"column": true}}}}}',
            't, k: "column" is true',
        ),
    ],
)
def test_a_file_that_is_no_cache_is_refused_and_kept(text, what, model, tmp_path) -> None:
    cache = tmp_path / "tuning.json"
    text = text.replace("@", '"tiles of kernels, measured by outboard.build"')
    cache.write_text(text)
    for options in ({"tune": True}, {}):
        with pytest.raises(BuildError) as refused:
            compile(model, tune_cache=cache, **options)
        assert str(cache) in str(refused.value) and what in str(refused.value) and "--tune-cache" in str(refused.value)
    assert cache.read_text() == text


def test_caches_that_cannot_be_are_refused_before_anything_is_measured(model, tmp_path, no_timing) -> None:
    with pytest.raises(BuildError, match="there is no tuning cache"):
        compile(model, tune_cache=tmp_path / "none.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"tuning cache|cannot make the folder"):
        compile(model, tune=True, tune_cache=tmp_path / "file" / "tuning.json")
    with pytest.raises(BuildError, match="c-only"):
        compile(model, target="c-only", tune=True, tune_cache=tmp_path / "tuning.json")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_command_tunes_and_says_so(model, tmp_path) -> None:
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    done = build("m.onnx", "-o", "lib0.out", "--tune", folder=tmp_path, OUTBOARD_CACHE=str(tmp_path / "kept"))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.count("the fastest of") == 2
    cache = tmp_path / "kept" / "tuning.json"
    assert len(entries(cache)) == 2 and stat.S_IMODE(cache.stat().st_mode) & 0o400
    done = build("m.onnx", "-o", "again.out", "--tune-cache", cache, folder=tmp_path)
    assert done.returncode == 0 and "the fastest of" not in done.stderr
    assert (tmp_path / "lib0.out").read_bytes() == (tmp_path / "again.out").read_bytes()
    cache.write_text("{}")
    done = build("m.onnx", "-o", "third.out", "--tune-cache", cache, folder=tmp_path)
    assert done.returncode == 1 and done.stderr.startswith("error: ") and not (tmp_path / "third.out").exists()
