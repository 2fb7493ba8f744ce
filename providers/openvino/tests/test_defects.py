"""What OpenVINO computes otherwise than ONNX says is refused, and so comes out right. Each in a case it was seen in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from providers.openvino.tests.models import check, refusals

INF = np.inf
SMALL = np.array([120, -3, 100], np.int8)

CASES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "8-bit sums wrap around": (
        "g (int8[3] x) => (int8[3] y) { y = Add(x, x) }",
        {"x": SMALL},
        "Add",
        "it saturates integers of 8 and 16 bits",
    ),
    "not-a-number is not greater": (
        "g (float[2] x, float[2] z) => (bool[2] y) { y = Greater(x, z) }",
        {"x": np.array([np.nan, 2], np.float32), "z": np.array([1, 1], np.float32)},
        "Greater",
        "finds not-a-number greater",
    ),
    "rows of minus infinity": (
        "g (float[2, 2] x) => (float[2, 1] y) <int64[1] axes = {1}> { y = ReduceMax(x, axes) }",
        {"x": np.array([[-INF, -INF], [1, 2]], np.float32)},
        "ReduceMax",
        "lowest finite number of rows of minus infinity",
    ),
    "repeats at run time": (
        "g (float[2] x, int64[1] n) => (float[m] y) { y = Tile(x, n) }",
        {"x": np.array([1, 2], np.float32), "n": np.array([3])},
        "Tile",
        "repeats are no constant",
    ),
    "negative numbers shifted": (
        'g (int32[3] x, int32[3] n) => (int32[3] y) { y = BitShift <direction = "RIGHT"> (x, n) }',
        {"x": np.array([-8, -1, 8], np.int32), "n": np.array([1, 1, 1], np.int32)},
        "BitShift",
        "shifts negative numbers otherwise",
    ),
    "a window behind the data": (
        """g (float[1, 1, 2, 2] x) => (float[1, 1, a, b] y) {
            y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (x)
        }""",
        {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)},
        "MaxPool",
        "a window that begins behind the data",
    ),
    "corners aligned by scales": (
        """g (float[1, 1, 2, 4] x) => (float[1, 1, a, b] y) <float[4] s = {1.0, 1.0, 0.6, 0.6}> {
            y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , s)
        }""",
        {"x": np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)},
        "Resize",
        "aligns corners by the rounded size",
    ),
    "weights outside": (
        """g (float[1, 1, 4, 4] x) => (float[1, 1, a, b] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> {
            y = Resize <mode = "cubic", cubic_coeff_a = -0.5, exclude_outside = 1> (x, , s)
        }""",
        {"x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)},
        "Resize",
        "antialias and exclude_outside",
    ),
    "layout 1": (
        """g (float[3, 1, 2] x, float[1, 4, 2] w, float[1, 4, 4] r) => (float[3, 1, 1, 4] y) {
            y = RNN <hidden_size = 4, layout = 1> (x, w, r)
        }""",
        {
            "x": np.arange(6, dtype=np.float32).reshape(3, 1, 2) / 6,
            "w": np.full((1, 4, 2), 0.1, np.float32),
            "r": np.full((1, 4, 4), 0.1, np.float32),
        },
        "RNN",
        "it reads layout 1 as layout 0",
    ),
    "halves": (
        "g (float[6] x) => (uint8[6] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
        {"x": np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)},
        "DynamicQuantizeLinear",
        "rounds halves another way",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_and_right(case: str) -> None:
    """The reason is in the report, the result is the specification's."""
    text, feeds, op_type, words = CASES[case]
    session = check(text, feeds, opset=28 if op_type == "BitShift" else 21)  # older shifts have no signed integers
    assert words in refusals(session, op_type)


def test_fully_masked_rows() -> None:
    """The function of attention, whose rows without any key are zero and not not-a-number."""
    text = """g (float[1, 2, 3, 4] q, bool[3, 3] mask) => (float[1, 2, 3, 4] y) { y = Attention(q, q, q, mask) }"""
    feeds = {
        "q": np.random.default_rng(3).standard_normal((1, 2, 3, 4), np.float32),
        "mask": np.array([[True, False, True], [False, False, False], [True, True, True]]),
    }
    session = check(text, feeds, opset=23)
    assert "ignores windows and the order of masks" in refusals(session, "Attention")


def test_pools_with_ceil_mode_and_no_such_window_are_taken() -> None:
    """Where both formulas give the same windows."""
    text = """g (float[1, 1, 5, 5] x) => (float[1, 1, a, b] y) {
        y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)
    }"""
    session = check(text, {"x": np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)})
    assert refusals(session, "MaxPool") == ""
