"""The mathematical functions that generated code may call."""

from __future__ import annotations

# TIR name → the C function for doubles; the one for floats has an f behind its name. All come from the device.
FLOAT_FUNCTIONS: dict[str, str] = {
    **{
        name: name
        for name in (
            "exp exp2 erf tanh log log2 log10 log1p expm1 tan cos cosh acos acosh sin sinh asin asinh atan atanh atan2 "
            "sqrt cbrt floor ceil trunc fabs round rint nearbyint pow fmod hypot copysign nextafter fma fmax fmin"
        ).split()
    },
    "abs": "fabs",
}

# Functions of floats that the generated file brings along, and what they are called there.
OWN_FUNCTIONS = {name: f"outboard_{name}f" for name in ("exp", "tanh", "erf")}

_INTEGER_FUNCTIONS = {"popcount": "popcount", "clz": "clz", "abs": "abs", "fabs": "abs", "pow": "power"}


def integer_function(name: str, dtype: str) -> str | None:
    """The helper for a function of integers, or None when there is none."""
    base = _INTEGER_FUNCTIONS.get(name)
    return (
        f"{base}_{'u' if dtype.startswith('u') else 'i'}{dtype.removeprefix('u').removeprefix('int')}" if base else None
    )
