"""QuantizeLinear rounds as ONNX says, and OpenVINO computes in 8 bits only where its results are right."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py_openvino import quantisation
from providers.openvino.tests.models import NAME, check, opened, runners

RNG = np.random.default_rng(19)

RESIDUAL = """g (float[1, 3, 5, 5] x) => (float[1, 3, 5, 5] y) <
    float s = {0.05}, uint8 z = {128}, uint8 n = {0}, float t = {0.02},
    int8[3, 3, 1, 1] w = {9, -7, 5, 3, 8, -2, 1, 6, -4}
> {
    q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) k = DequantizeLinear(w, t)
    c = Conv(d, k) a = Add(c, d) r = Relu(a)
    p = QuantizeLinear(r, s, n) y = DequantizeLinear(p, s, n)
}"""

SEVERAL_READERS = RESIDUAL.replace("a = Add(c, d)", "h = HardSwish(c) a = Add(c, h)")


def _kept(text: str, monkeypatch: pytest.MonkeyPatch, *, exact: bool = True) -> list[bool]:
    """Decisions about the regions of a model."""
    found: list[bool] = []
    decide = quantisation.computes_in_integers

    def noted(region: Any) -> bool:
        found.append(decide(region))
        return found[-1]

    monkeypatch.setenv("ORT_PY_CACHE", "off")
    monkeypatch.setattr(quantisation, "has_exact_integers", lambda: exact)
    monkeypatch.setattr(quantisation, "computes_in_integers", noted)
    session = opened(text)
    assert set(runners(session).values()) == {NAME}
    return found


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("zero", [0, 3, 16, 101])
def test_halves_go_to_the_even_integer(kind: str, zero: int) -> None:
    """The zero point is added after the rounding, so an odd one does not change the result."""
    text = f"""g (float[64, 2] x, float[2, 3] m) => (float[64, 3] y) <float s = {{0.125}}, {kind} z = {{{zero}}}> {{
        q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = MatMul(d, m)
    }}"""
    x = (np.arange(-64, 64, dtype=np.float32) + 0.5).reshape(64, 2) / 8
    session = check(text, {"x": x, "m": np.ones((2, 3), np.float32)})
    assert set(runners(session).values()) == {NAME}


@pytest.mark.parametrize("scale", [0.028676534, 0.1, 1 / 3, 7e-6, 543.21])
def test_quotients_close_to_halves(scale: float) -> None:
    """They are rounded as a division is: a product with the reciprocal of the scale is another number there."""
    constants = f"float s = {{{scale!r}}}, int8 z = {{-1}}"
    text = f"g (float[n] x) => (int8[n] y) <{constants}> {{ y = QuantizeLinear(x, s, z) }}"
    x = ((np.arange(-150, 150) + 0.5) * np.float32(scale)).astype(np.float32)
    far = np.array([np.inf, -np.inf, 3e38, -3e38, 0, -0.0], np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf)), far])
    with opened(text) as session:
        assert set(runners(session).values()) == {NAME}
        with np.errstate(over="ignore"):
            wanted = np.clip(np.rint(x / np.float32(scale)) - 1, -128, 127).astype(np.int8)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], wanted)


def test_zero_points_of_an_axis() -> None:
    """Each entry has its own scale and zero point."""
    text = """g (float[2, 4, 3] x) => (int8[2, 4, 3] y) <
        float[4] s = {0.5, 0.25, 0.125, 1.0}, int8[4] z = {1, 2, -3, 0}
    > { y = QuantizeLinear <axis = 1> (x, s, z) }"""
    check(text, {"x": (RNG.integers(-40, 40, (2, 4, 3)) / 16).astype(np.float32)})


@pytest.mark.parametrize(
    "node",
    [
        "y = DequantizeLinear(x, s, z)",
        "y = DequantizeLinear <axis = 0> (x, r, e)",
        "y = DequantizeLinear <axis = 1, block_size = 3> (x, b, f)",
    ],
    ids=["tensor", "axis", "blocks"],
)
def test_zeros_are_exact(node: str) -> None:
    """An integer that is the zero point gives 0: the difference comes first, and is not spread over a product."""
    text = f"""g (int8[2, 3] x) => (float[2, 3] y) <
        float s = {{0.014524857}}, int8 z = {{-3}}, float[2] r = {{0.014524857, 0.3}}, int8[2] e = {{-3, -3}},
        float[2, 1] b = {{0.014524857, 0.3}}, int8[2, 1] f = {{-3, -3}}
    > {{ {node} }}"""
    with opened(text) as session:
        assert runners(session)["DequantizeLinear"] == NAME
        (y,) = session.run(None, {"x": np.full((2, 3), -3, np.int8)})
        np.testing.assert_array_equal(y, np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_integers_of_scales_in_16_bits(kind: str) -> None:
    """The difference has the type of the scale."""
    text = f"""g (int8[2, 3] x, {kind}[3, 2] m) => ({kind}[2, 2] y) <float s = {{0.5}}, int8 z = {{3}}> {{
        h = CastLike(s, m) d = DequantizeLinear(x, h, z) y = MatMul(d, m)
    }}"""
    ones = np.ones((3, 2), np.float16 if kind == "float16" else ml_dtypes.bfloat16)
    session = check(text, {"x": np.arange(6, dtype=np.int8).reshape(2, 3), "m": ones}, opset=23)
    assert runners(session)["DequantizeLinear"] == NAME


def test_a_convolution_with_several_readers() -> None:
    """OpenVINO's low-precision transformation would scale one of them wrongly."""
    session = check(SEVERAL_READERS, {"x": RNG.standard_normal((1, 3, 5, 5)).astype(np.float32)})
    assert set(runners(session).values()) == {NAME}


def test_a_residual_block_is_left_to_the_transformation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node stands in a place that was compared."""
    assert _kept(RESIDUAL, monkeypatch) == [True]


@pytest.mark.parametrize(
    "text",
    [
        RESIDUAL.replace("n = {0}", "n = {128}"),
        SEVERAL_READERS,
        RESIDUAL.replace("a = Add(c, d)", "a = AveragePool <kernel_shape = [1, 1]> (c)"),
        RESIDUAL.replace("int8[3, 3, 1, 1] w = {9, -7", "uint8[3, 3, 1, 1] w = {9, 7")
        .replace("-2", "2")
        .replace("-4", "4"),
    ],
    ids=["a result with a zero point", "several readers", "AveragePool", "unsigned weights"],
)
def test_other_forms_are_computed_in_float32(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node in any other place decides for the whole region."""
    assert _kept(text, monkeypatch) == [False]


def test_without_vnni_nothing_is_computed_in_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of two products would be cut to 16 bits."""
    assert _kept(RESIDUAL, monkeypatch, exact=False) == [False]
