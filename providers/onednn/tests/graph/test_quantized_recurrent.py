"""Constants of a DynamicQuantizeLSTM: the form they get, and what is wrong with others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_onednn.graph.quantized_recurrent import PARTS, layer_constants

NAMES = ["x", "w", "r", "b", "", "", "", "", "w_scale", "w_zero", "r_scale", "r_zero"]
Arrays = dict[str, np.ndarray[Any, Any]]


def _arrays(kind: type = np.int8) -> Arrays:
    rng = np.random.default_rng(0)
    low, high = (-128, 127) if kind is np.int8 else (0, 255)
    return {
        "w": rng.integers(low, high, (1, 3, 8), endpoint=True).astype(kind),
        "r": rng.integers(low, high, (1, 2, 8), endpoint=True).astype(kind),
        "b": rng.normal(size=(1, 16)).astype(np.float32),
        "w_scale": np.array([0.5], np.float32),
        "w_zero": np.array([3], kind),
        "r_scale": rng.uniform(1, 2, (1, 8)).astype(np.float32),
        "r_zero": np.array([5], kind),
    }


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_integers_and_zero_points_stand_for_the_same(kind: type) -> None:
    """Signed weights less their zero point are the model's; sums are those of columns; logistic gates are halved."""
    arrays = _arrays(kind)
    found = layer_constants(NAMES, arrays.get)
    assert not isinstance(found, str)
    parts, zeros = dict(found[0]), found[1]
    for name, part, zero in (("w", PARTS[0], zeros[0]), ("r", PARTS[3], zeros[1])):
        assert parts[part].dtype == np.int8
        expected = arrays[name].astype(int) - int(arrays[f"{name}_zero"][0])
        np.testing.assert_array_equal(parts[part][0].astype(int) - zero[0], expected[0])
    np.testing.assert_array_equal(parts[PARTS[5]], -(arrays["r"].astype(int) - 5).sum(axis=1))
    halves = np.array([0.5] * 6 + [1.0] * 2, np.float32)
    np.testing.assert_array_equal(parts[PARTS[1]], 0.5 * halves[None])
    np.testing.assert_array_equal(parts[PARTS[4]], arrays["r_scale"] * halves)
    np.testing.assert_array_equal(parts[PARTS[2]], (arrays["b"][:, :8] + arrays["b"][:, 8:]) * halves)


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("w", None, "weights or their scales are not constants"),
        ("w", np.zeros((1, 3, 8), np.float32), "weights of float32 with 3 dimensions"),
        ("r", np.zeros((2, 8), np.int8), "weights of int8 with 2 dimensions"),
        ("w_scale", np.ones(3, np.float32), "its scales or zero points do not fit its weights"),
        ("w_scale", np.ones(1, np.float64), "weights or their scales are not constants"),
        ("b", None, "weights and bias do not fit each other"),
        ("r", np.zeros((1, 4, 8), np.int8), "weights and bias do not fit each other"),
    ],
)
def test_what_cannot_be_had(name: str, array: np.ndarray[Any, Any] | None, reason: str) -> None:
    arrays = {**_arrays(), **({} if array is None else {name: array})}
    if array is None:
        del arrays[name]
    assert layer_constants(NAMES, arrays.get) == reason
