"""com.microsoft operators against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_array.saturation import centred

from ..oracle import run, sample
from ..runtime_oracle import addable, runtime_outputs
from ..test_quantization import integers

HIDDEN, INPUT, STEPS = 16, 12, 7

TOLERANCE = 2e-2
"""A sum on the other side of a tie, from another approximation of tanh, is one of 255 steps of the hidden state."""


def _inputs(directions: int, batch: int, weights: Any, by_column: bool) -> list[Any]:
    width = 4 * HIDDEN
    scales = (directions, width) if by_column else (directions,)
    return [
        sample((STEPS, batch, INPUT), np.float32),
        addable(integers((directions, INPUT, width), weights)),
        addable(integers((directions, HIDDEN, width), weights, 1)),
        sample((directions, 2 * width), np.float32, 2, -0.1, 0.1),
        None,
        sample((directions, batch, HIDDEN), np.float32, 3, -1, 1),
        sample((directions, batch, HIDDEN), np.float32, 4, -1, 1),
        None,
        sample(scales, np.float32, 5, 0.002, 0.004),
        np.zeros(scales, weights) + (3 if weights is np.uint8 else 0),
        sample(scales, np.float32, 6, 0.002, 0.004),
        np.zeros(scales, weights) + (5 if weights is np.uint8 else 0),
    ]


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("weights", [np.int8, np.uint8])
@pytest.mark.parametrize(("direction", "batch"), [("forward", 1), ("reverse", 3), ("bidirectional", 1)])
def test_dynamic_quantize_lstm_equals_onnxruntime(direction: str, batch: int, weights: Any, by_column: bool) -> None:
    """One scale per direction or one per column, signed and unsigned weights, fed and known at planning."""
    inputs = _inputs(2 if direction == "bidirectional" else 1, batch, weights, by_column)
    arguments: dict[str, Any] = {"opset": 1, "outputs": 3, "domain": "com.microsoft"}
    attributes: dict[str, Any] = {"hidden_size": HIDDEN, "direction": direction}
    expected = runtime_outputs("DynamicQuantizeLSTM", inputs, **arguments, **attributes)
    for constants in ((), (1, 2, 8, 9, 10, 11)):
        actual = run("DynamicQuantizeLSTM", inputs, constants=constants, **arguments, **attributes)
        for left, right in zip(actual, expected, strict=True):
            assert left.dtype == np.float32
            np.testing.assert_allclose(left, right, atol=TOLERANCE)


@pytest.mark.parametrize("extra", ["peepholes", "clip", "activations", "lengths"])
def test_dynamic_quantize_lstm_beyond_the_standard_cell(extra: str) -> None:
    """Such a cell takes the general path through a step, in both directions."""
    inputs = _inputs(2, 2, np.int8, False)
    attributes: dict[str, Any] = {"hidden_size": HIDDEN, "direction": "bidirectional"}
    if extra == "peepholes":
        inputs[7] = sample((2, 3 * HIDDEN), np.float32, 7, -1, 1)
    elif extra == "clip":
        attributes["clip"] = 0.3
    elif extra == "lengths":
        inputs[4] = np.array([7, 4], np.int32)
    else:
        attributes["activations"] = ["Sigmoid", "Relu", "Tanh"] * 2
    arguments: dict[str, Any] = {"opset": 1, "outputs": 3, "domain": "com.microsoft"}
    expected = runtime_outputs("DynamicQuantizeLSTM", inputs, **arguments, **attributes)
    for constants in ((), (1, 2, 8, 9, 10, 11)):
        actual = run("DynamicQuantizeLSTM", inputs, constants=constants, **arguments, **attributes)
        for left, right in zip(actual, expected, strict=True):
            np.testing.assert_allclose(left, right, atol=TOLERANCE)


@pytest.mark.parametrize("size", [1.0, 1e-36, 1e-42, 1e-44])
@pytest.mark.parametrize("shift", [-1.0, 0.0, 0.3, 1.0])
def test_centred_values_are_the_quantised_ones_less_the_zero_point(shift: float, size: float) -> None:
    """Bit by bit, with values on ties, on both sides of 0 or on one, and with scales that are subnormal or vanish."""
    for seed in range(50):
        x = sample((3, 40), np.float32, seed, -1, 1) + np.float32(shift)
        x[0] = np.rint(x[0] * 8) / 8
        x *= np.float32(size)
        values, scale, zero = run("DynamicQuantizeLinear", [x], outputs=3)
        integers_, same_scale = centred(np, x)
        np.testing.assert_array_equal(integers_, values.astype(np.float32) - np.float32(zero))
        assert same_scale == scale
    zeros, scale = centred(np, np.zeros((1, 4), np.float32))
    assert not zeros.any()
    assert scale > 0


@pytest.mark.parametrize("row", [[-3, np.inf, 5], [3, -np.inf, 5], [np.nan, 1, 2], [-3e38, 3e38, 1]])
def test_centred_values_are_zero_where_the_scale_is_not_finite(row: list[float]) -> None:
    """The operator's integers less the zero point are 0 there, and multiplied by the scale they are not numbers."""
    x = np.array(row, np.float32)
    values, scale, zero = run("DynamicQuantizeLinear", [x], outputs=3)
    with np.errstate(all="ignore"):
        integers_, same_scale = centred(np, x)
    np.testing.assert_array_equal(integers_, values.astype(np.float32) - np.float32(zero))
    np.testing.assert_array_equal(same_scale, scale)


def test_dynamic_quantize_lstm_refuses_scales_that_do_not_fit() -> None:
    inputs = _inputs(1, 1, np.int8, False)
    inputs[8] = np.ones(3, np.float32)
    with pytest.raises(InvalidArgument, match=re.escape("W's scale has shape [3]; it needs 1 entries, or 64")):
        run("DynamicQuantizeLSTM", inputs, opset=1, outputs=3, domain="com.microsoft", hidden_size=HIDDEN)
