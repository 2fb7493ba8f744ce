"""Generated element-wise code is right: run on the host and compared with `onnx.reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from ort_py.dtypes import DataType, numpy_dtype
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.regions.parts import check, outputs_of, region_of, view_of

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 88.0, -104.0], np.float32)


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host."""
    return host.install(monkeypatch)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return rng().standard_normal(shape, np.float32)


UNARY = {
    "Abs": "", "Neg": "", "Sign": "", "Sqrt": "", "Exp": "", "Log": "", "Reciprocal": "", "Floor": "", "Ceil": "",
    "Round": "", "Tanh": "", "Sin": "", "Cos": "", "Tan": "", "Asin": "", "Acos": "", "Atan": "", "Sinh": "",
    "Cosh": "", "Asinh": "", "Acosh": "", "Atanh": "", "Erf": "", "Sigmoid": "", "Softplus": "", "Softsign": "",
    "Mish": "", "Relu": "", "LeakyRelu": "<alpha = 0.3>", "ThresholdedRelu": "<alpha = 0.7>", "Elu": "<alpha = 1.7>",
    "Selu": "", "Celu": "<alpha = 0.6>", "HardSigmoid": "<alpha = 0.3, beta = 0.4>", "HardSwish": "",
    "Shrink": "<bias = 0.2, lambd = 0.4>", "Gelu": '<approximate = "none">', "Identity": "",
}  # fmt: skip
"""Operators of one float, with attributes other than the defaults."""


@pytest.mark.parametrize("op_type", UNARY)
def test_an_operator_of_one_float(op_type: str) -> None:
    """Random numbers, infinities, NaN, zeros of both signs; the sum behind it makes it a region."""
    text = f"""g (float[n] x, float[n] y) => (float[n] z, float[n] s) {{
        z = {op_type}{UNARY[op_type]}(x) a = Add(z, y) s = Neg(a)
    }}"""
    x = np.concatenate([floats(33), SPECIAL, 5 * floats(19)])
    if op_type == "Mish":
        x = x[~np.isinf(x)]  # the reference has NaN where the limit is x
    if op_type in ("Celu", "Elu", "Selu"):
        x = x[x != -np.inf]
    check(text, {"x": x, "y": floats(x.size)})


@pytest.mark.parametrize("op_type", ["Gelu", "Tanh", "Sqrt", "Add", "Pow", "Max"])
def test_float64(op_type: str) -> None:
    call = f"{op_type}(x)" if op_type in ("Gelu", "Tanh", "Sqrt") else f"{op_type}(x, y)"
    x = np.abs(rng().standard_normal((5, 7))) + 0.1
    text = f"g (double[5, 7] x, double[5, 7] y) => (double[5, 7] z) {{ a = {call} z = Mul(a, y) }}"
    # The reference's Gelu has constants of float32's digits.
    check(text, {"x": x, "y": x}, rounding=1e3 if op_type == "Gelu" else 1)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Min", "Max", "Pow"])
def test_pairs_of_special_floats(op_type: str) -> None:
    """Each special value with each: NaN and infinities come out as in the reference."""
    text = f"g (float[a, 1] x, float[b] y) => (float[a, b] z, float[a, b] w) {{ z = {op_type}(x, y) w = Neg(z) }}"
    check(text, {"x": SPECIAL.reshape(-1, 1), "y": SPECIAL})


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


