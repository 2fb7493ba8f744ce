"""Rows of Resize and Upsample: a matrix of weights for each axis, entry by entry as the specification has them.

Scales are such that positions are exact in float32: a position that falls exactly between two pixels is a matter of
the last bit otherwise. For the same reason weights of doubles and integers are exact too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor
from typing import Any

import numpy as np

from .row import Draw, Given, Row, as_type, is_floating, wide

__all__ = ["ROWS"]

_ROUND: dict[str, Callable[[float], int]] = {
    "round_prefer_floor": lambda x: ceil(x - 0.5),
    "round_prefer_ceil": lambda x: floor(x + 0.5),
    "floor": floor,
    "ceil": ceil,
}


def _position(mode: str, i: int, size: int, out: int, scale: float, roi: tuple[float, float]) -> float:
    """Place of output pixel `i` on the input; onnxruntime leaves an axis of scale 1 alone in every mode but one."""
    if scale == 1 and size == out and mode != "tf_crop_and_resize":
        return float(i)
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        return i * (size - 1) / (out - 1) if out > 1 else 0.0
    if mode == "pytorch_half_pixel":
        return (i + 0.5) / scale - 0.5 if out > 1 else 0.0
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - out / (scale * size)) + (i + 0.5) / scale - 0.5
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = (one * (size - 1) for one in roi)
        return start + i * (end - start) / (out - 1) if out > 1 else 0.5 * (start + end)
    return (i + 0.5) / scale - 0.5


def _cubic(distance: float, a: float) -> float:
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def _weights(x: float, size: int, attributes: dict[str, Any]) -> Any:
    """One output pixel's weights of all input pixels."""
    row = np.zeros(size)
    mode = attributes.get("mode", "nearest")
    if mode == "nearest":
        round_ = _ROUND[attributes.get("nearest_mode", "round_prefer_floor")]
        row[min(max(round_(x), 0), size - 1)] = 1
        return row
    reach = 2 if mode == "cubic" else 1
    for tap in range(floor(x) - reach + 1, floor(x) + reach + 1):
        part = _cubic(x - tap, attributes.get("cubic_coeff_a", -0.75)) if mode == "cubic" else max(0, 1 - abs(x - tap))
        if not attributes.get("exclude_outside") or 0 <= tap < size:
            row[min(max(tap, 0), size - 1)] += part
    return row / row.sum()


