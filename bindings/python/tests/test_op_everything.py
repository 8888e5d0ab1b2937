"""Every factory, operator, `_out` form and accessor of the C++ headers, for every element type, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from support import ROOT, outboard_program

from outboard import op

FLOAT, HALF, BFLOAT16 = 6, 5, 15
#: Numbers of the integral types as the tensor library has them.
INTEGERS = {0: np.uint8, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.int64}
TYPES = [*INTEGERS, HALF, FLOAT, BFLOAT16]
#: How far results may be apart: two units of the type's last place.
TOLERANCE = {FLOAT: 1e-6, HALF: 2e-3, BFLOAT16: 1.6e-2}

SCHEMAS = [
    "all::unary(Tensor x, int dtype) -> (Tensor)",
    "all::binary(Tensor x, Tensor y, int dtype) -> (Tensor)",
    "all::powers(Tensor x, int dtype) -> (Tensor)",
    "all::bitwise(Tensor x, Tensor y, int dtype) -> (Tensor)",
    "all::factories(int dtype) -> (Tensor)",
    "all::accessors(Tensor x, int dtype) -> (Tensor)",
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTBOARD_BIN", str(outboard_program()))
        output = tmp_path_factory.mktemp("everything") / "everything.so"
        yield op.build(ROOT / "device/ops/everything.cpp", schemas=SCHEMAS, output=output, stack_size=16_000)


def stored(values: np.ndarray, dtype: int) -> np.ndarray:
    """What a tensor of this type keeps, as floats."""
    if dtype in INTEGERS:
        return values.astype(np.int64).astype(INTEGERS[dtype]).astype(np.float32)
    wide = values.astype(np.float32)
    if dtype == HALF:
        return wide.astype(np.float16).astype(np.float32)
    if dtype == BFLOAT16:
        bits = wide.view(np.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
        return np.where(np.isnan(wide), wide, rounded.view(np.float32))
    return wide


def computed(values: np.ndarray, dtype: int) -> np.ndarray:
    """The elements as they take part in arithmetic."""
    return values.astype(np.int64 if dtype in INTEGERS else np.float32)


def split(found: np.ndarray, size: int) -> list[tuple[int, np.ndarray]]:
    """Results: the type's number, then the elements."""
    rows = found.reshape(-1, 1 + size)
    return [(int(row[0]), row[1:]) for row in rows]


def compare(found: list[tuple[int, np.ndarray]], expected: list[tuple[str, int, np.ndarray]]) -> None:
    """Each operator gave its result twice: newly made, and written into a tensor."""
    assert len(found) == 2 * len(expected)
    for (name, dtype, values), both in zip(expected, zip(found[::2], found[1::2], strict=True), strict=True):
        for form, (number, elements) in zip(("new", "out"), both, strict=True):
            assert number == dtype, (name, form)
            reference = stored(values, dtype)
            if dtype in INTEGERS:
                assert np.array_equal(elements, reference), (name, form, elements, reference)
            else:
                near = np.allclose(elements, reference, rtol=TOLERANCE[dtype], atol=1e-6, equal_nan=True)
                assert near, (name, form, elements, reference)


def operand(dtype: int) -> np.ndarray:
    """Both signs where there are two, fractions where there are any; more than a block of elements."""
    whole = np.arange(1, 36, dtype=np.float32) % 11 + 1
    if dtype == 0:
        return whole
    signed = np.where(np.arange(35) % 4 == 3, -whole, whole).astype(np.float32)
    return signed if dtype in INTEGERS else signed + np.float32(0.25)


