"""Custom operations in C++ and Rust against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import ROOT, outboard_program

from outboard import op

OPS = ROOT / "device/ops"
EIGHT = (2, 1, 3, 1, 2, 1, 2, 3)
EMPTY = [(0,), (3, 0), (0, 2, 5), (2, 1, 3, 1, 2, 1, 2, 0)]
SHAPES = [(1,), (7,), (1023,), (37, 29), (4097,), EIGHT, *EMPTY]
NUMBERS = np.random.default_rng(20)

LIBRARIES = {
    "relu": ["relu(Tensor x)", "relu_tcm(Tensor x)", "relu_multicore(Tensor x)"],
    "negate": ["negate(Tensor x)", "negate_int(Tensor x)"],
    "add": ["add(Tensor x, Tensor y)", "axpy(Tensor x, Tensor y, float a, int n)"],
    "matmul": ["matmul(Tensor x, Tensor y)"],
    "softmax": ["softmax(Tensor x)"],
    "quantise": ["quantise(Tensor x, float scale, int zero)", "dequantise(Tensor q, float scale, int zero)"],
    "topk": ["topk_parts(Tensor x, int k)", "topk_merge(Tensor parts, int k)"],
    "giou": ["giou(Tensor boxes, Tensor others)"],
}


#: Operations that return a tensor of their own, and those that access elements one by one: for one core.
ONE_CORE = {"relu", "relu_tcm", "negate", "add", "axpy", "dequantise"}


class Sample:
    """A sample's operations, each in a library for one core or for eight; whatever they do has no findings."""

    def __init__(self, name: str, language: str, folder: Path) -> None:
        self.source = OPS / (f"{name}.cpp" if language == "c++" else f"rust/{name}.rs")
        self.functions = {function.split("(")[0]: function for function in LIBRARIES[name]}
        self.folder = folder / f"{name}-{language[0]}"
        self.folder.mkdir()
        self.built: dict[bool, op.Library] = {}

    def library(self, function: str) -> op.Library:
        several = function not in ONE_CORE
        if several not in self.built:
            same = [text for name, text in self.functions.items() if (name not in ONE_CORE) == several]
            schemas = [f"samples::{text} -> (Tensor)" for text in same]
            output = self.folder / f"{'eight' if several else 'one'}.so"
            self.built[several] = op.build(self.source, schemas=schemas, output=output, multicore=several)
        return self.built[several]

    def run(self, function: str, *arguments, **options) -> op.Run:
        run = self.library(function).run(function, *arguments, **options)
        assert run.findings == []
        return run

    def __getattr__(self, function: str):
        return lambda *arguments, **options: self.run(function, *arguments, **options).output


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory):
    """The samples, each built when it is used first: in C++ and in Rust."""
    folder = tmp_path_factory.mktemp("libraries")
    made: dict[tuple[str, str], Sample] = {}

    def get(name: str, language: str) -> Sample:
        if (name, language) not in made:
            made[name, language] = Sample(name, language, folder)
        return made[name, language]

    return get


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTBOARD_BIN", str(outboard_program()))


def floats(*shape: int) -> np.ndarray:
    return NUMBERS.standard_normal(shape).astype(np.float32)


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    """To one part in a million."""
    return found.shape == expected.shape and bool(np.allclose(found, expected, rtol=1e-6, atol=1e-7))


LANGUAGES = pytest.mark.parametrize("language", ["c++", "rust"])


@LANGUAGES
def test_relu_agrees_for_every_shape(libraries, language):
    library = libraries("relu", language)
    for shape in SHAPES:
        x = floats(*shape)
        # In C++, the element accessor is that of a matrix.
        element = ["relu"] if language == "rust" or len(shape) == 2 else []
        for name in ["relu_tcm", "relu_multicore", *element]:
            run = library.run(name, x)
            assert run.output.shape == x.shape and np.array_equal(run.output, np.maximum(x, 0)), (name, shape)
            assert (run.cycles > 0) == (x.size > 0)


@LANGUAGES
def test_negate_agrees_for_every_shape(libraries, language):
    library = libraries("negate", language)
    for shape in SHAPES:
        if len(shape) <= 3:
            x = floats(*shape)
            assert np.array_equal(library.negate(x), -x), shape
        n = NUMBERS.integers(-(2**31), 2**31, shape).astype(np.int32)
        assert np.array_equal(library.negate_int(n), -n), shape


@LANGUAGES
def test_add_agrees_for_every_shape(libraries, language):
    library = libraries("add", language)
    for shape in SHAPES:
        x, y = floats(*shape), floats(*shape)
        assert np.array_equal(library.add(x, y), x + y), shape
        assert close(library.axpy(x, y, 0.5, 3), np.float32(0.5) * x + np.float32(3) * y), shape


