"""The ELF file and the C source themselves: symbols, imports, notes, other CPUs, checked-in examples."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path

import models
import numpy as np
import pytest
from onnx import TensorProto, helper
from support import ROOT, check_model, difference, outboard_program, run_module

from outboard.build import Module, compile, toolchain
from outboard.build.package_data import data_text

EXAMPLES = ROOT / "examples" / "models"
CONTRACT = [
    "_binary_tvm_dsp_io_meta_start",
    "_binary_weights_bin_end",
    "_binary_weights_bin_size",
    "_binary_weights_bin_start",
    "cg_main_dsp",
]


@pytest.fixture(scope="module")
def transformer() -> Module:
    return compile(models.transformer_block(np.random.default_rng(1)))


def tool(*command: object) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def importable() -> set[str]:
    lines = data_text("imports.txt").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def written(result: Module, folder: Path) -> Path:
    path = folder / "lib0.out"
    result.write(path)
    return path


def test_the_symbols_of_the_contract_are_exported_and_nothing_else(transformer, tmp_path) -> None:
    table = tool("nm", "-D", "--defined-only", written(transformer, tmp_path))
    assert sorted(line.split()[-1] for line in table.splitlines()) == CONTRACT


def test_imports_are_a_subset_of_what_is_documented(transformer, rng, tmp_path) -> None:
    for result in (transformer, compile(models.two_outputs(rng)), compile(models.lenet(rng))):
        table = tool("nm", "-D", "--undefined-only", written(result, tmp_path))
        assert {line.split()[-1] for line in table.splitlines()} <= importable()


def test_the_device_has_everything_a_module_may_import(tmp_path) -> None:
    names = sorted(importable())
    lines = ['#include "outboard_tvm_abi.h"']
    lines += [f'extern char import{i}[] __asm__("{name}");' for i, name in enumerate(names)]
    lines += [f"void *const outboard_all[] = {{{', '.join(f'import{i}' for i in range(len(names)))}}};"]
    lines += ["int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) {"]
    lines += ["  (void)n; (void)c; *out = in[0]; return outboard_all[0] == NULL; }"]
    (tmp_path / "all.c").write_text("\n".join(lines))
    flags = [*toolchain.C_FLAGS, f"-I{EXAMPLES / 'include'}", tmp_path / "all.c", "-o", tmp_path / "all.out"]
    tool("cc", *flags, *toolchain.LINK_FLAGS)
    x = np.arange(4, dtype=np.float32)
    (y,) = run_module(tmp_path / "all.out", [x], 1, tmp_path)
    assert np.array_equal(x, y)


def test_a_module_needs_no_library_and_has_no_page_that_is_writable_and_executable(transformer, tmp_path) -> None:
    path = written(transformer, tmp_path)
    assert "NEEDED" not in tool("readelf", "-Wd", path)
    loads = [line for line in tool("readelf", "-Wl", path).splitlines() if line.strip().startswith("LOAD")]
    assert len(loads) == 4
    assert not any("RWE" in line.replace(" ", "") for line in loads)


def test_the_weights_lie_on_a_boundary_of_64(transformer, tmp_path) -> None:
    table = tool("nm", "-D", written(transformer, tmp_path))
    (address,) = (line.split()[0] for line in table.splitlines() if line.endswith(" _binary_weights_bin_start"))
    assert int(address, 16) % 64 == 0


def test_the_note_names_the_cpu_features_that_the_code_uses(transformer, rng) -> None:
    note = {"x86_64": "x86-64\nfeatures=sse3,ssse3,sse4.1,sse4.2,popcnt", "aarch64": "aarch64\nfeatures=neon"}
    assert f"arch={note[platform.machine()]}\nbuilder=outboard.build".encode() in transformer.elf
    native = compile(models.two_outputs(rng), target="host-native")
    assert set(native.machine.features) >= set(transformer.machine.features)


def test_code_for_this_very_cpu_agrees_too(rng, tmp_path) -> None:
    model = models.transformer_block(rng)
    x = rng.standard_normal((24, 64), np.float32)
    outputs = []
    for target in ("host", "host-native"):
        compile(model, target=target).write(tmp_path / "lib0.out")
        outputs += run_module(tmp_path / "lib0.out", [x], 1, tmp_path)
    assert difference(outputs[1], outputs[0]) < 1e-4


def test_the_source_compiles_for_another_cpu_without_a_warning(transformer, tmp_path) -> None:
    assert shutil.which("aarch64-linux-gnu-gcc"), (
        "install gcc-aarch64-linux-gnu: this test needs another CPU's compiler"
    )
    transformer.write_c(tmp_path)
    flags = [*toolchain.C_FLAGS, "-Wall", "-Wextra", "-Werror", "-c"]
    tool("aarch64-linux-gnu-gcc", *flags, tmp_path / "lib0.c", "-o", tmp_path / "lib0.o")
    tool("aarch64-linux-gnu-gcc", "-c", f"-I{tmp_path}", tmp_path / "weights.S", "-o", tmp_path / "weights.o")


def test_nodes_are_named_beside_the_calls_that_compute_them(rng) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="odd */ name /* é")]
    model = models.make(nodes, {"x": (TensorProto.FLOAT, (4,))}, {"y": (TensorProto.FLOAT, (4,))}, name='a "name"')
    result = compile(model, target="c-only")
    assert '/* Relu "odd * / name / * ?" (node 0) */' in result.c_source
    assert '#define OUTBOARD_MODEL "a__name_"' in result.c_source


def test_wrong_inputs_are_refused_by_the_module_itself(rng, tmp_path) -> None:
    compile(models.two_outputs(rng), name="picky").write(tmp_path / "lib0.out")
    for array, got in ((np.zeros((3, 6), np.float32), "float32[3,6]"), (np.zeros((3, 5), np.int32), "int32[3,5]")):
        with pytest.raises(AssertionError) as caught:
            run_module(tmp_path / "lib0.out", [array], 3, tmp_path)
        assert got in str(caught.value) or "shape" in str(caught.value) or "int32" in str(caught.value)


def test_the_documented_flags_are_those_of_the_builder() -> None:
    contraction = "-ffp-contract=off"
    assert (EXAMPLES / "cflags.txt").read_text().split() == [*toolchain.C_FLAGS, contraction]
    link = [*toolchain.LINK_FLAGS, "-Wl,-soname,lib0.out", "-lgcc"]
    assert sorted((EXAMPLES / "ldflags.txt").read_text().split()) == sorted(link)


def test_the_checked_in_network_is_what_the_builder_writes_today(tmp_path) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("regenerate", EXAMPLES / "offline" / "regenerate.py")
    regenerate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(regenerate)
    compile(regenerate.network(np.random.default_rng(regenerate.SEED)), target="c-only").write_c(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (EXAMPLES / "offline" / path.name).read_bytes(), f"{path.name}: run regenerate.py"


SHAPES = [
    ((7, 13), (13, 10)),
    ((1, 300), (300, 214)),
    ((65, 64), (64, 96)),
    ((2, 3, 5, 8), (2, 3, 8, 17)),
    ((5,), (5, 4)),
]


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "computed"])
def test_products_of_awkward_sizes_agree(constant, rng, tmp_path) -> None:
    nodes, inputs, outputs, weights = [], {}, {}, {}
    for i, (a, b) in enumerate(SHAPES):
        nodes.append(helper.make_node("MatMul", [f"a{i}", f"b{i}"], [f"y{i}"]))
        inputs[f"a{i}"] = (TensorProto.FLOAT, a)
        if constant:
            weights[f"b{i}"] = rng.standard_normal(b, np.float32)
        else:
            inputs[f"b{i}"] = (TensorProto.FLOAT, b)
        outputs[f"y{i}"] = (TensorProto.FLOAT, np.matmul(np.zeros(a), np.zeros(b)).shape)
    model = models.make(nodes, inputs, outputs, weights)
    check_model(model, {n: rng.standard_normal(s, np.float32) for n, (_, s) in inputs.items()}, tmp_path)


CONVOLUTIONS = [
    # input, weight, attributes
    ((1, 3, 9, 11), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 4, 8, 8), (8, 1, 3, 3), {"group": 4, "strides": [2, 2]}),
    ((1, 16, 7, 7), (16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1]}),
    ((1, 6, 10, 10), (9, 2, 1, 5), {"group": 3, "dilations": [1, 2]}),
    ((1, 5, 6, 6), (32, 5, 1, 1), {}),
    ((1, 3, 20), (7, 3, 4), {"strides": [3], "pads": [2, 1]}),
    ((2, 2, 5, 5, 5), (3, 2, 2, 2, 2), {}),
]


def test_convolutions_of_all_forms_agree(rng, tmp_path) -> None:
    nodes, inputs, outputs, weights = [], {}, {}, {}
    for i, (x, w, attributes) in enumerate(CONVOLUTIONS):
        weights[f"w{i}"] = rng.standard_normal(w, np.float32)
        weights[f"b{i}"] = rng.standard_normal(w[0], np.float32)
        inputs[f"x{i}"] = (TensorProto.FLOAT, x)
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}", f"b{i}"], [f"c{i}"], **attributes))
        nodes.append(helper.make_node("LeakyRelu", [f"c{i}"], [f"y{i}"], alpha=0.1))
        outputs[f"y{i}"] = (TensorProto.FLOAT, [f"d{i}{k}" for k in range(len(x))])
    model = models.make(nodes, inputs, outputs, weights)
    check_model(model, {n: rng.standard_normal(s, np.float32) for n, (_, s) in inputs.items()}, tmp_path)


def test_reductions_over_any_axes_agree(rng, tmp_path) -> None:
    nodes, outputs = [], {}
    for i, axes in enumerate(([0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2])):
        for op in ("ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2"):
            name = f"{op}{i}"
            nodes.append(helper.make_node(op, ["x"], [name], axes=axes, keepdims=i % 2))
            rank = 3 if i % 2 else 3 - len(axes)
            outputs[name] = (TensorProto.FLOAT, [f"{name}_{k}" for k in range(rank)])
    model = models.make(nodes, {"x": (TensorProto.FLOAT, (6, 20, 32))}, outputs)
    check_model(model, {"x": rng.standard_normal((6, 20, 32), np.float32)}, tmp_path)


def test_layers_are_profiled_where_asked_and_the_device_prints_them(rng, tmp_path) -> None:
    model = models.lenet(rng)
    result = compile(model, profile_layers=True)
    path = written(result, tmp_path)
    table = tool("nm", "-D", "--defined-only", path)
    assert sorted(line.split()[-1] for line in table.splitlines()) == sorted([*CONTRACT, "TVMPrintLayerProfile"])
    table = tool("nm", "-D", "--undefined-only", path)
    assert {line.split()[-1] for line in table.splitlines()} <= importable()
    np.save(tmp_path / "x.npy", rng.random((1, 1, 28, 28), np.float32))
    command = [outboard_program(), "run", path, "--input", tmp_path / "x.npy", "--json", "--repeat", "2"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    profile = done.stderr.split("===== TVM Layer Profile =====\n")
    assert len(profile) == 3, "one profile for each run"
    rows = [re.fullmatch(r"\[ *(\d+)\] (.{40,}) (\d+) cycles", line) for line in profile[2].splitlines()]
    layers = [row for row in rows if row]
    assert [int(row[1]) for row in layers] == list(range(len(layers)))
    assert layers[0][2].startswith('Conv "c1" (node 0) + Tanh "t1" (node 1)')
    total = re.search(rf"^Total: (\d+) cycles \({len(layers)} layers\)$", profile[2], re.MULTILINE)
    assert total, profile[2]
    assert int(total[1]) == sum(int(row[3]) for row in layers)
    assert 0 < int(total[1]) <= json.loads(done.stdout)["cycles"]
