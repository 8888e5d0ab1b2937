"""Builds device modules: an ONNX model becomes a shared ELF with the entry ``cg_main_dsp``.

>>> from outboard.build import compile
>>> result = compile("model.onnx", inputs=["data=1,3,224,224"])   # doctest: +SKIP
>>> result.write("lib0.out")                                      # doctest: +SKIP

The command is ``python -m outboard.build MODEL.onnx -o lib0.out``. Reference: docs/reference/models.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import BuildError
from .tensors import InputOption, TensorSpec

if TYPE_CHECKING:
    from .compiler import Module, compile

__all__ = ["BuildError", "InputOption", "Module", "TensorSpec", "compile"]


def __getattr__(name: str) -> Any:
    """The compiler needs ONNX: it is imported when it is asked for, so that its absence can be told from a fault."""
    if name not in ("Module", "compile"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import compiler
    except ImportError as error:
        raise ImportError(
            f"outboard.build needs the packages of bindings/python/requirements.txt, and {error.name} is missing"
        ) from error
    return getattr(compiler, name)