@LANGUAGES
def test_matmul_agrees_to_rounding(libraries, language):
    library = libraries("matmul", language)
    for m, k, n in [(1, 1, 1), (5, 3, 7), (17, 33, 9), (8, 64, 1030), (0, 3, 5), (4, 3, 0), (0, 0, 0)]:
        x, y = floats(m, k), floats(k, n)
        expected = np.zeros((m, n), np.float32)
        for i in range(k):
            expected += x[:, i : i + 1] * y[i]
        assert close(library.matmul(x, y, shape=(m, n)), expected), (m, k, n)


@LANGUAGES
def test_softmax_agrees_and_sums_to_one(libraries, language):
    library = libraries("softmax", language)
    for shape in [*SHAPES[:4], (3, 2048), EIGHT, *EMPTY]:
        x = 5 * floats(*shape)
        if x.size == 0:
            assert library.softmax(x).shape == shape
            continue
        # In the kernel's order: one element after the other, in single precision.
        expected = np.exp(x - x.max(-1, keepdims=True))
        expected /= np.cumsum(expected, -1, dtype=np.float32)[..., -1:]
        found = library.softmax(x)
        assert close(found, expected), shape
        assert np.allclose(found.sum(-1), 1, atol=1e-5)


@LANGUAGES
def test_quantise_agrees_exactly_and_dequantise_reverses(libraries, language):
    library = libraries("quantise", language)
    for shape in SHAPES:
        x = 10 * floats(*shape)
        scale = np.float32(0.125)
        expected = np.clip(np.rint(x / scale) + np.float32(3), -128, 127).astype(np.int8)
        q = library.quantise(x, 0.125, 3, dtype=np.int8)
        assert q.dtype == np.int8 and np.array_equal(q, expected), shape
        back = library.dequantise(q, 0.125, 3, dtype=np.float32)
        assert np.array_equal(back, (q.astype(np.int32) - 3).astype(np.float32) * scale), shape


@LANGUAGES
def test_topk_over_eight_cores_finds_values_and_places(libraries, language):
    library = libraries("topk", language)
    for count, k in [(1, 1), (7, 3), (1000, 10), (10_007, 128)]:
        x = floats(count)
        parts = library.topk_parts(x, k, shape=(8, 2, k))
        values, places = library.topk_merge(parts, k, shape=(2, k))
        order = np.argsort(-x, kind="stable")[:k]
        assert np.array_equal(places.astype(int), order), (count, k)
        assert np.array_equal(values, x[order]), (count, k)


@LANGUAGES
def test_giou_agrees_for_odd_numbers_of_boxes(libraries, language):
    library = libraries("giou", language)
    for shape in [(1,), (13,), (5, 67), EIGHT[:-1], (0,), (3, 0)]:
        corners = np.abs(floats(*shape, 2, 2, 2))
        a, b = (np.concatenate([c[..., 0, :], c[..., 0, :] + c[..., 1, :]], -1) for c in np.moveaxis(corners, -3, 0))
        width = np.minimum(a[..., 2], b[..., 2]) - np.maximum(a[..., 0], b[..., 0])
        height = np.minimum(a[..., 3], b[..., 3]) - np.maximum(a[..., 1], b[..., 1])
        common = np.maximum(width, 0) * np.maximum(height, 0)
        area = [(box[..., 2] - box[..., 0]) * (box[..., 3] - box[..., 1]) for box in (a, b)]
        union = area[0] + area[1] - common
        hull = (np.maximum(a[..., 2], b[..., 2]) - np.minimum(a[..., 0], b[..., 0])) * (
            np.maximum(a[..., 3], b[..., 3]) - np.minimum(a[..., 1], b[..., 1])
        )
        expected = common / union - (hull - union) / hull
        found = library.giou(a, b, shape=shape)
        assert found.shape == shape and np.allclose(found, expected, rtol=1e-6, atol=1e-6), shape


@LANGUAGES
def test_an_empty_tensor_is_allowed_only_where_the_result_is_empty_too(libraries, language):
    run = libraries("relu", language).run("relu_tcm", np.zeros((2, 0, 3), np.float32))
    assert run.output.shape == (2, 0, 3) and run.report["dispatches"] == 0
    assert any("nothing was dispatched" in line for line in run.report["log"])
    # The record of an argument cannot say it: there, a dimension of 0 ends the shape.
    with pytest.raises(op.OperationError, match="empty tensor cannot be described") as refused:
        libraries("matmul", language).matmul(floats(4, 0), floats(0, 3), shape=(4, 3))
    assert refused.value.kind == "operation" and refused.value.code.startswith("OB")
    with pytest.raises(op.OperationError, match="at least one dimension"):
        libraries("relu", language).relu_tcm(np.zeros((), np.float32))


