"""Clip: bounds as attributes, fed, constant, or missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import FLOATS, agree, bound, run, sample


@pytest.mark.parametrize("constants", [(), (1, 2), (1,)], ids=["fed", "constant", "one constant"])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.int64, np.uint8], ids=str)
def test_clip_between_inputs(dtype: Any, constants: Any) -> None:
    """Both bounds, fed or known when the node is bound."""
    agree(
        "Clip", [sample((3, 50), dtype, 1), np.array(1).astype(dtype), np.array(2).astype(dtype)], constants=constants
    )


@pytest.mark.parametrize("constants", [(), (1, 2)], ids=["fed", "constant"])
@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("bounds", [(), (0.5,), (None, 0.5), (-0.5, 0.5)], ids=str)
def test_missing_bounds(bounds: tuple[float | None, ...], opset: int, constants: Any) -> None:
    """A bound that is not there does not bound."""
    x = sample((20,), np.float32, 1)
    given = [None if bound is None else np.array(bound, np.float32) for bound in bounds]
    known = [index for index in constants if index <= len(given) and given[index - 1] is not None]
    (result,) = run("Clip", [x, *given], opset=opset, constants=known)
    low, high = (*bounds, None, None)[:2]
    np.testing.assert_array_equal(result, np.clip(x, low, high) if bounds else x)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_output_follows_the_inputs_that_are_there(count: int) -> None:
    """The array to write to comes right behind the node's own inputs, however many bounds it has."""
    x = sample((20,), np.float32, 1)
    inputs = [x, np.array(-1, np.float32), np.array(1, np.float32)][: count + 1]
    _, kernel = bound("Clip", inputs)
    out = np.empty_like(x)
    assert kernel(*inputs, out) is out
    np.testing.assert_array_equal(out, kernel(*inputs))


def test_min_above_max() -> None:
    """All elements are max then, as version 13 says."""
    inputs = [np.array([0.0, 5.0, 9.0]), np.array(6.0), np.array(3.0)]
    assert run("Clip", inputs)[0].tolist() == [3, 3, 3]


@pytest.mark.parametrize("constants", [(), (1,)], ids=["fed", "constant"])
@pytest.mark.parametrize("size", [0, 2])
def test_bounds_that_are_not_one_number_are_refused(size: int, constants: Any) -> None:
    """When the node is bound, if they are known by then."""
    with pytest.raises(InvalidArgument, match="A bound of Clip is not one number"):
        run("Clip", [sample((3,), np.float32, 1), np.zeros(size, np.float32)], constants=constants)


def test_clip_keeps_nan() -> None:
    """NaN is in no range and stays."""
    x = np.array([np.nan, 2], np.float32)
    assert np.isnan(run("Clip", [x, np.array(0, np.float32), np.array(1, np.float32)])[0]).tolist() == [True, False]


@pytest.mark.parametrize("attributes", [{}, {"min": -1.0}, {"max": 1.0}, {"min": -1.0, "max": 1.0}], ids=str)
def test_attributes_before_opset_11(attributes: dict[str, float]) -> None:
    """Bounds as attributes; without them infinities are cut to float32's finite limits."""
    x = np.array([-np.inf, -3, 0, 3, np.inf], np.float32)
    limit = float(np.finfo(np.float32).max)
    expected = np.clip(x, attributes.get("min", -limit), attributes.get("max", limit)).astype(np.float32)
    np.testing.assert_array_equal(run("Clip", [x], opset=6, **attributes)[0], expected)
