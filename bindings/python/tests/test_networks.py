"""Pretrained networks out of PyPI packages, on inputs of the kind they were trained for, beside onnxruntime.

Two more are in test_models.py: one that names files by their bytes, one that finds speech.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from support import RELATIVE, difference, models_folder, run_module, run_reference

from outboard.build import compile
from outboard.build.fetch import fetch

# Letters of five columns; a bit is a dot, the lowest at the top.
_FONT = {
    "A": (0x7E, 0x11, 0x11, 0x11, 0x7E),
    "D": (0x7F, 0x41, 0x41, 0x22, 0x1C),
    "E": (0x7F, 0x49, 0x49, 0x49, 0x41),
    "F": (0x7F, 0x09, 0x09, 0x09, 0x01),
    "L": (0x7F, 0x40, 0x40, 0x40, 0x40),
    "P": (0x7F, 0x09, 0x09, 0x09, 0x06),
    "R": (0x7F, 0x09, 0x19, 0x29, 0x46),
    "T": (0x01, 0x01, 0x7F, 0x01, 0x01),
    "Y": (0x07, 0x08, 0x70, 0x08, 0x07),
    "7": (0x01, 0x71, 0x09, 0x05, 0x03),
    "4": (0x18, 0x14, 0x12, 0x7F, 0x10),
}


def written(text: str) -> np.ndarray:
    """Dark letters on light paper as the network that tells upright from rotated text takes them: 48 x 192, -1 to 1."""
    columns = [column for letter in text for column in (*_FONT[letter], 0)]
    dots = np.array([[column >> row & 1 for column in columns] for row in range(7)])
    large = np.kron(dots, np.ones((5, 4)))
    page = np.zeros((48, 192))
    page[6 : 6 + large.shape[0], 8 : 8 + large.shape[1]] = large
    # A little blur, as a lens has.
    blurred = sum(np.roll(page, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) / 9
    return np.repeat((1 - 2 * blurred)[None, None], 3, axis=1).astype(np.float32)


def test_upright_text_and_rotated_text_are_told_apart(tmp_path: Path) -> None:
    path = fetch("ocr-direction", models_folder())[0]
    module = tmp_path / "lib0.out"
    compile(path, inputs=["x=1,3,48,192"]).write(module)
    model = onnx.load(path)
    answers = []
    for text in ("LADY7", "PARTY", "FELT47"):
        upright = written(text)
        for image in (upright, np.ascontiguousarray(upright[:, :, ::-1, ::-1])):
            (actual,) = run_module(module, [image], 1, tmp_path)
            (expected,) = run_reference(model, {"x": image})
            assert difference(actual, expected) <= RELATIVE, text
            answers.append(int(actual.argmax()))
    assert answers == [0, 1] * 3


def plucked(midi: int, rng: np.random.Generator) -> np.ndarray:
    """Two seconds of a plucked string of this pitch, and the noise of a microphone."""
    t = np.arange(43844) / 22050
    frequency = 440 * 2 ** ((midi - 69) / 12)
    partials = [np.sin(2 * np.pi * k * frequency * t) * np.exp(-(1 + 0.3 * k) * t) / k for k in range(1, 9)]
    sound = 0.3 * np.sum(partials, axis=0) + 0.003 * rng.standard_normal(t.size)
    return sound.astype(np.float32).reshape(1, -1, 1)


@pytest.mark.parametrize("target", ["host", "host-native"])
def test_the_pitch_of_a_plucked_string_is_heard(rng: np.random.Generator, tmp_path: Path, target: str) -> None:
    path = fetch("basic-pitch", models_folder())[0]
    module = tmp_path / "lib0.out"
    result = compile(path, inputs=["serving_default_input_2:0=1,43844,1"], target=target)
    result.write(module)
    model = onnx.load(path)
    for midi in (57, 69):
        sound = plucked(midi, rng)
        actual = run_module(module, [sound], 3, tmp_path)
        expected = run_reference(model, {"serving_default_input_2:0": sound})
        # The network takes logarithms of spectra, so the last bit of its input counts: so much may the answers part.
        moved = run_reference(model, {"serving_default_input_2:0": np.nextafter(sound, np.float32(1))})
        for spec, a, e, m in zip(result.outputs, actual, expected, moved, strict=True):
            assert np.abs(a - e).max() <= 4 * np.abs(m - e).max() <= 4e-3, spec.name
        notes = next(a for spec, a in zip(result.outputs, actual, strict=True) if spec.name.endswith(":1"))
        assert int(notes[0, 20:60].mean(axis=0).argmax()) + 21 == midi  # 88 keys, from A0 on
