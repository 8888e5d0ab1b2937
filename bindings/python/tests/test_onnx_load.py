"""What is wrong with a model file or its shapes is said in one clear error."""

from __future__ import annotations

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from outboard.build import BuildError, compile
from outboard.build.onnx_load import load
from outboard.build.tensors import parse_input_option

FLOAT = TensorProto.FLOAT


def relu(shape, kind: int = FLOAT) -> onnx.ModelProto:
    return models.make([helper.make_node("Relu", ["x"], ["y"], name="act")], {"x": (kind, shape)}, {"y": (kind, shape)})


def test_a_file_that_is_not_onnx_is_refused(tmp_path) -> None:
    path = tmp_path / "model.onnx"
    for content in (b"", b"\x7fELF and so on", b"not a model at all", bytes(1000)):
        path.write_bytes(content)
        with pytest.raises(BuildError, match="not an ONNX model"):
            load(path)


def test_a_truncated_file_is_refused(tmp_path, rng) -> None:
    content = models.lenet(rng).SerializeToString()
    path = tmp_path / "model.onnx"
    for length in (3, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(BuildError, match="not an ONNX model"):
            load(path)


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(BuildError, match=r"cannot read .*absent\.onnx: No such file"):
        load(tmp_path / "absent.onnx")


def test_missing_external_data_is_named(tmp_path, rng) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(models.lenet(rng), path, save_as_external_data=True, location="weights.data", size_threshold=0)
    assert load(path).graph.initializer[0].raw_data
    (tmp_path / "weights.data").unlink()
    with pytest.raises(BuildError, match=r'the data of "w1" should be in .weights\.data. beside the model'):
        load(path)


def test_a_dimension_without_a_size_needs_one() -> None:
    with pytest.raises(BuildError, match=r'input "x" has no fixed shape: \[batch,8\]') as caught:
        compile(relu(("batch", 8)), target="c-only")
    assert caught.value.hint == 'say which one to compile for, for example --input "x=1,8,float32"'


def test_a_shape_can_be_given_as_a_whole_or_by_the_name_of_a_dimension() -> None:
    model = relu(("batch", 8))
    for arguments in ({"inputs": ["x=3,8"]}, {"inputs": ["x=3x8,float32"]}, {"bind": {"batch": 3}}):
        result = compile(model, target="c-only", **arguments)
        assert [t.shape for t in (*result.inputs, *result.outputs)] == [(3, 8), (3, 8)]


def test_a_shape_that_is_asked_for_wins_over_the_models() -> None:
    result = compile(relu((10, 3)), inputs=["x=1,5"], target="c-only")
    assert [t.shape for t in (*result.inputs, *result.outputs)] == [(1, 5), (1, 5)]


def test_minus_one_in_a_model_stands_for_any_size() -> None:
    model = relu(("n", 8))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    with pytest.raises(BuildError, match=r"no fixed shape: \[\?,8\]"):
        compile(model, target="c-only")
    assert compile(model, inputs=["x=2,8"], target="c-only").inputs[0].shape == (2, 8)


def test_one_named_dimension_has_one_size() -> None:
    n = helper.make_node("Add", ["a", "b"], ["y"])
    model = models.make([n], {"a": (FLOAT, ("n",)), "b": (FLOAT, ("n",))}, {"y": (FLOAT, ("n",))})
    assert compile(model, inputs=["a=4"], target="c-only").outputs[0].shape == (4,)
    with pytest.raises(BuildError, match='dimension "n" is 4 elsewhere and 5 in input "b"'):
        compile(model, inputs=["a=4", "b=5"], target="c-only")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("y=1,8", 'the model has no input "y"'),
        ("x=1,8,1", r'input "x" has 2 dimensions, \[batch,8\], and \[1,8,1\] has 3'),
        ("x=1,8,int32", 'input "x" is float32 in the model, not int32'),
        ("x=1,8,float99", "is not NAME=SHAPE,DTYPE"),
        ("x", "is not NAME=SHAPE,DTYPE"),
        ("x=-1,8", "is not NAME=SHAPE,DTYPE"),
    ],
)
def test_an_input_option_that_does_not_fit_is_refused(option, message) -> None:
    with pytest.raises(BuildError, match=message):
        compile(relu(("batch", 8)), inputs=[option], target="c-only")


