"""Builds device modules: an ONNX model becomes a shared ELF with the entry ``cg_main_dsp``.

>>> from outboard.build import compile
>>> result = compile("model.onnx", inputs=["data=1,3,224,224"])   # doctest: +SKIP
>>> result.write("lib0.out")                                      # doctest: +SKIP

The command is ``python -m outboard.build MODEL.onnx -o lib0.out``. Reference: docs/reference/models.md.
"""

from __future__ import annotations

from .compiler import BuildResult, compile
from .errors import BuildError
from .tensors import InputOption, TensorSpec

__all__ = ["BuildError", "BuildResult", "InputOption", "TensorSpec", "compile"]
