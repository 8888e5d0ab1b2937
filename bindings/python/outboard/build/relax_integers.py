"""Loop programs of integer products: convolutions, matrix products and window sums of bytes, in sums of 32 bits.

Where the weights are symmetric, four bytes along the summed axis are one word of 32 bits, and four products and their
sum one operation, ``outboard_dot4``: a word of unsigned bytes times a word of signed ones. Signed activations are made
unsigned by their highest bit, and what that and the zero point add to a sum is known at build time: see ``Sums``.
Everything else is computed from 16-bit differences to the zero point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.ir import Call, Op

DOT4 = "tirx.outboard_dot4"
"""The operation on two words that tir_to_c.py prints as the function of that name."""

_BYTES = 4
_FUSABLE = {"op_pattern": 4}  # what follows element by element may join such a program

tvm.ir.register_op_attr(DOT4, "TVectorizable", True)
tvm.ir.register_op_attr(DOT4, "TCallEffectKind", tirx.CallEffectKind.Pure.value)


@dataclass(frozen=True)
class Sums:
    """The sums of a product, and what the zero points add to each column, which is known at build time."""

    value: relax.Expr
    correction: np.ndarray
    """int32, one for each column of the weights."""


@dataclass(frozen=True)
class Window:
    """How a window moves over an image: height first; padding is top, left, bottom, right."""

    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]

    @staticmethod
    def of(strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> Window:
        top, left, bottom, right = padding
        return Window((strides[0], strides[1]), (top, left, bottom, right), (dilation[0], dilation[1]))


def is_integer_sum(expr: relax.Expr) -> bool:
    """Whether an expression calls one of these programs: their data is in channels last."""
    is_call = isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name == "relax.call_tir"
    return is_call and expr.args[0].name_hint.startswith("integer_")


def is_bytewise(weights: np.ndarray, zeros: np.ndarray) -> bool:
    """Whether weights of eight bits are symmetric, once unsigned ones are moved to the signed range."""
    return not np.any(zeros.astype(np.int32) - (128 if weights.dtype == np.uint8 else 0))


def centred_weights(weights: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """Weights without their zero points, as int16; the zero points broadcast to the weights."""
    return weights.astype(np.int16) - zeros.astype(np.int16)


def words(weights: np.ndarray) -> np.ndarray:
    """int16 weights ``[…, k, n]`` that fit int8, as words of four: ``[…, ceil(k / 4), n]``.

    >>> hex(words(np.array([[1], [2], [3], [-1], [5]], np.int16))[0, 0] & 0xFFFFFFFF)
    '0xff030201'
    """
    missing = -weights.shape[-2] % _BYTES
    padded = np.pad(weights.astype(np.int8), [(0, 0)] * (weights.ndim - 2) + [(0, missing), (0, 0)])
    grouped = padded.reshape(*padded.shape[:-2], -1, _BYTES, padded.shape[-1])
    return np.ascontiguousarray(np.moveaxis(grouped, -2, -1)).view("<i4")[..., 0]


def convolution(
    builder: relax.BlockBuilder, x: relax.Expr, zero: int, weights: np.ndarray, window: Window, groups: int
) -> Sums:
    """Sums of a convolution of bytes ``[n, h, w, c]`` with int16 weights ``[kh, kw, c / groups, columns]``."""
    if groups == 1 and _fit_bytes(weights):
        unsigned = zero + (128 if str(x.ty.dtype) == "int8" else 0)
        packed = relax.const(words(weights))

        def integer_products(data: Any, kernel: Any) -> Any:
            return _windows(_padded_words(data, unsigned, window.padding), kernel, window, _dot4)

        value = builder.call_te(integer_products, x, packed, primfunc_attrs=_FUSABLE)
        return Sums(value, _correction(weights, unsigned))
    each = weights.shape[-1] // groups

    def integer_differences(data: Any, kernel: Any) -> Any:
        return _windows(_centred(data, zero, window.padding), kernel, window, _product, groups, each)

    value = builder.call_te(integer_differences, x, relax.const(weights), primfunc_attrs=_FUSABLE)
    return Sums(value, np.zeros(weights.shape[-1], np.int32))


def product(builder: relax.BlockBuilder, x: relax.Expr, zero: int, weights: np.ndarray) -> Sums:
    """Sums of a product of bytes ``[…, k]`` with int16 weights ``[k, columns]``."""
    if not _fit_bytes(weights):

        def integer_differences(data: Any, kernel: Any) -> Any:
            wide = te.compute(
                data.shape, lambda *i: data(*i).astype("int16") - tirx.const(zero, "int16"), name="centred"
            )
            return _rows(wide, kernel, _product)

        value = builder.call_te(integer_differences, x, relax.const(weights), primfunc_attrs=_FUSABLE)
        return Sums(value, np.zeros(weights.shape[-1], np.int32))
    unsigned = zero + (128 if str(x.ty.dtype) == "int8" else 0)

    def integer_products(data: Any, kernel: Any) -> Any:
        *lead, depth = (int(dim) for dim in data.shape)
        packed = te.compute((*lead, -(-depth // _BYTES)), lambda *i: _word(data, i[:-1], i[-1], depth), name="words")
        return _rows(packed, kernel, _dot4)

    value = builder.call_te(integer_products, x, relax.const(words(weights)), primfunc_attrs=_FUSABLE)
    return Sums(value, _correction(weights, unsigned))


def window_sums(
    builder: relax.BlockBuilder, x: relax.Expr, zero: int, size: tuple[int, int], out: tuple[int, int], window: Window
) -> relax.Expr:
    """Sums of the differences to the zero point over windows of an image ``[n, h, w, c]``; ``out`` is their number."""
    # A window may begin so late that it ends behind the padding: there is nothing to sum there.
    spans = [
        (o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, window.strides, size, window.dilation, strict=True)
    ]
    top, left, bottom, right = window.padding
    height, width = (int(dim) for dim in x.ty.shape.values[1:3])
    padding = (top, left, max(bottom, spans[0] - height - top), max(right, spans[1] - width - left))

    def integer_windows(data: Any) -> Any:
        image = _centred(data, zero, padding)
        i, j = te.reduce_axis((0, size[0])), te.reduce_axis((0, size[1]))
        (sh, sw), (dh, dw) = window.strides, window.dilation
        shape = (data.shape[0], *out, data.shape[3])
        return te.compute(
            shape,
            lambda n, y, x, c: te.sum(image[n, y * sh + i * dh, x * sw + j * dw, c].astype("int32"), axis=[i, j]),
            name="window_sum",
        )

    return builder.call_te(integer_windows, x, primfunc_attrs=_FUSABLE)


def _fit_bytes(weights: np.ndarray) -> bool:
    return bool(weights.min(initial=0) >= -128 and weights.max(initial=0) <= 127)


def _correction(weights: np.ndarray, zero: int) -> np.ndarray:
    """What the zero point of the activations takes from each column's sum; it wraps as the sums do."""
    totals = weights.astype(np.int64).reshape(-1, weights.shape[-1]).sum(axis=0)
    return (-zero * totals).astype(np.int32)