SOURCE = """
#include <assert.h>
#include <stdio.h>
#include <torch/torch.h>
torch::Tensor f(const torch::Tensor& x, const torch::Scalar& s, double d, int64_t n) {
  printf("%d %d\\n", (int)x.numel(), (int)n);
  assert(n != 13);
  return torch::full(x.sizes(), s.toDouble() + d + n, torch::kFloat);
}
"""
SCHEMA = "ns::f(Tensor x, Scalar s, float d, int n) -> (Tensor)"


def test_every_kind_of_argument_arrives_and_a_failed_assertion_is_named(tmp_path: Path):
    source = tmp_path / "f.cpp"
    source.write_text(SOURCE)
    library = op.build(source, schemas=[SCHEMA], output=tmp_path / "f.so")
    assert library.operations == ["f"] and [file.name for file in library.files] == ["f.so"]
    x = floats(3)
    run = library.run("f", x, 0.5, 0.25, 2)
    assert np.array_equal(run.output, [2.75] * 3) and run.text == "3 2\n"
    again = op.load(*library.files)
    assert np.array_equal(again.f(x, 1, 0.0, -4), [-3] * 3)
    with pytest.raises(op.OperationError, match=r"f\.cpp:7: assertion failed: n != 13") as fault:
        library.f(x, 0, 0.0, 13)
    assert fault.value.kind == "device_fault" and fault.value.details["core"] == 0
    with pytest.raises(op.OperationError):
        library.f(x)
    with pytest.raises(AttributeError, match="it has f"):
        library.g(x)


def test_what_is_wrong_with_a_build_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = tmp_path / "f.cpp"
    source.write_text(SOURCE)
    with pytest.raises(op.OperationError, match="no such type") as wrong:
        op.build(source, schemas=["ns::f(double x) -> (Tensor)"], output=tmp_path / "f.so")
    assert (wrong.value.code, wrong.value.kind) == ("OB0731", "schema")
    monkeypatch.setenv("OUTBOARD_CLANGXX", "clang-that-is-not-there")
    with pytest.raises(op.OperationError, match="apt-get install clang-22") as wrong:
        op.build(source, schemas=[SCHEMA], output=tmp_path / "f.so")
    assert (wrong.value.code, wrong.value.kind) == ("OB0733", "missing_tool")
    assert not list(tmp_path.glob("*.so"))
    with pytest.raises(op.OperationError, match="there is no file"):
        op.load(tmp_path / "none.so")


RUST = """
use customop::prelude::*;

#[custom_op]
pub fn shift(x: &Tensor, by: i64) -> Tensor {
    let (sizes, rank) = x.sizes();
    let y = Tensor::empty(&sizes[..rank], ScalarType::Float);
    for index in 0..x.numel() {
        y.set(index, x.get::<f32>(index) + by as f32);
    }
    y
}
"""


def test_a_crate_is_built_and_a_model_of_its_operation_runs(tmp_path: Path):
    crate = tmp_path / "my-ops"
    (crate / "src").mkdir(parents=True)
    (crate / "src/lib.rs").write_text(f"#![no_std]\n{RUST}")
    customop = (ROOT / "device/customop").as_posix()
    manifest = '[package]\nname = "my-ops"\nversion = "0.1.0"\nedition = "2024"\n\n[dependencies]\n'
    (crate / "Cargo.toml").write_text(f'{manifest}customop = {{ path = "{customop}" }}\n')
    x = floats(3, 7)
    schema = "my_ops::shift(Tensor x, int by) -> (Tensor)"
    output, model = tmp_path / "shift.so", tmp_path / "shift.neff"
    library = op.build(crate, schemas=[schema], output=output, neff=model, arguments=[x, -2])
    assert library.operations == ["shift"] and library.files == [output]
    assert np.array_equal(library.shift(x, 5), x + np.float32(5))
    # The number is part of the model.
    assert np.array_equal(op.load(model).shift(x), x - np.float32(2))
    with pytest.raises(op.OperationError, match=r"input0 is \[3, 7\]"):
        op.load(model).shift(floats(7, 3))
    with pytest.raises(op.OperationError, match="takes 2 arguments, 1 --arg were given"):
        op.build(crate, schemas=[schema], output=output, neff=model, arguments=[x])


