"""The ONNX project's node tests: a fixed sample of them on the device, and the list of those that do not pass."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import ROOT, outboard_program

from outboard.conformance import cases, check, expected, pool, prepare, table
from outboard.conformance.__main__ import standing_device
from outboard.conformance.cases import Case
from outboard.conformance.check import PASS, Outcome

LIST = ROOT / "bindings" / "python" / "conformance-expected.txt"
SAMPLE = 60

# What a sample spread over all cases may miss: one case of each way an operator is written out.
WRITTEN_OUT = """test_attention_4d_causal_bf16 test_cast_FLOAT_to_FLOAT4E2M1 test_cast_e8m0_FLOAT_to_FLOAT8E8M0
test_col2im_pads test_dequantizelinear_int4 test_dft_irfft test_eyelike_with_dtype test_flexattention_gqa
test_quantizelinear_blocked_asymmetric test_reduce_max_empty_set test_resize_downsample_scales_cubic_antialias
test_resize_tf_crop_and_resize_axes_2_3 test_stft_with_window test_tensorscatter_circular""".split()


@pytest.fixture(scope="module")
def collected() -> list[Case]:
    return cases.collect()


def test_a_fixed_sample_and_one_case_of_each_rewrite_come_to_what_the_committed_list_says(collected) -> None:
    listed = expected.read(LIST)
    chosen = {*cases.sample([case.name for case in collected], SAMPLE), *WRITTEN_OUT}
    assert not listed.keys() & set(WRITTEN_OUT)
    jobs = min(os.cpu_count() or 1, 4)
    with standing_device(outboard_program()) as device:
        results = dict(pool.run([case for case in collected if case.name in chosen], device, jobs))
    assert results.keys() == chosen, "every case of the sample has an outcome"
    worse, better = expected.differences(results, listed)
    assert not worse, "\n".join(worse)
    assert not better, "write the list again, these are better now: " + "\n".join(better)
    assert sum(outcome.outcome == PASS for outcome in results.values()) > SAMPLE // 2


def test_the_list_and_the_page_speak_of_the_same_cases(collected) -> None:
    names = [case.name for case in collected]
    assert len(names) == len(set(names)) == cases.TOTAL
    listed = expected.read(LIST)
    assert expected.unknown(listed, names) == []
    counts = Counter(outcome.outcome for outcome in listed.values())
    assert counts["wrong"] == counts["crash"] == 0
    page = (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8")
    for outcome in check.OUTCOMES:
        count = cases.TOTAL - len(listed) if outcome == PASS else counts[outcome]
        assert f"| {outcome} | {count} |" in page


def test_data_stays_an_input_and_what_decides_a_shape_is_bound() -> None:
    values = {"x": np.zeros((2, 3), np.float32), "n": np.asarray([3, 2], np.int64), "k": np.asarray(1, np.int64)}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in values.items()
    ]
    nodes = [
        helper.make_node("Identity", ["n"], ["m"]),
        helper.make_node("Reshape", ["x", "m"], ["y"]),
        helper.make_node("CumSum", ["y", "k"], ["z"]),
    ]
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, [output]))
    assert prepare.control_inputs(model) == {"n", "m", "k"}
    bound = prepare.bind(model, values)
    assert bound is not None
    assert [value.name for value in bound.graph.input] == ["x"]
    assert {tensor.name for tensor in bound.graph.initializer} == {"n", "k"}
    only_data = helper.make_model(
        helper.make_graph([helper.make_node("Add", ["x", "x"], ["z"])], "g", inputs[:1], [output])
    )
    assert prepare.bind(only_data, values) is None


@pytest.mark.parametrize(
    ("got", "want", "reason"),
    [
        (np.asarray([1.0, 2.0], np.float32), np.asarray([1.0, 2.0005], np.float32), None),
        (np.asarray([1.0, 2.0], np.float32), np.asarray([1.0, 2.1], np.float32), "largest difference"),
        (np.asarray([np.nan], np.float32), np.asarray([np.nan], np.float32), None),
        (np.asarray([np.nan], np.float32), np.asarray([1.0], np.float32), "largest difference"),
        (np.asarray([1], np.int32), np.asarray([1], np.int64), "int32, expected int64"),
        (np.asarray([[1]], np.int32), np.asarray([1], np.int32), "shape [1, 1], expected [1]"),
        (np.asarray([1, 3], np.int8), np.asarray([1, 2], np.int8), "1 of 2 elements differ"),
        (np.asarray([1, 0], np.uint8), np.asarray([True, False]), None),
        (np.asarray([2, 0], np.uint8), np.asarray([True, False]), "uint8, expected bool"),
    ],
)
def test_results_are_compared_by_shape_type_and_value(got, want, reason) -> None:
    case = Case("test", onnx.ModelProto(), (), 1e-3, 1e-7)
    found = check.compare([got], [want], case)
    assert found is None if reason is None else found is not None and reason in found
    assert check.compare([got, got], [want], case) == "2 outputs, expected 1"


def test_a_process_that_dies_is_a_crash_unless_the_case_was_refused_before() -> None:
    refused = b'{"outcome": "unsupported", "reason": "no", "preparation": "", "inputs": 0}\n'
    killed = 9
    assert pool.outcome(b"", killed).outcome == check.CRASH
    assert pool.outcome(refused, killed).outcome == check.FRONT_END
    assert pool.outcome(refused, 0) == Outcome(check.UNSUPPORTED, "no")


def test_the_list_is_read_as_it_is_written_and_differences_are_told_apart(tmp_path) -> None:
    results = {"a": Outcome(PASS), "b": Outcome("unsupported", "why\tnot"), "c": Outcome("wrong", "far")}
    path = tmp_path / "list.txt"
    path.write_text(expected.text(results), encoding="utf-8")
    listed = expected.read(path)
    assert {name: (o.outcome, o.reason) for name, o in listed.items()} == {
        "b": ("unsupported", "why not"),
        "c": ("wrong", "far"),
    }
    worse, better = expected.differences({"a": Outcome("crash", "x"), "b": Outcome(PASS), "c": results["c"]}, listed)
    assert worse == ["a: pass before, crash now (x)"]
    assert better == ["b: unsupported before, pass now"]
    for broken in ("a\tpass\t\n", "a\tunsupported\n", "a\tunsupported\tx\na\twrong\ty\n"):
        path.write_text(broken, encoding="utf-8")
        with pytest.raises(ValueError, match=r"list\.txt:"):
            expected.read(path)


def test_the_page_counts_every_case_once() -> None:
    results = {
        "a": Outcome(PASS, "", prepare.NAMES[0], 1),
        "b": Outcome(PASS, "", prepare.NAMES[1], 0),
        "c": Outcome("unsupported", 'TopK "y" (node 0): the model cannot be imported'),
        "d": Outcome("unsupported_front_end", 'input "x" has the element type STRING'),
    }
    page = table.page(results, 1.5, 2)
    for line in (
        "| pass | 2 | 50.0 % |",
        "| as it is | 1 |",
        "| control inputs bound | 1 |",
        "| TopK (unsupported) | 1 |",
        "| tensors of type STRING (unsupported_front_end) | 1 |",
    ):
        assert line in page
    assert "1 of the passes have no input left" in page
