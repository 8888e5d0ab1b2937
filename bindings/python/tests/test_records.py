"""io_meta, notes and the workspace: small records with golden values."""

from __future__ import annotations

import json
import struct

from outboard.build import io_meta, memory, notes
from outboard.build.memory import Block
from outboard.build.tensors import DTYPES, TensorSpec


def language_model() -> tuple[list[TensorSpec], list[TensorSpec]]:
    """A prefill step: tokens, positions and sixty caches in, logits and the caches out."""
    f32, i64 = DTYPES["float32"], DTYPES["int64"]
    caches = [TensorSpec(f"cache{i}", f32, (1, 3, 256, 64)) for i in range(60)]
    inputs = [TensorSpec("tokens", i64, (1, 64)), TensorSpec("positions", i64, (64,)), *caches]
    return inputs, [TensorSpec("logits", f32, (1, 64, 49152)), *caches]


def test_io_meta_of_a_language_model_has_the_golden_bytes() -> None:
    assert io_meta.pack(*language_model()) == bytes.fromhex(
        "54494f4d 01000000 3e000000 3d000000 8017b40000000000 4013740100000000 01000000 00000000"
    )


def test_a_capacity_counts_descriptors_and_data_in_steps_of_64() -> None:
    inputs, outputs = language_model()
    assert io_meta.capacity(inputs) == 11_802_496
    assert io_meta.capacity(outputs) == 24_384_320
    assert io_meta.capacity(outputs[:1]) == 12_583_040
    assert io_meta.capacity([]) == 0


def test_notes_are_padded_to_four_bytes_and_name_their_owner() -> None:
    note = notes.cpu_note("x86-64", ["sse3", "popcnt"], "outboard.build 0.1.0")
    name_size, desc_size, kind = struct.unpack_from("<III", note)
    assert (name_size, kind) == (9, 1)
    assert note[12:24] == b"Outboard\0\0\0\0"
    text = note[24 : 24 + desc_size].decode()
    assert text.splitlines() == ["arch=x86-64", "features=sse3,popcnt", "builder=outboard.build 0.1.0"]
    assert len(note) % 4 == 0


def test_the_manifest_describes_every_tensor() -> None:
    x = TensorSpec("x/é", DTYPES["float16"], (2, 3))
    y = TensorSpec("y", DTYPES["bool"], ())
    assert json.loads(notes.manifest("net", [x], [y])) == {
        "name": "net",
        "inputs": [{"name": "x/é", "dtype": "float16", "shape": [2, 3]}],
        "outputs": [{"name": "y", "dtype": "bool", "shape": []}],
    }


def test_blocks_that_live_at_one_time_never_overlap(rng) -> None:
    for _ in range(50):
        starts = rng.integers(0, 30, 40)
        blocks = [Block(int(rng.integers(0, 5000)), int(s), int(s + rng.integers(0, 8))) for s in starts]
        layout = memory.plan(blocks)
        spans = list(zip(blocks, layout.offsets, strict=True))
        for i, (a, at) in enumerate(spans):
            assert at % memory.ALIGNMENT == 0
            assert at + a.nbytes <= layout.nbytes
            for b, other in spans[:i]:
                together = a.first <= b.last and b.first <= a.last
                assert not together or at + a.nbytes <= other or other + b.nbytes <= at


def test_blocks_that_never_meet_share_their_memory() -> None:
    assert memory.plan([Block(1000, i, i) for i in range(100)]).nbytes == 1024
