"""Resize and Upsample against onnxruntime, mode by mode."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from .oracle import agree, i64, run, sample
from .runtime_oracle import agree_with_runtime, runtime_outputs

X = sample((1, 2, 6, 7), np.float32)
EMPTY = np.zeros(0, np.float32)
COORDINATES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]


def f32(*values: float) -> Any:
    """A one-dimensional float32 array."""
    return np.array(values, np.float32)


@pytest.mark.parametrize("nearest_mode", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("sizes", [(9, 13), (3, 5), (12, 7), (1, 1)], ids=str)
def test_nearest(sizes: tuple[int, int], coordinates: str, nearest_mode: str) -> None:
    """Every rounding in every coordinate system, enlarging and shrinking."""
    attributes: dict[str, Any] = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest_mode}
    agree_with_runtime("Resize", [X, None, None, i64(1, 2, *sizes)], opset=19, **attributes)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("sizes", [(9, 13), (3, 5), (12, 7), (1, 1)], ids=str)
def test_interpolation(sizes: tuple[int, int], coordinates: str, mode: str) -> None:
    """Linear and cubic in every coordinate system."""
    attributes: dict[str, Any] = {"coordinate_transformation_mode": coordinates, "mode": mode}
    agree_with_runtime("Resize", [X, None, None, i64(1, 2, *sizes)], opset=19, **attributes)


@pytest.mark.parametrize("scales", [(2.0, 2.0), (0.5, 0.7), (1.5, 3.0), (1.0, 1.0)], ids=str)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("opset", [11, 13, 18, 19])
def test_scales(scales: tuple[float, float], mode: str, opset: int) -> None:
    """Sizes are rounded down; positions follow the scale as given."""
    inputs = [X, EMPTY if opset == 11 else None, f32(1, 1, *scales)]
    agree_with_runtime("Resize", inputs, opset=opset, mode=mode)


@pytest.mark.parametrize("scale", [2.0, 3.0])
def test_whole_number_enlargement_repeats_pixels(scale: float) -> None:
    """The fast way of nearest: asymmetric, rounding down."""
    attributes: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    agree_with_runtime("Resize", [X, None, f32(1, 1, scale, scale)], opset=13, **attributes)


@pytest.mark.parametrize("exclude_outside", [0, 1])
def test_cubic_coefficient_and_borders(exclude_outside: int) -> None:
    """Another coefficient, with and without what lies outside."""
    attributes: dict[str, Any] = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": exclude_outside}
    agree_with_runtime("Resize", [X, None, f32(1, 1, 1.7, 0.6)], opset=13, **attributes)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_widens_the_filter(mode: str) -> None:
    """Shrinking by 0.4 against the reference; onnxruntime drops what lies outside at the borders."""
    agree("Resize", [X, None, f32(1, 1, 0.4, 0.5)], opset=19, mode=mode, antialias=1)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_region_of_interest(mode: str) -> None:
    """Inside the region, and the extrapolation value beyond the picture."""
    inputs = [X, f32(0, 0, 0.1, 0.2, 1, 1, 0.8, 1.3), None, i64(1, 2, 5, 4)]
    attributes: dict[str, Any] = {
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
        "mode": mode,
    }
    agree_with_runtime("Resize", inputs, opset=13, **attributes)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratio_policies(policy: str) -> None:
    """One factor for the axes named."""
    attributes: dict[str, Any] = {"axes": [3, 2], "keep_aspect_ratio_policy": policy}
    agree_with_runtime("Resize", [X, None, None, i64(9, 10)], opset=18, **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_uint8_pictures(mode: str) -> None:
    """Integers are interpolated as float32 and cut off."""
    x = sample((1, 2, 6, 7), np.uint8, high=250)
    agree_with_runtime("Resize", [x, None, f32(1, 1, 2, 2)], opset=13, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [(2.0, 3.0), (0.5, 0.6)], ids=str)
def test_version_10(scales: tuple[float, float], mode: str) -> None:
    agree_with_runtime("Resize", [X, f32(1, 1, *scales)], opset=10, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_upsample(mode: str) -> None:
    """Version 7 has the scales as attribute, version 9 as input."""
    agree_with_runtime("Upsample", [X], opset=7, mode=mode, scales=[1.0, 1.0, 2.0, 3.0])
    agree_with_runtime("Upsample", [X, f32(1, 1, 2, 1.5)], opset=9, mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_the_first_upsample_has_two_scales(mode: str) -> None:
    """Version 1 only knows pictures, and is the same as version 7 for them; onnxruntime has only that."""
    later = "linear" if mode == "bilinear" else mode
    (expected,) = runtime_outputs("Upsample", [X], opset=7, mode=later, scales=[1.0, 1.0, 2.0, 1.5])
    (y,) = run("Upsample", [X], opset=1, mode=mode, height_scale=2.0, width_scale=1.5)
    assert_close(y, expected)


@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.int64, np.float16, np.float64])
def test_the_first_upsample_takes_its_types(dtype: Any) -> None:
    x = np.arange(6).reshape(1, 1, 2, 3).astype(dtype)
    (y,) = run("Upsample", [x], opset=1, height_scale=2.0, width_scale=3.0)
    np.testing.assert_array_equal(y, x.repeat(2, axis=2).repeat(3, axis=3))
    assert y.dtype == dtype


def test_the_first_upsample_only_takes_pictures() -> None:
    """Two scales are those of the last two of four axes."""
    with pytest.raises(InvalidArgument, match=r"takes pictures of shape \(n, c, h, w\)[\s\S]*what to do"):
        run("Upsample", [X[0]], opset=1, height_scale=2.0, width_scale=2.0)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_the_deprecated_upsample_still_runs(mode: str) -> None:
    """Version 10 changed nothing but its status; onnxruntime no longer takes it."""
    (expected,) = runtime_outputs("Upsample", [X, f32(1, 1, 2, 1.5)], opset=9, mode=mode)
    (y,) = run("Upsample", [X, f32(1, 1, 2, 1.5)], opset=10, mode=mode)
    assert_close(y, expected)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_complex_numbers_are_resampled_part_by_part(mode: str, dtype: Any) -> None:
    """A weighted sum of complex numbers is that of their real and imaginary parts."""
    part = np.float32 if dtype == np.complex64 else np.float64
    real, imaginary = (sample((2, 3, 4), part, seed) for seed in (1, 2))
    inputs = [None, f32(1, 2, 0.75)]
    (y,) = run("Resize", [(real + 1j * imaginary).astype(dtype), *inputs], opset=13, mode=mode)
    parts = [run("Resize", [one, *inputs], opset=13, mode=mode)[0] for one in (real, imaginary)]
    assert_close(y, (parts[0] + 1j * parts[1]).astype(dtype))


def test_nothing_to_do_gives_a_copy() -> None:
    """An output never is its input."""
    (y,) = run("Resize", [X, None, f32(1, 1, 1, 1)], opset=13)
    np.testing.assert_array_equal(y, X)
    assert not np.shares_memory(y, X)


@pytest.mark.parametrize(
    ("inputs", "attributes", "text"),
    [
        ([X], {}, "Neither scales nor sizes are given"),
        ([X, None, f32(2, 2)], {}, "scales has 2 entries for 4 axes"),
        ([X, None, f32(1, 1, 0, 2)], {}, "every entry must be positive"),
        ([X, None, f32(1, 1, 2, 2)], {"mode": "area"}, "mode is 'area'"),
        ([X, None, f32(1, 1, 2, 2)], {"nearest_mode": "up"}, "nearest_mode is 'up'"),
        ([X, None, f32(1, 1, 2, 2)], {"coordinate_transformation_mode": "x"}, "coordinate_transformation_mode is 'x'"),
        (
            [X, f32(0, 1), f32(1, 1, 2, 2)],
            {"coordinate_transformation_mode": "tf_crop_and_resize"},
            "roi has 2 entries instead of 8",
        ),
        ([X[:, :, :0], None, None, i64(1, 2, 3, 3)], {}, "has nothing to resample to [1, 2, 3, 3]"),
        (
            [X[:, :, :0], None, None, i64(1, 2, 3, 3)],
            {"keep_aspect_ratio_policy": "not_larger"},
            "cannot keep an aspect ratio: an axis is empty",
        ),
        ([X.astype(object), None, f32(1, 1, 2, 2)], {"mode": "cubic"}, "nothing between them for mode 'cubic'"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("Resize", inputs, opset=19, **attributes)


@pytest.mark.parametrize(
    ("coordinates", "rounding", "size", "target"),
    [
        ("asymmetric", "round_prefer_ceil", 7, 4),
        ("asymmetric", "round_prefer_ceil", 7, 2),
        ("asymmetric", "round_prefer_floor", 11, 26),
        ("half_pixel", "round_prefer_ceil", 14, 1),
        ("half_pixel", "round_prefer_floor", 14, 19),
    ],
)
def test_positions_halfway_between_pixels_are_found(coordinates: str, rounding: str, size: int, target: int) -> None:
    """Positions that follow from sizes are quotients of whole numbers, which the oracle computes with."""
    wanted = []
    for place in range(target):
        position = Fraction(place * size, target)
        if coordinates == "half_pixel":
            position = Fraction((2 * place + 1) * size, 2 * target) - Fraction(1, 2)
        half = Fraction(1, 2)
        nearest = math.floor(position + half) if rounding.endswith("ceil") else math.ceil(position - half)
        wanted.append(min(max(nearest, 0), size - 1))
    inputs = [np.arange(size, dtype=np.float32)[None, None], None, None, i64(1, 1, target)]
    attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
    (found,) = run("Resize", inputs, opset=19, **attributes)
    np.testing.assert_array_equal(found.ravel(), wanted)


@pytest.mark.parametrize("opset", [11, 19])
def test_the_border_keeps_its_infinities(opset: int) -> None:
    """The last row is read by both taps of linear interpolation, of which one would have a weight of 0."""
    x = X.copy()
    x[0, 1, -1, 3], x[0, 0, 0, 0] = np.inf, -np.inf
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    (found,) = run("Resize", [x, EMPTY, EMPTY, i64(1, 2, 9, 5)], opset=opset, **attributes)
    assert np.isposinf(found[0, 1, -1]).any()
    assert np.isneginf(found[0, 0, 0, 0])
    assert not np.isnan(found).any()
