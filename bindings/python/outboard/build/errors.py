"""The one error a build ends with."""

from __future__ import annotations


class BuildError(Exception):
    """A model that cannot be built: what is wrong, where, and what to do.

    ``node`` names the ONNX node at fault where there is one, as ``operator "name" (node 12)``.
    """

    def __init__(self, message: str, *, node: str | None = None, hint: str | None = None) -> None:
        self.message = message
        self.node = node
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.node}: {self.message}" if self.node else self.message
        return f"{text}\n  help: {self.hint}" if self.hint else text
