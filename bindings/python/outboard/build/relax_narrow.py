"""Narrow floats in loop programs: their bits to float32 and back, by functions of ``data/kernel_support.h``."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto
from tvm import relax, te, tirx

from .narrow_types import BY_NAME, Float, Narrow, Scale

_CARRIERS = {TensorProto.UINT8: "uint8", TensorProto.UINT16: "uint16"}
_ADDENDS = {"down": 0, "nearest": 0x400000, "up": 0x7FFFFF}


def decode(x: relax.Expr, format_name: str, builder: relax.BlockBuilder) -> relax.Expr:
    """The float32 values of the bits of a narrow type."""
    narrow = BY_NAME[format_name]

    def values(bits: Any) -> Any:
        return te.compute(bits.shape, lambda *i: _decoded(bits(*i).astype("int32"), narrow), name="decode")

    return builder.call_te(values, x)


def encode(x: relax.Expr, format_name: str, saturate: bool, round_mode: str, builder: relax.BlockBuilder) -> relax.Expr:
    """The bits of a narrow type nearest to float32 values; with ``saturate`` what lies beyond is the largest value."""
    narrow = BY_NAME[format_name]
    carrier = _CARRIERS[narrow.carrier]

    def codes(values: Any) -> Any:
        def element(*i: Any) -> Any:
            return _encoded(values(*i), narrow, saturate, round_mode).astype(carrier)

        return te.compute(values.shape, element, name="encode")

    return builder.call_te(codes, x)


def _decoded(code: Any, narrow: Narrow) -> Any:
    form = narrow.format
    if isinstance(form, Scale):
        return tirx.call_pure_extern("float32", "outboard_decode_scale", code)
    assert isinstance(form, Float)
    numbers = (form.sign_bit, form.mantissa, form.bias, form.largest, form.nan, _kinds(form))
    return tirx.call_pure_extern("float32", "outboard_decode", code, *(tirx.const(n, "int32") for n in numbers))


def _encoded(value: Any, narrow: Narrow, saturate: bool, round_mode: str) -> Any:
    form = narrow.format
    if isinstance(form, Scale):
        scale = tirx.const(_ADDENDS[round_mode], "int32"), tirx.const(254 if saturate else 255, "int32")
        return tirx.call_pure_extern("int32", "outboard_encode_scale", value, *scale)
    assert isinstance(form, Float)
    # Cast to bfloat16 knows no saturation: infinities stay what they are.
    beyond = form.largest if saturate and narrow.name != "bfloat16" else form.overflow
    numbers = (form.sign_bit, form.mantissa, form.bias, form.largest, beyond, form.nan, _kinds(form))
    return tirx.call_pure_extern("int32", "outboard_encode", value, *(tirx.const(n, "int32") for n in numbers))


def _kinds(form: Float) -> int:
    """What the codes above the largest finite value mean, as kernel_support.h counts it."""
    if not form.signed_zero:
        return 4
    if form.has_infinity:
        return 1
    return 2 if form.largest < form.nan < 1 << form.sign_bit else 0
