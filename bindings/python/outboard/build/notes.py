"""ELF notes that a module carries about itself: owner ``Outboard``, see docs/reference/models.md, "Notes"."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

from .onnx_cache import Cache
from .tensors import TensorSpec

OWNER = b"Outboard\0"
TYPE_CPU = 1
TYPE_MANIFEST = 2


def note(note_type: int, text: str) -> bytes:
    """One note, each of its parts padded to four bytes."""
    desc = text.encode()
    return struct.pack("<III", len(OWNER), len(desc), note_type) + _padded(OWNER) + _padded(desc)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def cpu_note(arch: str, features: Sequence[str], builder: str) -> bytes:
    """What CPU the code was compiled for: the loader compares it with the one it runs on."""
    return note(TYPE_CPU, f"arch={arch}\nfeatures={','.join(features)}\nbuilder={builder}\n")


def manifest_note(
    name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], caches: Sequence[Cache] = ()
) -> bytes:
    """The names, element types and shapes of what the module takes and gives, and which of them are caches."""
    return note(TYPE_MANIFEST, manifest(name, inputs, outputs, caches))


def manifest(
    name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], caches: Sequence[Cache] = ()
) -> str:
    record: dict[str, object] = {
        "name": name,
        "inputs": [t.manifest() for t in inputs],
        "outputs": [t.manifest() for t in outputs],
    }
    if caches:
        record["caches"] = [{"input": c.input, "output": c.output} for c in caches]
    return json.dumps(record, separators=(",", ":"), ensure_ascii=True)
