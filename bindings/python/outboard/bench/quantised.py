"""The networks in eight bits: quantised by onnxruntime's own tool, which puts QDQ pairs around each operator."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

_SAMPLES = 2
_SEED = 81


def quantised(network: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
    """A network with unsigned activations and signed weights, a step for each channel, calibrated on random inputs."""

    def make() -> onnx.ModelProto:
        from onnxruntime import quantization as q

        model = network()
        given = model.graph.input[0]
        rng = np.random.default_rng(_SEED)
        shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
        samples = iter([{given.name: rng.standard_normal(shape).astype(np.float32)} for _ in range(_SAMPLES)])

        class Samples(q.CalibrationDataReader):
            def get_next(self) -> dict[str, np.ndarray] | None:
                return next(samples, None)

        logging.getLogger().setLevel(logging.ERROR)  # it recommends a preparation that these models do not need
        with tempfile.TemporaryDirectory(prefix="outboard-bench-") as folder:
            before, after = Path(folder) / "float.onnx", Path(folder) / "qdq.onnx"
            onnx.save(model, before)
            types = {"activation_type": q.QuantType.QUInt8, "weight_type": q.QuantType.QInt8}
            q.quantize_static(before, after, Samples(), quant_format=q.QuantFormat.QDQ, per_channel=True, **types)
            return onnx.load(after)

    return make