def test_input_options_are_read_with_commas_or_crosses() -> None:
    option = parse_input_option("a=b:0=1x3x224x224,float16")
    assert (option.name, option.shape, option.dtype.name) == ("a=b:0", (1, 3, 224, 224), "float16")
    assert parse_input_option("s=").shape == ()
    assert parse_input_option("s=int64").shape == ()


def test_initialisers_that_are_listed_as_inputs_are_constants(rng) -> None:
    model = models.two_outputs(rng)
    model.graph.input.append(helper.make_tensor_value_info("w", FLOAT, (5, 7)))
    assert [spec.name for spec in compile(model, target="c-only").inputs] == ["x"]


def test_an_element_type_no_module_holds_is_named() -> None:
    with pytest.raises(BuildError, match='input "x" has the element type COMPLEX64'):
        compile(relu((2,), TensorProto.COMPLEX64), target="c-only")


def test_seven_dimensions_are_too_many() -> None:
    with pytest.raises(BuildError, match="has 7 dimensions; a module takes at most 6"):
        compile(relu((1,) * 7), target="c-only")


def test_an_unknown_operator_is_named_with_its_place() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("RandomUniformLike", ["h"], ["y"], name="noise"),
    ]
    model = models.make(nodes, {"x": (FLOAT, (4,))}, {"y": (FLOAT, (4,))})
    with pytest.raises(BuildError) as caught:
        compile(model, target="c-only")
    assert caught.value.node == 'RandomUniformLike "noise" (node 1)'
    assert "operator set ai.onnx 17" in str(caught.value)


def test_a_shape_that_depends_on_the_data_is_refused_at_its_node() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["y"], name="where")]
    model = models.make(nodes, {"x": (FLOAT, (4,))}, {"y": (TensorProto.INT64, (1, "n"))})
    with pytest.raises(BuildError) as caught:
        compile(model, target="c-only")
    assert caught.value.node == 'NonZero "where" (node 0)'


def test_operands_that_do_not_fit_are_refused_at_their_node() -> None:
    weights = {"w": np.ones((5, 2), np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    graph = models.make(nodes, {"x": (FLOAT, (3, 5))}, {"y": (FLOAT, (3, 2))}, weights)
    graph.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, (3, 4)))
    with pytest.raises(BuildError) as caught:
        compile(graph, target="c-only")
    assert caught.value.node == 'MatMul "product" (node 0)'


def test_dropout_in_training_mode_is_refused() -> None:
    weights = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    nodes = [helper.make_node("Dropout", ["x", "ratio", "training"], ["y"])]
    model = models.make(nodes, {"x": (FLOAT, (4,))}, {"y": (FLOAT, (4,))}, weights)
    with pytest.raises(BuildError, match="dropout in training mode is random"):
        compile(model, target="c-only")


def test_an_output_that_is_no_tensor_is_refused() -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    node = helper.make_node("SequenceConstruct", ["x", "x"], ["s"])
    inputs = [helper.make_tensor_value_info("x", FLOAT, [2])]
    model = helper.make_model(helper.make_graph([node], "g", inputs, [sequence]))
    with pytest.raises(BuildError, match='output "s" is not a tensor'):
        compile(model)


def test_powers_of_wide_integers_are_refused_rather_than_rounded() -> None:
    kind = TensorProto.INT64
    node = helper.make_node("Pow", ["x", "y"], ["z"])
    model = models.make([node], {"x": (kind, [2]), "y": (kind, [2])}, {"z": (kind, [2])})
    with pytest.raises(BuildError, match="powers of 64-bit integers"):
        compile(model)