@pytest.mark.parametrize("dtype", TYPES)
def test_functions_of_one_tensor(library, dtype):
    x = operand(dtype)
    real = dtype if dtype not in INTEGERS else FLOAT
    a = computed(x, dtype)
    f = a.astype(np.float32)
    with np.errstate(all="ignore"):
        expected = [
            ("abs", dtype, np.abs(a)),
            ("ceil", dtype, np.ceil(a)),
            ("floor", dtype, np.floor(a)),
            *((name, real, getattr(np, name)(f)) for name in "sin cos tan log log2 log10 exp".split()),
            ("clamp", dtype, np.clip(a, 1, 3)),
            ("clamp by fractions", real, np.clip(f, np.float32(0.5), np.float32(2.5))),
        ]
        found = library.unary(x, dtype, shape=(2 * len(expected) * (1 + x.size),), dtype=np.float32)
        compare(split(found, x.size), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_operators_of_two_operands(library, dtype):
    x = operand(dtype)
    y = (np.arange(x.size) % 3 + 1).astype(np.float32)
    real = dtype if dtype not in INTEGERS else FLOAT
    a, b = computed(x, dtype), computed(y, dtype)
    f, g = a.astype(np.float32), b.astype(np.float32)
    two = a.dtype.type(2)
    # An integer to a negative power ends the operation: exponents stay positive.
    exponents = np.abs(x) if dtype in INTEGERS else x
    with np.errstate(all="ignore"):
        expected = [
            ("add", dtype, a + b),
            ("add with alpha", dtype, a + 2 * b),
            ("add a number", dtype, a + 3),
            ("add a fraction", real, f + np.float32(0.5)),
            ("sub", dtype, a - b),
            ("sub with alpha", dtype, a - 2 * b),
            ("sub a number", dtype, a - 3),
            ("mul", dtype, a * b),
            ("mul by a number", dtype, a * 3),
            ("div", real, f / g),
            ("div by a number", real, f / np.float32(4)),
            ("pow", dtype, np.power(a, b)),
            ("pow of a number", dtype, np.power(a, two)),
        ]
        found = library.binary(x, y, dtype, shape=(2 * len(expected) * (1 + x.size),), dtype=np.float32)
        compare(split(found, x.size), expected)
        found = library.powers(exponents, dtype, shape=(2 * (1 + x.size),), dtype=np.float32)
        compare(split(found, x.size), [("number to a power", dtype, np.power(two, computed(exponents, dtype)))])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_operators_of_bits(library, dtype):
    x = operand(dtype)
    y = (np.arange(x.size) % 7).astype(np.float32)
    a, b = computed(x, dtype), computed(y, dtype)
    expected = [
        ("and", dtype, a & b),
        ("and with a number", dtype, a & 6),
        ("or", dtype, a | b),
        ("or with a number", dtype, a | 6),
        ("not", dtype, ~a),
    ]
    found = library.bitwise(x, y, dtype, shape=(2 * len(expected) * (1 + x.size),), dtype=np.float32)
    compare(split(found, x.size), expected)


@pytest.mark.parametrize("dtype", TYPES)
def test_factories(library, dtype):
    sizes = [12, 12, 12, 12, 9, 12, 12]
    found = library.factories(dtype, shape=(sum(sizes) + len(sizes),), dtype=np.float32)
    expected = [
        np.zeros(12),
        np.ones(12),
        np.full(12, 7),
        np.full(12, 2.5),
        np.eye(3).ravel(),
        np.eye(3, 4).ravel(),
        np.full(12, 5),
    ]
    at = 0
    for values in expected:
        assert int(found[at]) == dtype
        assert np.array_equal(found[at + 1 : at + 1 + values.size], stored(values, dtype))
        at += 1 + values.size
    assert at == found.size


@pytest.mark.parametrize("dtype", TYPES)
def test_accessors_by_index_by_stream_and_by_block(library, dtype):
    x = operand(dtype).reshape(5, 7)
    found = library.accessors(x, dtype, shape=(3 * (1 + x.size),), dtype=np.float32)
    for number, elements in split(found, x.size):
        assert number == dtype and np.array_equal(elements, stored(x.ravel(), dtype))


@pytest.mark.parametrize("dtype", [HALF, BFLOAT16])
def test_narrow_floats_round_as_numpy_does(library, dtype):
    edges = "0 -0 65504 65519.99 65520 1e9 inf -inf nan 6.1e-5 1e-8 3.3e38".split()
    powers = [2.0**-24, 2.0**-25, 2.0**-25 * 1.0001, 2.0**-14, 2.0**-14 - 2.0**-25]
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, 1000, dtype=np.uint32).view(np.float32)
    near = (random.standard_normal(1000) * 10.0 ** random.integers(-9, 6, 1000)).astype(np.float32)
    x = np.concatenate([np.array([*map(float, edges), *powers], np.float32), bits, near]).reshape(1, -1)
    found = library.accessors(x, dtype, shape=(3 * (1 + x.size),), dtype=np.float32)
    with np.errstate(all="ignore"):
        expected = stored(x.ravel(), dtype)
    for _, elements in split(found, x.size):
        assert np.array_equal(elements, expected, equal_nan=True)


def test_misuse_ends_with_what_is_wrong(library):
    x = np.ones((2, 2), np.float32)
    shape = {"shape": (200,), "dtype": np.float32}
    with pytest.raises(op.OperationError, match="bitwise operators take integers only"):
        library.bitwise(x, x, FLOAT, **shape)
    with pytest.raises(op.OperationError, match="shapes are not broadcast"):
        library.binary(x, np.ones((4,), np.float32), FLOAT, **shape)
    with pytest.raises(op.OperationError, match="negative power"):
        library.powers(-np.ones((2,), np.float32), 3, **shape)
    with pytest.raises(op.OperationError, match="accessor's dimensions"):
        library.accessors(np.ones((4,), np.float32), FLOAT, **shape)
