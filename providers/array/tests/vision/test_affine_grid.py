"""AffineGrid against a loop over pixels and onnxruntime; degenerate sizes and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_kit.tolerances import assert_close

from ..function_oracle import function_outputs
from ..oracle import FLOATS, agree, i64, run, sample
from ..runtime_oracle import agree_with_runtime
from ..test_limits import call


def pixel_by_pixel(theta: Any, size: tuple[int, ...], align_corners: bool) -> Any:
    """Every pixel's centre, mapped by itself: positions (x, y[, z], 1) against (n, c, [d,] h, w)."""
    spatial = size[2:]
    y = np.zeros((size[0], *spatial, len(spatial)))
    for place in np.ndindex(*spatial):
        centre = [
            (2 * i / (s - 1) if align_corners else (2 * i + 1) / s) - 1 for i, s in zip(place, spatial, strict=True)
        ]
        y[(slice(None), *place)] = theta @ np.array([*reversed(centre), 1])
    return y


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(0, 3),
    spatial=st.lists(st.integers(2, 5), min_size=2, max_size=3),
    align_corners=st.booleans(),
)
def test_every_pixel(batch: int, spatial: list[int], align_corners: bool) -> None:
    """Two and three dimensions, both meanings of -1 and 1."""
    size = (batch, 3, *spatial)
    theta = sample((batch, len(spatial), len(spatial) + 1), np.float64)
    (y,) = run("AffineGrid", [theta, i64(*size)], align_corners=int(align_corners))
    assert_close(y, pixel_by_pixel(theta, size, align_corners))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("rank", [2, 3])
def test_every_type(rank: int, dtype: Any) -> None:
    """Narrow floats are computed in float32 and rounded once."""
    size = (2, 1, *(4, 5, 6)[:rank])
    theta = sample((2, rank, rank + 1), dtype)
    (y,) = run("AffineGrid", [theta, i64(*size)])
    assert_close(y, pixel_by_pixel(theta.astype(np.float64), size, False).astype(dtype))


@pytest.mark.parametrize("align_corners", [0, 1])
def test_the_oracles_agree(align_corners: int) -> None:
    """onnx.reference and onnxruntime, on a size with three different sides."""
    inputs = [sample((2, 3, 4), np.float32), i64(2, 1, 3, 4, 5)]
    agree("AffineGrid", inputs, align_corners=align_corners)
    agree_with_runtime("AffineGrid", inputs, opset=20, align_corners=align_corners)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("spatial", [(1, 1), (1, 3), (2, 1), (1, 2, 2), (2, 1, 2), (2, 2, 1)], ids=str)
def test_one_pixel(spatial: tuple[int, ...], align_corners: int) -> None:
    """In the operator's function a side of one pixel is at 0, with aligned corners at -1 in depth, else 0/0.

    onnxruntime's own kernel takes the last corner instead, PyTorch the middle. The batch is two because the function
    squeezes a batch of one away.
    """
    theta = sample((2, len(spatial), len(spatial) + 1), np.float32)
    inputs = [theta, i64(2, 1, *spatial)]
    (expected,) = function_outputs("AffineGrid", inputs, opset=20, align_corners=align_corners)
    assert_close(run("AffineGrid", inputs, align_corners=align_corners)[0], expected)


@pytest.mark.parametrize("align_corners", [0, 1])
def test_no_pixel(align_corners: int) -> None:
    """A side of 0 gives an empty grid."""
    (y,) = run("AffineGrid", [sample((2, 2, 3), np.float32), i64(2, 1, 0, 4)], align_corners=align_corners)
    assert y.shape == (2, 0, 4, 2)


@pytest.mark.parametrize(
    ("theta", "size", "text"),
    [
        ((1, 2, 3), (1, 1, 4), r"AffineGrid has the size \[1, 1, 4\]"),
        ((1, 2, 3), (1, 1, 4, -1), r"AffineGrid has the size \[1, 1, 4, -1\]"),
        ((1, 2, 3), (2, 1, 4, 4), r"Maps of shape \[1, 2, 3\] do not fit"),
        ((1, 2, 3), (1, 1, 4, 4, 4), r"Maps of shape \[1, 2, 3\] do not fit"),
        ((2, 3), (2, 1, 4, 4), r"Maps of shape \[2, 3\] do not fit"),
    ],
    ids=str,
)
def test_wrong_inputs(theta: tuple[int, ...], size: tuple[int, ...], text: str) -> None:
    """Each is refused with what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("AffineGrid", [np.zeros(theta, np.float32), i64(*size)])
    assert caught.value.fix


def test_large_grids_are_announced() -> None:
    with pytest.raises(LimitError, match="too large"):
        call("AffineGrid", [np.zeros((1, 2, 3), np.float32), i64(1, 1, 1 << 20, 1 << 20)], {}, opset=20)