def _dot4(a: Any, b: Any) -> Any:
    return tirx.call_intrin("int32", DOT4, a, b)


def _product(a: Any, b: Any) -> Any:
    return a.astype("int32") * b.astype("int32")


def _is_inside(y: Any, x: Any, height: int, width: int, padding: tuple[int, int, int, int]) -> Any:
    top, left, _, _ = padding
    return tirx.all(y >= top, y < height + top, x >= left, x < width + left)


def _padded_shape(data: Any, padding: tuple[int, int, int, int]) -> tuple[int, int]:
    return int(data.shape[1]) + padding[0] + padding[2], int(data.shape[2]) + padding[1] + padding[3]


def _padded_words(data: Any, zero: int, padding: tuple[int, int, int, int]) -> Any:
    """Words of unsigned bytes along the channels, with words of zero points around."""
    batch, height, width, channels = (int(dim) for dim in data.shape)
    around = int(np.array([zero] * _BYTES, np.uint8).view("<i4")[0])

    def word(n: Any, y: Any, x: Any, k: Any) -> Any:
        value = _word(data, (n, y - padding[0], x - padding[1]), k, channels)
        if not any(padding):
            return value
        inside = _is_inside(y, x, height, width, padding)
        return tirx.if_then_else(inside, value, tirx.const(around, "int32"))

    return te.compute((batch, *_padded_shape(data, padding), -(-channels // _BYTES)), word, name="words")


def _word(data: Any, place: tuple[Any, ...], k: Any, depth: int) -> Any:
    """The word of four bytes along the last axis of ``depth`` elements; behind the end there are zeros."""
    flip = tirx.const(0x80 if data.dtype == "int8" else 0, "int32")
    parts = []
    for byte in range(_BYTES):
        index = k * _BYTES + byte
        part = data(*place, index).astype("int32")
        last = (depth - 1) // _BYTES * _BYTES + byte
        parts.append(part if last < depth else tirx.if_then_else(index < depth, part, tirx.const(0, "int32")))
    return tirx.call_pure_extern("int32", "outboard_word", *parts, flip)


def _rows(rows: Any, kernel: Any, multiply: Any) -> Any:
    """The sums of a product of rows ``[…, k]`` with weights ``[k, columns]``."""
    k = te.reduce_axis((0, int(kernel.shape[0])))
    shape = (*rows.shape[:-1], kernel.shape[1])
    return te.compute(
        shape, lambda *i: te.sum(multiply(rows(*i[:-1], k), kernel[k, i[-1]]), axis=[k]), name="integer_sum"
    )


def _centred(data: Any, zero: int, padding: tuple[int, int, int, int]) -> Any:
    """The differences to the zero point, with zeros around."""
    batch, height, width, channels = (int(dim) for dim in data.shape)

    def difference(n: Any, y: Any, x: Any, c: Any) -> Any:
        value = data[n, y - padding[0], x - padding[1], c].astype("int16") - tirx.const(zero, "int16")
        if not any(padding):
            return value
        return tirx.if_then_else(_is_inside(y, x, height, width, padding), value, tirx.const(0, "int16"))

    return te.compute((batch, *_padded_shape(data, padding), channels), difference, name="centred")


def _windows(image: Any, kernel: Any, window: Window, multiply: Any, groups: int = 1, columns_of_group: int = 0) -> Any:
    """The sums over the windows of an image ``[n, h, w, k]`` times weights ``[kh, kw, k / groups, columns]``."""
    kh, kw, depth, columns = (int(dim) for dim in kernel.shape)
    (sh, sw), (dh, dw) = window.strides, window.dilation
    height = (int(image.shape[1]) - (kh - 1) * dh - 1) // sh + 1
    width = (int(image.shape[2]) - (kw - 1) * dw - 1) // sw + 1
    i, j, k = (te.reduce_axis((0, extent)) for extent in (kh, kw, depth))

    def channel(column: Any) -> Any:
        if groups == 1:
            return k
        return column if depth == columns_of_group == 1 else column // columns_of_group * depth + k

    def total(n: Any, y: Any, x: Any, column: Any) -> Any:
        place = image[n, y * sh + i * dh, x * sw + j * dw, channel(column)]
        return te.sum(multiply(place, kernel[i, j, k, column]), axis=[i, j, k])

    return te.compute((int(image.shape[0]), height, width, columns), total, name="integer_sum")