def _resampled(
    x: Any, plans: Sequence[tuple[int, int, float, tuple[float, float]]], coordinates: str, attributes: dict[str, Any]
) -> Any:
    """`x` with each (axis, size, scale, region) resampled, in its own type where pixels are only picked."""
    picked = attributes.get("mode", "nearest") == "nearest"
    y = x if picked else x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    outside = []
    for axis, out, scale, roi in plans:
        size = x.shape[axis]
        places = [_position(coordinates, i, size, out, scale, roi) for i in range(out)]
        matrix = np.array([_weights(place, size, attributes) for place in places]).reshape(out, size)
        if picked:
            y = np.take(y, matrix.argmax(axis=1), axis)
        else:
            y = np.moveaxis(np.tensordot(matrix, y, (1, axis)), 0, axis)
        if coordinates == "tf_crop_and_resize":
            outside.append((axis, [not 0 <= place <= size - 1 for place in places]))
    for axis, beyond in outside:
        y = np.moveaxis(y.copy(), axis, 0)
        y[np.array(beyond, np.bool_)] = attributes.get("extrapolation_value", 0.0)
        y = np.moveaxis(y, 0, axis)
    if x.dtype.kind in "iu" and not picked:
        return np.clip(np.trunc(y), np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    return y


def _interpolable(dtype: Any) -> bool:
    return is_floating(dtype) or dtype.kind in "iuc"


def _attributes(d: Draw) -> tuple[str, dict[str, Any]]:
    """Mode, coordinates and what belongs to them."""
    inexact = is_floating(d.dtype) and d.dtype != np.float64
    modes = ["nearest", "linear", "cubic"] if _interpolable(d.dtype) else ["nearest"]
    attributes: dict[str, Any] = {"mode": d.pick(modes)} if d.flag() else {}
    picked = attributes.get("mode", "nearest") == "nearest"
    known = ["half_pixel", "pytorch_half_pixel", "asymmetric"]
    if d.version >= 19:
        known.append("half_pixel_symmetric")
    if d.version == 11:
        known.append("tf_half_pixel_for_nn")
    if inexact and not picked:
        known += ["align_corners", "tf_crop_and_resize"]
    coordinates = d.pick(known)
    if coordinates != "half_pixel":
        attributes["coordinate_transformation_mode"] = coordinates
    if picked and d.flag():
        attributes["nearest_mode"] = d.pick(list(_ROUND))
    if attributes.get("mode") == "cubic":
        attributes |= {"cubic_coeff_a": -0.5} if d.flag() else {}
        attributes |= {"exclude_outside": 1} if inexact and d.flag() else {}
    if coordinates == "tf_crop_and_resize" and d.flag():
        attributes["extrapolation_value"] = 9.0
    return coordinates, attributes


def _resize(d: Draw) -> Given:
    coordinates, attributes = _attributes(d)
    inexact = is_floating(d.dtype) and d.dtype != np.float64
    rank = d.integer(1, 3)
    by_size = bool(d.flag())
    x = d.array([d.pick((1, 2, 4) if by_size else (1, 2, 3, 4)) for _ in range(rank)], special=False)
    axes = list(range(rank))
    if d.version >= 18 and d.flag():
        axes = axes[d.integer(0, rank - 1) :][::-1]
        attributes["axes"] = [axis - d.pick((0, rank)) for axis in axes]
    factors = [d.pick((0.5, 1.0, 2.0, 4.0, 0.75, 3.0) if inexact else (0.5, 1.0, 2.0, 4.0)) for _ in axes]
    sizes = [max(1, int(x.shape[axis] * factor)) for axis, factor in zip(axes, factors, strict=True)]
    if by_size:
        factors = [size / x.shape[axis] for axis, size in zip(axes, sizes, strict=True)]
        if d.version >= 18 and coordinates != "tf_crop_and_resize":
            policy = attributes["keep_aspect_ratio_policy"] = d.pick(("stretch", "not_larger", "not_smaller"))
            if policy != "stretch":
                factor = (min if policy == "not_larger" else max)(factors)
                factors = [factor] * len(axes)
    made = [int(x.shape[axis] * factor + (0.5 if by_size else 0)) for axis, factor in zip(axes, factors, strict=True)]
    # Fractions whose positions on small pictures are never exactly on their border.
    crops = [d.pick(((-0.31, 1.23), (0.1, 0.7))) for _ in axes]
    roi = np.array(crops).T.reshape(-1).astype(d.other("T2"))
    regions = wide(roi).reshape(2, -1).T
    plans = [(a, out, f, (float(s), float(e))) for a, out, f, (s, e) in zip(axes, made, factors, regions, strict=True)]
    y = _resampled(x, plans, coordinates, attributes)
    empty = np.zeros(0, np.float32) if d.version == 11 else None
    scales = empty if by_size else np.array(factors, np.float32)
    inputs = [x, roi if coordinates == "tf_crop_and_resize" or d.version == 11 else None, scales]
    if by_size:
        inputs.append(np.array(sizes, np.int64))
    return Given(inputs, attributes, [as_type(y, d.dtype)])


def _first(d: Draw) -> Given:
    """Resize 10 and Upsample: asymmetric, and the pixel below."""
    attributes: dict[str, Any] = {}
    if _interpolable(d.dtype) and d.flag():
        attributes["mode"] = d.pick(("nearest", "bilinear" if d.version == 1 else "linear"))
    rank = 4 if d.version == 1 else d.integer(1, 4)
    x = d.array([d.integer(1, 3) for _ in range(rank)], special=False)
    allowed = (1.0, 2.0, 4.0) if d.op_type == "Upsample" else (0.5, 1.0, 2.0, 4.0)
    # Pictures have two axes to resize; onnxruntime and torch know no other form of these first versions.
    factors = [1.0] * max(0, rank - 2) + [d.pick(allowed) for _ in range(min(rank, 2))]
    rule = {"mode": attributes.get("mode", "nearest").removeprefix("bi"), "nearest_mode": "floor"}
    plans = [(axis, int(x.shape[axis] * factor), factor, (0.0, 1.0)) for axis, factor in enumerate(factors)]
    y = as_type(_resampled(x, plans, "asymmetric", rule), d.dtype)
    if d.op_type == "Upsample" and d.version == 1:
        attributes |= {"height_scale": factors[2], "width_scale": factors[3]}
    elif d.op_type == "Upsample" and d.version == 7:
        attributes["scales"] = factors
    else:
        return Given([x, np.array(factors, np.float32)], attributes, [y])
    return Given([x], attributes, [y])


ROWS = [
    Row("Resize", _first, until=10),
    Row("Resize", _resize, since=11, variable="T1"),
    Row("Upsample", _first),
]
