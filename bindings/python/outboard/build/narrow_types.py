"""Element types narrower than a byte or unknown to C, and what carries them: docs/reference/models.md, "Narrow types".

A module computes with the types of C. An 8-bit or 4-bit float travels as its bits in a uint8, an integer of 4 or 2
bits as its value in an int8 or uint8, one element a byte; a bfloat16 keeps its own type on the wire and is 16 bits in
the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Float:
    """A float of one sign bit, ``exponent`` and ``mantissa`` bits; codes are given without the sign.

    ``largest`` is the code of the largest finite value, ``overflow`` the one of what lies beyond when nothing
    saturates, ``nan`` the one of not-a-number. ``signed_zero`` is false where the code of minus zero means that.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int
    signed_zero: bool = True
    has_infinity: bool = False

    @property
    def sign_bit(self) -> int:
        return self.exponent + self.mantissa


@dataclass(frozen=True)
class Scale:
    """FLOAT8E8M0: the power of two of an exponent, without sign or zero; 255 is not-a-number."""


@dataclass(frozen=True)
class Integer:
    """An integer of ``bits`` bits in two's complement, or without sign."""

    bits: int
    signed: bool

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        return (1 << (self.bits - self.signed)) - 1


@dataclass(frozen=True)
class Narrow:
    """A narrow type: the name the manifest gives it, its ONNX number, what carries it, and what its bits mean."""

    name: str
    onnx: int
    carrier: int
    """The ONNX number of the type it is carried by in the code."""
    format: Float | Scale | Integer

    def carried(self, array: np.ndarray) -> np.ndarray:
        """An array of this type as ONNX's tools hold it, in the type that carries it."""
        if isinstance(self.format, Integer):
            return array.astype("int8" if self.format.signed else "uint8")
        return array.view("uint16" if array.dtype.itemsize == 2 else "uint8")


# ONNX's numbers of the types that carry others.
_UINT8, _INT8, _UINT16 = 2, 3, 4

NARROW: dict[int, Narrow] = {
    n.onnx: n
    for n in (
        Narrow("bfloat16", 16, _UINT16, Float(8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, has_infinity=True)),
        Narrow("float8_e4m3fn", 17, _UINT8, Float(4, 3, 7, 0x7E, 0x7F, 0x7F)),
        Narrow("float8_e4m3fnuz", 18, _UINT8, Float(4, 3, 8, 0x7F, 0x80, 0x80, signed_zero=False)),
        Narrow("float8_e5m2", 19, _UINT8, Float(5, 2, 15, 0x7B, 0x7C, 0x7E, has_infinity=True)),
        Narrow("float8_e5m2fnuz", 20, _UINT8, Float(5, 2, 16, 0x7F, 0x80, 0x80, signed_zero=False)),
        Narrow("float8_e8m0fnu", 24, _UINT8, Scale()),
        # It has neither infinity nor not-a-number: what lies beyond is the largest value, what is no number minus zero.
        Narrow("float4_e2m1fn", 23, _UINT8, Float(2, 1, 1, 7, 7, 8)),
        Narrow("int4", 22, _INT8, Integer(4, True)),
        Narrow("uint4", 21, _UINT8, Integer(4, False)),
        Narrow("int2", 26, _INT8, Integer(2, True)),
        Narrow("uint2", 25, _UINT8, Integer(2, False)),
    )
}

BY_NAME = {narrow.name: narrow for narrow in NARROW.values()}
