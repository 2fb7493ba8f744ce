"""Gelu by tanh: the closed form in float64, by itself, after a product and on pictures in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from providers.onednn.tests.checking import watched
from providers.onednn.tests.models import model, node, run_here

RNG = np.random.default_rng(43)


def _gelu(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        factor = 1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
        return np.asarray(wide * factor / 2, np.float32)


def _run(nodes: Any, x: np.ndarray[Any, Any], constants: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    with watched():
        return np.asarray(run_here(model(nodes, {"x": x}, constants), {"x": x})[0])


def test_numbers_of_every_size() -> None:
    """From the smallest to those whose cube is beyond float32, of both signs; zeroes keep theirs."""
    size = np.float32(10.0) ** np.arange(-30, 31, dtype=np.float32)
    x = np.concatenate([np.linspace(-12, 12, 4001, dtype=np.float32), size, -size, np.array([0, -0.0], np.float32)])
    found = _run([node("Gelu", "x", "y", approximate="tanh")], x, {})
    assert_close(found, _gelu(x))
    assert np.array_equal(np.signbit(found[-2:]), [False, True])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(value: float) -> None:
    """NaN stays, and so does infinity; what the formula makes of its negative is no number either."""
    x = np.linspace(-3, 3, 101, dtype=np.float32)
    x[17] = value
    with ort.InferenceSession(model([node("Gelu", "x", "y", approximate="tanh")], {"x": x})) as session:
        assert_close(session.run(None, {"x": x})[0], _gelu(x))


def test_behind_a_product_and_in_front_of_a_sum() -> None:
    """The product takes the bias, and what follows the Gelu is computed of it."""
    x = RNG.standard_normal((7, 24)).astype(np.float32)
    weights: dict[str, np.ndarray[Any, Any]] = {
        "w": RNG.standard_normal((24, 40)).astype(np.float32) / 4,
        "b": RNG.standard_normal(40).astype(np.float32),
        "z": RNG.standard_normal(40).astype(np.float32),
    }
    nodes = [
        node("MatMul", "x w", "m"),
        node("Add", "m b", "a"),
        node("Gelu", "a", "g", approximate="tanh"),
        node("Add", "g z", "y"),
    ]
    assert_close(_run(nodes, x, weights), _gelu(x @ weights["w"] + weights["b"]) + weights["z"])


def test_channels_that_do_not_fill_their_blocks() -> None:
    """Between two convolutions, of which the second reads every channel."""
    x = RNG.standard_normal((1, 5, 9, 9)).astype(np.float32)
    weights: dict[str, np.ndarray[Any, Any]] = {
        "w": RNG.standard_normal((13, 5, 1, 1)).astype(np.float32),
        "v": RNG.standard_normal((6, 13, 1, 1)).astype(np.float32) / 4,
    }
    nodes = [node("Conv", "x w", "c"), node("Gelu", "c", "g", approximate="tanh"), node("Conv", "g v", "y")]
    middle = _gelu(np.einsum("nchw,oc->nohw", x, weights["w"][:, :, 0, 0]))
    assert_close(_run(nodes, x, weights), np.einsum("nchw,oc->nohw", middle, weights["v"][:, :, 0, 0]))
