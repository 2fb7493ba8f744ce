"""MatMulNBits: weights of few bits, read as bytes, and results as exact as those of float32."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

from providers.onednn.tests.models import model, node, open_session, run_here

Array: TypeAlias = np.ndarray[Any, Any]


def _blocks(bits: int, size: int, zeros: bool, columns: int = 48) -> tuple[dict[str, Array], Array, dict[str, int]]:
    rng = np.random.default_rng(9)
    depth = 256
    count = depth // size
    packed = rng.integers(0, 256, (columns, count, size * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.005, 0.02, (columns, count)).astype(np.float32)
    constants: dict[str, Array] = {"b": packed, "s": scales.reshape(-1)}
    integers = packed.reshape(columns, -1).astype(np.int64)
    shifts = np.full((columns, count), 1 << (bits - 1))
    if bits == 4:
        integers = np.stack([integers & 15, integers >> 4], -1).reshape(columns, -1)
    if zeros:
        held = rng.integers(0, 256, (columns, -(-count * bits // 8))).astype(np.uint8)
        constants["z"] = held.reshape(-1)
        shifts = np.stack([held & 15, held >> 4], -1).reshape(columns, -1)[:, :count].astype(np.int64)
    real = (integers.reshape(columns, count, size) - shifts[:, :, None]) * scales[:, :, None].astype(np.float64)
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": size}
    return constants, real.reshape(columns, depth).T, attributes


@pytest.mark.parametrize(("bits", "size", "zeros"), [(4, 32, True), (4, 128, False), (8, 64, False), (4, 16, True)])
@pytest.mark.parametrize(("rows", "columns"), [(1, 48), (3, 48), (20, 48), (20, 256), (70, 50)])
def test_weights_of_few_bits(bits: int, size: int, zeros: bool, rows: int, columns: int) -> None:
    """MatMulNBits is as exact as a product of float32, for few rows and for many, whose products want the weights in
    blocks of columns where there are whole ones."""
    constants, real, attributes = _blocks(bits, size, zeros, columns)
    rng = np.random.default_rng(10)
    x = (rng.standard_normal((1, rows, 256)) * np.exp(2 * rng.standard_normal(256))).astype(np.float32)
    nodes = [node("MatMulNBits", f"x b s{' z' if zeros else ''}", "y", domain="com.microsoft", **attributes)]
    (actual,) = run_here(model(nodes, {"x": x}, constants), {"x": x})
    exact = x.astype(np.float64) @ real
    single = x @ real.astype(np.float32)
    allowed = max(2 * np.abs(single - exact).max(), 2e-6 * np.abs(exact).max())
    assert np.abs(actual - exact).max() <= allowed


@pytest.mark.parametrize("rows", [1, 12])
def test_weights_of_few_bits_with_integers(rows: int) -> None:
    """Accuracy level 4 allows a first factor of 8 bits: its rounding is seen, and no more."""
    constants, real, attributes = _blocks(4, 32, True)
    x = np.random.default_rng(11).standard_normal((1, rows, 256)).astype(np.float32)
    nodes = [node("MatMulNBits", "x b s z", "y", domain="com.microsoft", accuracy_level=4, **attributes)]
    (actual,) = run_here(model(nodes, {"x": x}, constants), {"x": x})
    far = np.abs(actual - x.astype(np.float64) @ real).max() / np.abs(x @ real).max()
    assert 1e-5 < far < 3e-2


def test_few_rows_and_many_in_one_session() -> None:
    """A prompt and then a word: each finds the weights in a form of its own."""
    constants, real, attributes = _blocks(4, 32, True, 128)
    nodes = [node("MatMulNBits", "x b s z", "y", domain="com.microsoft", **attributes)]
    rng = np.random.default_rng(12)
    x = rng.standard_normal((1, 2, 256)).astype(np.float32)
    with open_session(model(nodes, {"x": x}, constants, dynamic=True)) as session:
        for rows in (64, 1, 64, 4, 5):
            x = rng.standard_normal((1, rows, 256)).astype(np.float32)
            (actual,) = session.run(None, {"x": x})
            exact = x.astype(np.float64) @ real
            assert np.abs(actual - exact).max() <= 2e-6 * np.abs(exact).max()
