"""Models with caches: pairs of inputs and outputs that may stay on the device from one call to the next."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import RELATIVE, difference, outboard_program, run_reference
from test_c7x import library

from outboard.build import BuildError, Module, compile
from outboard.build.onnx_cache import Cache
from outboard.c7x import C7xVirtualMachine, Resident

TOKENS = 100


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> tuple[onnx.ModelProto, Module, Path]:
    """A language model: the model, the build, and the module."""
    model = models.decoder(np.random.default_rng(7))
    result = compile(model, caches=["auto"])
    module = tmp_path_factory.mktemp("decoder") / "lib0.out"
    result.write(module)
    return model, result, module


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTBOARD_DEVICE", "sim")
    monkeypatch.setenv("OUTBOARD_DEVICE_PROGRAM", str(outboard_program()))
    # What the virtual machine returns depends on whether the program uses TVM; these tests do not.
    monkeypatch.delitem(sys.modules, "tvm", raising=False)


def generate(result: Module, module: Path, resident: bool) -> tuple[list[int], np.ndarray]:
    """The tokens of a greedy generation, and the logits of every step."""
    specs = [result.inputs[cache.input] for cache in result.caches]
    kept = [Resident(spec.shape, spec.dtype.name) for spec in specs]
    caches: list[np.ndarray | Resident] = [np.zeros(spec.shape, np.float32) for spec in specs]
    tokens, logits = [1], []
    vm = C7xVirtualMachine(module, library())
    for position in range(TOKENS):
        inputs = [np.asarray([[tokens[-1]]], np.int64), np.asarray([position], np.int64), *caches]
        if resident:
            step, caches = vm.run_resident(*inputs), list(kept)
        else:
            step, *caches = vm["main"](*inputs)
        logits.append(np.asarray(step).reshape(-1))
        tokens.append(int(logits[-1].argmax()))
    vm.close()
    gc.collect()
    return tokens[1:], np.stack(logits)


def test_a_hundred_tokens_are_the_same_with_the_cache_on_the_device_and_on_the_host(decoder) -> None:
    _, result, module = decoder
    tokens, logits = generate(result, module, resident=True)
    on_host, logits_on_host = generate(result, module, resident=False)
    assert tokens == on_host
    assert np.array_equal(logits, logits_on_host)
    assert len(set(tokens)) > 5, "a model that says one thing only would prove nothing"


def test_the_steps_of_a_generation_agree_with_onnxruntime(decoder) -> None:
    model, result, module = decoder
    tokens, logits = generate(result, module, resident=True)
    names = [value.name for value in model.graph.output]
    caches = {result.inputs[c.input].name: np.zeros(result.inputs[c.input].shape, np.float32) for c in result.caches}
    for position, token in enumerate([1, *tokens[:19]]):
        step = {"token": np.asarray([[token]], np.int64), "position": np.asarray([position], np.int64)}
        outputs = dict(zip(names, run_reference(model, {**step, **caches}), strict=True))
        assert difference(logits[position], outputs["logits"].reshape(-1)) <= 10 * RELATIVE, f"token {position}"
        caches = {name: outputs[name.replace("past_key_values", "present")] for name in caches}


def test_the_result_comes_first_and_the_caches_in_the_order_of_their_inputs(decoder) -> None:
    _, result, _ = decoder
    assert result.outputs[0].name == "logits"
    assert result.caches == tuple(Cache(2 + i, 1 + i) for i in range(4))
    assert b'"caches":[{"input":2,"output":1},{"input":3,"output":2}' in (result.elf or b"")


def growing() -> onnx.ModelProto:
    """A cache of the old kind, which each step makes longer."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=0),
        helper.make_node("ReduceSum", ["present"], ["y"], keepdims=0),
    ]
    kind = TensorProto.FLOAT
    return models.make(
        nodes, {"x": (kind, (1, 4)), "past": (kind, (7, 4))}, {"present": (kind, (8, 4)), "y": (kind, ())}
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["auto"], 'the cache "past" is float32[7,4] as an input and float32[8,4] as the output "present"'),
        (["past=gone"], 'the model has no output "gone"'),
        (["gone=present"], 'the model has no input "gone"'),
        (["past"], '--cache "past" is not PAST=PRESENT'),
        (["past=present", "x=present"], "two caches have the same output"),
        (["x=y", "past=present"], "gives one result beside them, and this one has 0"),
    ],
)
def test_caches_that_cannot_be_are_refused(options, message) -> None:
    with pytest.raises(BuildError) as error:
        compile(growing(), caches=options)
    assert message in error.value.message


def test_a_model_without_caches_is_told_so() -> None:
    with pytest.raises(BuildError, match=r"no input .past"):
        compile(models.lenet(np.random.default_rng(1)), caches=["auto"])
