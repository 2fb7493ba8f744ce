"""MatMulNBits with zero points of float32, as llama.cpp's Q4_1 has them: against products in float64."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

import ort_py as ort
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.few_bits import has_few_bits
from providers.onednn.tests.models import model, node, open_session

Array: TypeAlias = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(not has_few_bits(engine().library, 4, 32), reason="there is no code for few bits here")


def _blocks(bits: int, size: int, columns: int, depth: int = 256) -> tuple[dict[str, Array], Array, dict[str, int]]:
    """Constants of a product, its weights (depth, columns) in float64, and its attributes."""
    rng = np.random.default_rng(bits * size)
    count = depth // size
    packed = rng.integers(0, 256, (columns, count, size * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.005, 0.02, (columns, count)).astype(np.float32)
    zeros = rng.uniform(-1, 1 << bits, (columns, count)).astype(np.float32)
    integers = packed.reshape(columns, -1)
    if bits == 4:
        integers = np.stack([integers & 15, integers >> 4], -1)
    numbers = integers.reshape(columns, count, size).astype(np.float64)
    real = (numbers - zeros[:, :, None]) * scales[:, :, None].astype(np.float64)
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": size}
    return {"b": packed, "s": scales, "z": zeros}, real.reshape(columns, depth).T, attributes


def _provider(session: ort.InferenceSession) -> str:
    (found,) = {one.provider for one in session.placement.nodes if one.op_type == "MatMulNBits"}
    return found


@pytest.mark.parametrize(
    ("bits", "size", "columns"), [(4, 16, 48), (4, 32, 70), (4, 128, 64), (8, 32, 50), (8, 64, 48)]
)
@pytest.mark.parametrize("rows", [(1, 1), (1, 5), (2, 20)])
@pytest.mark.parametrize(("bias", "level"), [(False, 0), (True, 4)])
def test_products_are_as_exact_as_in_float32(
    bits: int, size: int, columns: int, rows: tuple[int, int], bias: bool, level: int
) -> None:
    """For every accuracy level: rows are not rounded."""
    constants, real, attributes = _blocks(bits, size, columns)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((*rows, 256)).astype(np.float32)
    constants["c"] = rng.standard_normal(columns).astype(np.float32)
    names = f"x b s z{' - c' if bias else ''}"
    made = node("MatMulNBits", names, "y", domain="com.microsoft", accuracy_level=level, **attributes)
    if not bias:
        del constants["c"]
    with open_session(model([made], {"x": x}, constants)) as session:
        (actual,) = session.run(None, {"x": x})
        assert _provider(session) == "DnnlExecutionProvider"
    exact = x.astype(np.float64) @ real + (constants["c"] if bias else 0)
    single = x @ real.astype(np.float32) + (constants["c"] if bias else 0)
    assert np.abs(actual - exact).max() <= max(6 * np.abs(single - exact).max(), 2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("flat", ["s", "z"])
def test_shapes_of_scales_and_zero_points_may_differ(flat: str) -> None:
    """The operator allows a row for each column, and one vector of all: for each of them by itself."""
    constants, real, attributes = _blocks(4, 32, 48)
    constants[flat] = constants[flat].reshape(-1)
    x = np.random.default_rng(5).standard_normal((3, 256)).astype(np.float32)
    made = node("MatMulNBits", "x b s z", "y", domain="com.microsoft", **attributes)
    with open_session(model([made], {"x": x}, constants)) as session:
        (actual,) = session.run(None, {"x": x})
        assert _provider(session) == "DnnlExecutionProvider"
    np.testing.assert_allclose(actual, x.astype(np.float64) @ real, rtol=1e-4, atol=1e-4)


def test_zero_points_that_are_fed_are_left_to_others() -> None:
    """They are not known when the model is rewritten; the result is the same."""
    constants, real, attributes = _blocks(4, 32, 48)
    x, zeros = np.random.default_rng(4).standard_normal((3, 256)).astype(np.float32), constants.pop("z")
    made = node("MatMulNBits", "x b s z", "y", domain="com.microsoft", **attributes)
    with open_session(model([made], {"x": x, "z": zeros}, constants)) as session:
        (actual,) = session.run(None, {"x": x, "z": zeros})
        assert _provider(session) == "CPUExecutionProvider"
    np.testing.assert_allclose(actual, x.astype(np.float64) @ real, rtol=1e-4, atol=1e-4)


def test_zero_points_of_bytes_stay() -> None:
    """The provider takes these as they are: no product is added for them."""
    constants, _, attributes = _blocks(4, 32, 48)
    constants["z"] = np.zeros(48 * 4, np.uint8)
    x = np.ones((1, 256), np.float32)
    made = node("MatMulNBits", "x b s z", "y", domain="com.microsoft", **attributes)
    with open_session(model([made], {"x": x}, constants)) as session:
        assert [one.op_type for one in session.placement.nodes] == ["MatMulNBits"]