MISUSE = """
#include <torch/torch.h>
#include <neuron/neuron-utils.hpp>
torch::Tensor past_the_end(const torch::Tensor& x) {
  auto stream = x.read_stream_accessor<float>();
  for (int64_t i = 0; i <= x.numel(); i++) stream.read();
  return x;
}
torch::Tensor wrong_type(const torch::Tensor& x) {
  auto a = x.accessor<int32_t, 1>();
  return torch::full(x.sizes(), a[0], torch::kFloat);
}
torch::Tensor two_writers(const torch::Tensor& x, int64_t policy) {
  torch::Tensor y = torch::ones(x.sizes(), torch::kFloat);
  y.set_accessor_coherence_policy(static_cast<torch::AccessorCoherencePolicy>(policy));
  auto first = y.write_stream_accessor<float>();
  auto second = y.accessor<float, 1>();
  first.write(3);
  first.close();
  return y;
}
torch::Tensor full_memory(const torch::Tensor& x) {
  void* all = torch::neuron::tcm_malloc(16 * 1024);
  TORCH_CHECK(all != nullptr);
  TORCH_CHECK(torch::neuron::tcm_malloc(1) == nullptr);
  torch::Tensor y = torch::empty(x.sizes(), torch::kFloat);
  {
    auto in = x.read_stream_accessor<float>();
    auto out = y.write_stream_accessor<float>();
    for (int64_t i = 0; i < x.numel(); i++) out.write(in.read() + 1);
  }
  torch::neuron::tcm_free(all);
  return y;
}
torch::Tensor many(const torch::Tensor& x) {
  torch::Tensor sum = torch::zeros(x.sizes(), torch::kFloat);
  for (int i = 0; i < 1000; i++) sum = torch::add(sum, x);
  return sum;
}
"""


def test_misuse_of_accessors_is_named_and_memory_is_given_back(tmp_path: Path):
    source = tmp_path / "misuse.cpp"
    source.write_text(MISUSE)
    names = ["past_the_end(Tensor x)", "wrong_type(Tensor x)", "full_memory(Tensor x)", "many(Tensor x)"]
    schemas = [f"ns::{name} -> (Tensor)" for name in [*names, "two_writers(Tensor x, int policy)"]]
    library = op.build(source, schemas=schemas, output=tmp_path / "misuse.so")
    x = floats(1500)
    with pytest.raises(op.OperationError, match="past the last element"):
        library.past_the_end(x)
    with pytest.raises(op.OperationError, match="not the tensor's element type"):
        library.wrong_type(x)
    with pytest.raises(op.OperationError, match="an accessor of a tensor that has a stream"):
        library.two_writers(x, 0)
    assert "warning: an accessor of a tensor" in library.run("two_writers", x, 1).text
    quiet = library.run("two_writers", x, 2)
    assert quiet.text == "" and np.array_equal(quiet.output, [3, *[1] * 1499])
    # Without room for buffers, streams go through windows.
    assert np.array_equal(library.full_memory(x), x + np.float32(1))
    ones = np.ones(5, np.float32)
    assert np.array_equal(library.many(ones), 1000 * ones)


@pytest.mark.parametrize(
    "line",
    [
        "x.tcm_accessor().tcm_to_tensor<float>(nullptr, 0, 1);",
        "torch::ones({3}, torch::kFloat).accessor<float, 1>();",
        "x.accessor<double, 1>();",
        "x.accessor<float, 1>()[0] = 1;",
        "torch::zeros({3});",
    ],
)
def test_what_the_interface_forbids_does_not_compile(tmp_path: Path, line: str):
    source = tmp_path / "f.cpp"
    source.write_text(
        f"#include <torch/torch.h>\ntorch::Tensor f(const torch::Tensor& x) {{\n  {line}\n  return x;\n}}\n"
    )
    with pytest.raises(op.OperationError, match="does not compile") as wrong:
        op.build(source, schemas=["ns::f(Tensor x) -> (Tensor)"], output=tmp_path / "f.so")
    assert wrong.value.code == "OB0734"


def test_findings_are_objects_that_can_be_allowed_and_denied(tmp_path: Path):
    schemas = ["ns::race(Tensor x) -> (Tensor)", "ns::offset_bug(Tensor x) -> (Tensor)"]
    output = tmp_path / "wrong.so"
    library = op.build(OPS / "findings.cpp", schemas=schemas, output=output, multicore=True)
    x = floats(67)
    (race,) = library.run("race", x, shape=(8,)).findings
    assert (race.code, race.function) == ("OB0842", "_Z4raceRKN2at6TensorE") and race.pc
    assert "of the result is written by core" in race.message
    assert {finding.code for finding in library.run("offset_bug", x).findings} == {"OB0844", "OB0848"}
    assert library.run("race", x, shape=(8,), allow=["OB0842"]).findings == []
    assert library.run("race", x, shape=(8,), diagnose=False).findings == []
    with pytest.raises(op.OperationError) as denied:
        library.run("race", x, shape=(8,), deny=["OB0842"])
    assert [finding["code"] for finding in denied.value.details["findings"]] == ["OB0842"]
