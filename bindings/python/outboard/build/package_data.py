"""The C and assembler texts that belong to this package."""

from __future__ import annotations

from importlib import resources


def data_text(name: str) -> str:
    """The text of a file in ``data/``."""
    return (resources.files(__package__) / "data" / name).read_text(encoding="utf-8")