OF_INTEGERS = [
    *((op_type, kind) for op_type in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Equal", "Less") for kind in INTEGERS),
    *(("Pow", kind) for kind in ("int32", "int64")),
]


@pytest.mark.parametrize(("op_type", "kind"), OF_INTEGERS)
def test_integers_of_every_width(op_type: str, kind: str) -> None:
    """Sums wrap around, quotients are cut toward zero, remainders take the divisor's sign."""
    limits = np.iinfo(kind)
    x = rng().integers(limits.min, limits.max, 60, dtype=kind, endpoint=True)
    y = rng().integers(limits.min, limits.max, 60, dtype=kind, endpoint=True)
    x[:3], y[:3] = limits.min, [1, 2, limits.max]
    y[y == 0] = 3
    if op_type == "Pow":
        x, y = (x % 5).astype(kind), (np.abs(y.astype("int64")) % 4).astype(kind)
    result, other = ("bool", "Not(z)") if op_type in ("Equal", "Less") else (kind, "Max(z, y)")
    # Two axes: regions leave integers of one axis to the host, where sizes are computed.
    text = f"""g ({kind}[n, 1] x, {kind}[n, 1] y) => ({result}[n, 1] z, {result}[n, 1] w) {{
        z = {op_type}(x, y) w = {other}
    }}"""
    check(text, {"x": x.reshape(-1, 1), "y": y.reshape(-1, 1)})


def test_the_least_integer_by_minus_one() -> None:
    """It wraps around and leaves no rest, where C++ itself stops."""
    x = np.array([-(2**31), 7], np.int32)
    y = np.array([-1, -1], np.int32)
    text = "g (int32[2, 1] x, int32[2, 1] y) => (int32[2, 1] q, int32[2, 1] r) { q = Div(x, y) r = Mod(x, y) }"
    region = view_of(text).region([0, 1])
    found = outputs_of(region, {"x": x.reshape(2, 1), "y": y.reshape(2, 1)})
    np.testing.assert_array_equal(found["q"].ravel(), [-(2**31), -7])
    np.testing.assert_array_equal(found["r"].ravel(), [0, 0])


@pytest.mark.parametrize("cuts", [0, 1])
def test_modulo_of_signed_numbers(cuts: int) -> None:
    """``fmod`` says whose sign the rest has."""
    x = rng().integers(-9, 9, 40).astype(np.int32)
    y = np.where(rng().integers(0, 2, 40), 4, -3).astype(np.int32)
    text = f"g (int32[n] x, int32[n] y) => (int32[n] z, int32[n] w) {{ z = Mod<fmod = {cuts}>(x, y) w = Abs(z) }}"
    check(text.replace("[n]", "[n, 1]"), {"x": x.reshape(-1, 1), "y": y.reshape(-1, 1)})


def test_modulo_of_floats() -> None:
    """``fmod=1``, the sign of the dividend."""
    text = "g (float[n] x, float[n] y) => (float[n] z) { a = Mod<fmod = 1>(x, y) z = Neg(a) }"
    check(text, {"x": 5 * floats(40), "y": np.abs(floats(40)) + 0.3})


def test_powers_of_integers_with_negative_exponents() -> None:
    """1 of 1, alternating for -1, 0 of all others."""
    text = "g (int32[6, 1] x, int32[6, 1] y) => (int32[6, 1] z) { a = Pow(x, y) z = Neg(a) }"
    x = np.array([1, -1, -1, 2, -3, 5], np.int32).reshape(6, 1)
    y = np.array([-3, -3, -2, -1, -2, 2], np.int32).reshape(6, 1)
    found = outputs_of(region_of(text), {"x": x, "y": y})["z"]
    np.testing.assert_array_equal(found.ravel(), [-1, 1, -1, 0, 0, -25])


@pytest.mark.parametrize("exponent", [2.0, -1.0, 1.0, 0.5, 3.0, -0.5])
def test_constant_exponents(exponent: float) -> None:
    """Those with a shorter way and those without one, of special values too."""
    text = f"""g (float[n] x) => (float[n] z)
        <float e = {{{exponent}}}> {{ a = Pow(x, e) z = Neg(a) }}"""
    x = np.concatenate([SPECIAL, floats(20)])
    if exponent == 0.5:
        x = x[x != -np.inf]  # NumPy, and so the reference, takes the root there, whose result is NaN instead of inf
    check(text, {"x": x})


def test_comparisons_logic_and_choice() -> None:
    """Booleans between comparisons, logic and Where; NaN is unequal to everything."""
    text = """g (float[n] x, float[n] y) => (float[n] z, bool[n] b) {
        l = Less(x, y) g = GreaterOrEqual(x, y) e = Equal(x, y) o = Or(l, e) b = Xor(o, g) n = And(b, l)
        z = Where(n, x, y)
    }"""
    x, y = np.tile(SPECIAL, SPECIAL.size), np.repeat(SPECIAL, SPECIAL.size)
    check(text, {"x": x, "y": y})


def test_not_a_number_and_infinities_are_seen() -> None:
    """IsNaN, and IsInf of one sign."""
    text = """g (float[n] x) => (bool[n] z) {
        a = IsNaN(x) b = IsInf<detect_negative = 0>(x) z = Or(a, b)
    }"""
    check(text, {"x": SPECIAL})


CASTS = [
    ("float", "int32"), ("int64", "float"), ("float", "bool"), ("bool", "float"), ("float", "float16"),
    ("float16", "float"), ("double", "float16"), ("int8", "uint8"), ("uint8", "int64"), ("int32", "float16"),
    ("float", "double"), ("float", "bfloat16"), ("bfloat16", "float"), ("uint64", "double"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_casts(source: str, target: str) -> None:
    """Between kinds of numbers; what floats lose is rounded to even, what integers get is cut."""
    number = getattr(onnx.TensorProto, target.upper())
    dtype = numpy_dtype(DataType[source.upper()])
    x = (50 * np.abs(floats(70))).astype(dtype) if source != "bool" else floats(70) > 0
    if source in ("float", "double", "float16"):
        x[:4] = [0.0, 2049.0, 65519.0, 1e-7]
    text = f"""g ({source}[n, 1] x) => ({target}[n, 1] z) {{
        b = Cast<to = {number}>(x) z = Cast<to = {number}>(b)
    }}"""
    check(text, {"x": x.reshape(-1, 1)})


def test_bounds_that_are_fed_and_constant() -> None:
    """Clip with a bound of each kind; a NaN stays."""
    text = """g (float[n] x, float low) => (float[n] z, float[n] w)
        <float high = {0.75}> { z = Clip(x, low, high) a = Mul(z, x) w = Clip(a, , high) }"""
    check(text, {"x": np.concatenate([SPECIAL, floats(20)]), "low": np.float32(-0.5)})


def test_shifts_and_bits() -> None:
    """Shifts by all bits and more leave nothing."""
    text = """g (uint8[n] x, uint8[n] y) => (uint8[n] z) {
        a = BitShift<direction = "LEFT">(x, y) b = BitShift<direction = "RIGHT">(x, y) c = BitwiseXor(a, b)
        d = BitwiseNot(c) e = BitwiseAnd(d, x) z = BitwiseOr(e, y)
    }"""
    check(text, {"x": rng().integers(0, 255, 50).astype(np.uint8), "y": rng().integers(0, 8, 50).astype(np.uint8)})


def test_many_inputs() -> None:
    """Sum, Mean, Max and Min of several."""
    text = """g (float[n] a, float[n] b, float[n] c) => (float[n] z) {
        s = Sum(a, b, c) m = Mean(a, b, c) x = Max(a, b, c) i = Min(a, b, c) z = Mean(s, m, x, i)
    }"""
    check(text, {name: np.concatenate([SPECIAL, floats(9)]) for name in "abc"})


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_precision(kind: str) -> None:
    dtype = numpy_dtype(DataType[kind.upper()])
    text = f"g ({kind}[4, n] x, {kind}[n] y) => ({kind}[4, n] z) {{ a = Add(x, y) b = Sigmoid(a) z = Mul(a, b) }}"
    # The reference rounds after each node: up to three roundings where the region has one.
    check(text, {"x": floats(4, 40).astype(dtype), "y": floats(40).astype(dtype)}, rounding=3.0)


SHAPES = [
    ("[4, 8, 16]", "[16]", (4, 8, 16), (16,)),
    ("[4, 8, 16]", "[8, 1]", (4, 8, 16), (8, 1)),
    ("[4, 8, 16]", "[4, 1, 1]", (4, 8, 16), (4, 1, 1)),
    ("[4, 1, 16]", "[1, 8, 1]", (4, 1, 16), (1, 8, 1)),
    ("[3, 5, 7]", "[5, 7]", (3, 5, 7), (5, 7)),
    ("[2, 3, 1, 5, 4]", "[3, 6, 1, 1]", (2, 3, 1, 5, 4), (3, 6, 1, 1)),
    ("[n, m]", "[1]", (3, 11), (1,)),
    ("[n, m]", "[k, m]", (1, 12), (5, 12)),
    ("[n]", "[]", (13,), ()),
]


@pytest.mark.parametrize(("shape_x", "shape_y", "x", "y"), SHAPES)
def test_broadcasting(shape_x: str, shape_y: str, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Both ways, over any axes, also where only the run tells."""
    text = f"g (float{shape_x} x, float{shape_y} y) => (float z, float w) {{ z = Mul(x, y) s = Sub(z, y) w = Exp(s) }}"
    check(text.replace("float[] y", "float y"), {"x": floats(*x), "y": floats(*y)})


def test_results_of_several_shapes_are_several_kernels(device: host.HostDriver) -> None:
    """A result smaller than the whole is computed at its own size."""
    text = "g (float[5, 1] x, float[5, 6] y) => (float[5, 1] a, float[5, 6] z) { a = Exp(x) z = Add(a, y) }"
    check(text, {"x": floats(5, 1), "y": floats(5, 6)})
    assert len(device.launched) == 2


def test_constants_of_one_element_are_arguments() -> None:
    """Regions that differ in them share a kernel, and each has its own value."""
    text = "g (float[3] x) => (float[3] z) <float[1] c = {VALUE}> { a = Mul(x, c) z = Add(a, c) }"
    for value in ("0.5", "-3.0"):
        check(text.replace("VALUE", value), {"x": floats(3)})


def test_larger_constants_are_arrays() -> None:
    """They are copied to the device once."""
    text = "g (float[2, 3] x) => (float[2, 3] z) <float[3] c = {1.0, 2.0, 3.0}> { a = Mul(x, c) z = Relu(a) }"
    check(text, {"x": floats(2, 3)})


def test_nothing_is_launched_for_empty_arrays(device: host.HostDriver) -> None:
    check("g (float[n, 4] x) => (float[n, 4] z) { a = Exp(x) z = Neg(a) }", {"x": floats(0, 4)})
    assert not device.launched


def test_a_chain_of_many_kinds() -> None:
    """Integers, floats and booleans in one kernel."""
    text = """g (int32[6, 10] i, float[10] f, bool[6, 1] b) => (float[6, 10] z, int32[6, 10] w) {
        a = Cast<to = 1>(i) m = Mul(a, f) t = Tanh(m) z = Where(b, t, f) r = Round(z) c = Cast<to = 6>(r)
        w = Add(c, i)
    }"""
    feeds = {"i": rng().integers(-9, 9, (6, 10)).astype(np.int32), "f": floats(10), "b": floats(6, 1) > 0}
    check(text, feeds)
