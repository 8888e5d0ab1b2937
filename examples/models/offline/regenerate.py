"""Writes the files of this folder: a small convolutional network as C source, an input, and the answer of onnxruntime.

The weights are random, from a fixed seed. Run it with outboard.build and its requirements at hand:

    PYTHONPATH=bindings/python python examples/models/offline/regenerate.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from outboard.build import compile

SEED = 20
FOLDER = Path(__file__).parent


def network(rng: np.random.Generator) -> onnx.ModelProto:
    """Two convolutions with pooling, two dense layers and a softmax, in the shape of LeNet."""
    weights = {
        "conv1.weight": (6, 1, 5, 5),
        "conv1.bias": (6,),
        "conv2.weight": (16, 6, 5, 5),
        "conv2.bias": (16,),
        "dense1.weight": (256, 48),
        "dense1.bias": (48,),
        "dense2.weight": (48, 10),
        "dense2.bias": (10,),
    }
    initialisers = []
    for name, shape in weights.items():
        fan_in = int(np.prod(shape[1:])) if name.startswith("conv") else shape[0]
        scale = 1.5 / np.sqrt(fan_in) if name.endswith("weight") else 0.1
        initialisers.append(numpy_helper.from_array((scale * rng.standard_normal(shape)).astype(np.float32), name))
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], name="conv1"),
        helper.make_node("Relu", ["c1"], ["r1"], name="relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], name="pool1", **pool),
        helper.make_node("Conv", ["p1", "conv2.weight", "conv2.bias"], ["c2"], name="conv2"),
        helper.make_node("Relu", ["c2"], ["r2"], name="relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], name="pool2", **pool),
        helper.make_node("Flatten", ["p2"], ["f"], name="flatten"),
        helper.make_node("Gemm", ["f", "dense1.weight", "dense1.bias"], ["d1"], name="dense1"),
        helper.make_node("Relu", ["d1"], ["r3"], name="relu3"),
        helper.make_node("Gemm", ["r3", "dense2.weight", "dense2.bias"], ["d2"], name="dense2"),
        helper.make_node("Softmax", ["d2"], ["scores"], name="softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small_network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 28, 28])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        initialisers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    rng = np.random.default_rng(SEED)
    model = network(rng)
    compile(model, target="c-only").write_c(FOLDER)
    image = rng.random((1, 1, 28, 28), dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (scores,) = session.run(None, {"image": image})
    np.save(FOLDER / "input.npy", image)
    np.save(FOLDER / "expected.npy", scores)


if __name__ == "__main__":
    main()
