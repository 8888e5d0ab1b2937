"""Outboard: modules for DSPs, built and called from Python.

``outboard.Session`` opens a device and loads modules; ``outboard.build`` makes modules from ONNX models;
``outboard.c7x`` has the virtual machine of the original's interface; ``outboard.op`` builds and calls custom operations
of GPSIMD cores::

    with outboard.Session() as session, session.load("lib0.out") as module:
        y = module(x)

Sessions live in the extension module ``outboard._native``, which is loaded when one of its names is used first: the
builder needs none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import InputBuffer, Module, Resident, Session, Tensor, TensorSpec

__version__ = "0.1.0"
__all__ = ["InputBuffer", "Module", "Resident", "Session", "Tensor", "TensorSpec"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _native

    return getattr(_native, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
