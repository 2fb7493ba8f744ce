"""Rows of operators on pictures and boxes: loops over positions, written from the specification.

RoiAlign and MaxRoiPool, whose rules are an implementation's, are compared with onnxruntime: in float64 rounded once, or
in float32, where a maximum is exact.
"""

from __future__ import annotations

from itertools import product
from math import floor
from typing import Any

import numpy as np

from ort_py.dtypes import DataType

from ..runtime_oracle import runtime_outputs
from ..vision.test_deform_conv import one_by_one, out_sizes
from .row import Draw, Given, Row, as_type, is_floating, wide

__all__ = ["ROWS"]


def _cubic(distance: float) -> float:
    d = abs(distance)
    return 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * d**3 + 3.75 * d**2 - 6 * d + 3


def _reflected(x: float, low: float, high: float) -> float:
    """Folded back from both borders until inside."""
    if high <= low:
        return 0.0
    while x < low or x > high:
        x = 2 * low - x if x < low else 2 * high - x
    return x


def _taps(place: float, size: int, mode: str, padding: str, align: int) -> list[tuple[int, float]]:
    """Pixels of one axis and their weights; none where a pixel lies outside and counts as 0."""
    x = (place + 1) / 2 * (size - 1) if align else ((place + 1) * size - 1) / 2
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    if mode == "nearest":
        x = float(np.rint(x))
    if padding != "zeros" and not low <= x <= high:
        x = min(max(x, 0.0), size - 1.0) if padding == "border" else _reflected(x, low, high)
    if mode == "nearest":
        taps = [(int(x), 1.0)]
    elif mode == "linear":
        taps = [(floor(x), floor(x) + 1 - x), (floor(x) + 1, x - floor(x))]
    else:
        taps = [(floor(x) + step, _cubic(x - floor(x) - step)) for step in (-1, 0, 1, 2)]
    if padding == "zeros":
        return [(index, weight) for index, weight in taps if 0 <= index < size]
    if padding == "reflection":
        taps = [(int(_reflected(index, low, high)), weight) for index, weight in taps]
    return [(min(max(index, 0), size - 1), weight) for index, weight in taps]


def _grid_sample(d: Draw) -> Given:
    """Positions of quarters, which are exact; strings, bools and complex numbers are only picked."""
    modes = {"nearest": "nearest"}
    if is_floating(d.dtype) or d.dtype.kind in "iu":
        modes["linear"] = "bilinear" if d.version == 16 else "linear"
    if is_floating(d.dtype):
        modes["cubic"] = "bicubic" if d.version == 16 else "cubic"
    mode, padding, align = d.pick(list(modes)), d.pick(("zeros", "border", "reflection")), d.flag()
    rank = 2 if d.version == 16 else d.integer(1, 3)
    size, out = [d.integer(1, 3) for _ in range(rank)], [d.integer(0, 2) for _ in range(rank)]
    batch, channels = d.integer(0, 2), d.integer(1, 2)
    x = d.array((batch, channels, *size), special=False)
    grid = (d.array((batch, *out, rank), np.int64, low=-8, high=8, special=False) / 4).astype(d.other("T2"))
    made = np.empty((batch, channels, *out), d.dtype if mode == "nearest" else np.float64)
    for n, c, place in product(range(batch), range(channels), np.ndindex(*out)):
        position = [float(one) for one in grid[(n, *place)]][::-1]  # the innermost axis comes first
        total: Any = "" if d.dtype.kind == "O" else np.zeros((), made.dtype)
        for taps in product(*(_taps(p, s, mode, padding, align) for p, s in zip(position, size, strict=True))):
            value = x[(n, c, *(index for index, _ in taps))]
            weight = float(np.prod([weight for _, weight in taps]))
            total = value if mode == "nearest" else total + float(value) * weight
        made[(n, c, *place)] = total
    attributes = {"mode": modes[mode], "padding_mode": padding, "align_corners": align}
    if d.dtype.kind in "iu":
        made = np.trunc(made)
    return Given([x, grid], attributes, [as_type(made, d.dtype)])


def _deform_conv(d: Draw) -> Given:
    """Groups of channels and of offsets, bias and mask; kept small, because the definition is a loop of loops."""
    rank = d.integer(1, 2)
    kernel = [d.integer(1, 2) for _ in range(rank)]
    options: dict[str, Any] = {
        "strides": [d.integer(1, 2) for _ in range(rank)],
        "dilations": [d.integer(1, 2) for _ in range(rank)],
        "pads": [d.integer(0, 1) for _ in range(2 * rank)],
        "group": d.integer(1, 2),
        "offset_group": d.integer(1, 2),
    }
    batch, filters, channels, size = d.integer(0, 2), 2, 2, [d.integer(3, 4) for _ in range(rank)]
    out = out_sizes(size, kernel, options)
    taps = options["offset_group"] * int(np.prod(kernel))
    x = d.array((batch, channels, *size), special=False)
    w = d.array((filters, channels // options["group"], *kernel), special=False)
    offset = d.array((batch, taps * rank, *out), special=False)
    bias = d.array((filters,), special=False) if d.flag() else None
    mask = d.array((batch, taps, *out), special=False) if d.flag() else None
    every = np.zeros(filters) if bias is None else wide(bias)
    shown = np.ones((batch, taps, *out)) if mask is None else wide(mask)
    made = np.zeros((0, filters, *out))
    if batch:
        made = one_by_one(wide(x), wide(w), wide(offset), every, shown, options)
    return Given([x, w, offset, bias, mask], options, [as_type(made, d.dtype)])


def _regions(d: Draw, count: int) -> Any:
    """Corners in order, in quarters, inside and outside a map of four by five."""
    low = d.array((count, 2), np.int64, low=-8, high=16, special=False)
    extent = d.array((count, 2), np.int64, low=1, high=20, special=False)
    return np.concatenate((low, low + extent), axis=1) / 4


def _roi_align(d: Draw) -> Given:
    x, count = d.array((2, 2, 4, 5), special=False), d.integer(0, 3)
    rois = _regions(d, count).astype(d.dtype)
    which = d.array((count,), np.int64, low=0, high=1, special=False)
    attributes: dict[str, Any] = {"mode": d.pick(("avg", "max")), "sampling_ratio": d.integer(0, 2)}
    attributes |= {
        "output_height": d.integer(1, 3),
        "output_width": d.integer(1, 2),
        "spatial_scale": d.pick((1.0, 0.5)),
    }
    if d.version >= 16:
        attributes["coordinate_transformation_mode"] = d.pick(("half_pixel", "output_half_pixel"))
    inputs = [wide(x).astype(np.float64), wide(rois).astype(np.float64), which]
    made = runtime_outputs("RoiAlign", inputs, opset=min(d.version, 16), **attributes)
    return Given([x, rois, which], attributes, [as_type(made[0], d.dtype)])


def _max_roi_pool(d: Draw) -> Given:
    count = d.integer(1, 3)
    narrow = np.float32 if d.dtype == np.float64 else d.dtype  # what onnxruntime can hold
    x = d.array((2, 2, 4, 5), narrow, special=False).astype(d.dtype)
    which = d.array((count, 1), np.int64, low=0, high=1, special=False)
    rois = np.concatenate((which, _regions(d, count)), axis=1).astype(d.dtype)
    attributes: dict[str, Any] = {
        "pooled_shape": [d.integer(1, 3), d.integer(1, 2)],
        "spatial_scale": d.pick((1.0, 0.5)),
    }
    inputs = [x.astype(np.float32), rois.astype(np.float32)]
    made = runtime_outputs("MaxRoiPool", inputs, opset=16, **attributes)
    return Given([x, rois], attributes, [as_type(made[0], d.dtype)])


def _max_unpool(d: Draw) -> Given:
    """Each value at its place in the flattened tensor of the shape that kernel, strides and pads give back."""
    rank = d.integer(1, 3)
    pooled = [d.integer(1, 2) for _ in range(rank)]
    kernel, strides = ([d.integer(2, 3) for _ in range(rank)] for _ in range(2))
    pads = [d.integer(0, 1) for _ in range(2 * rank)] if d.flag() else [0] * 2 * rank
    out = [(pooled[i] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i in range(rank)]
    if any(size < one for size, one in zip(out, pooled, strict=True)):
        pads, out = [0] * 2 * rank, [(p - 1) * s + k for p, s, k in zip(pooled, strides, kernel, strict=True)]
    shape = (d.integer(0, 2), d.integer(1, 2), *pooled)
    x = d.array(shape)
    total = int(np.prod((*shape[:2], *out)))
    places = np.random.default_rng(d.integer(0, 999)).permutation(total)[: x.size].reshape(shape).astype(np.int64)
    made = np.zeros(total, d.dtype)
    for place, value in zip(places.reshape(-1), x.reshape(-1), strict=True):
        made[place] = value
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    return Given([x, places], attributes, [made.reshape(*shape[:2], *out)])


def _overlap(one: Any, other: Any) -> float:
    """Intersection over union of two boxes of corners in any order."""
    sides = []
    areas = [1.0, 1.0]
    for axis in range(2):
        spans = [sorted((float(box[axis]), float(box[axis + 2]))) for box in (one, other)]
        sides.append(max(0.0, min(span[1] for span in spans) - max(span[0] for span in spans)))
        areas = [area * (span[1] - span[0]) for area, span in zip(areas, spans, strict=True)]
    common = sides[0] * sides[1]
    return common / (sum(areas) - common) if common else 0.0


def _non_max_suppression(d: Draw) -> Given:
    """Box by box: the best score first, those that overlap a chosen one too much left out; quarters are exact."""
    batch, classes, count = d.integer(1, 2), d.integer(1, 2), d.integer(0, 6)
    start = d.array((batch, count, 2), np.int64, low=0, high=12, special=False) / 4
    extent = d.array((batch, count, 2), np.int64, low=1, high=12, special=False) / 4
    corners = np.concatenate((start, start + extent), axis=2)
    if d.flag():
        corners = corners[..., [2, 3, 0, 1]]
    centred = d.flag()
    boxes = np.concatenate((start + extent / 2, extent), axis=2) if centred else corners
    scores = d.array((batch, classes, count), np.float32, low=0, high=1, special=False)
    most, iou, least = d.integer(0, 4), d.pick((0.0, 0.3, 0.6)), d.pick((None, 0.4))
    made = []
    for n, c in product(range(batch), range(classes)):
        chosen: list[int] = []
        for index in np.argsort(-scores[n, c], kind="stable"):
            fits = least is None or scores[n, c, index] > least
            if fits and len(chosen) < most and all(_overlap(corners[n, index], corners[n, i]) <= iou for i in chosen):
                chosen.append(int(index))
        made += [[n, c, index] for index in chosen]
    inputs = [boxes.astype(np.float32), scores, np.array([most], np.int64), np.array([iou], np.float32)]
    inputs += [] if least is None else [np.array([least], np.float32)]
    return Given(inputs, {"center_point_box": centred}, [np.array(made, np.int64).reshape(-1, 3)])


def _center_crop_pad(d: Draw) -> Given:
    """Each axis cut or filled around its middle; where that is between two elements, the end gets the odd one."""
    shape = d.shape(1, 3)
    x = d.array(shape)
    axes = list(range(x.ndim))[d.integer(0, x.ndim - 1) :]
    attributes = {"axes": [axis - d.pick((0, x.ndim)) for axis in axes]} if len(axes) < x.ndim or d.flag() else {}
    wanted = [d.integer(0, 5) for _ in axes]
    y = x
    for axis, size in zip(axes, wanted, strict=True):
        held = y.shape[axis]
        if size < held:
            start = (held - size) // 2
            y = y.take(range(start, start + size), axis)
        elif size > held:
            made = np.full((*y.shape[:axis], size, *y.shape[axis + 1 :]), "" if d.dtype.kind == "O" else 0, d.dtype)
            start = (size - held) // 2
            made[(slice(None),) * axis + (slice(start, start + held),)] = y
            y = made
    return Given([x, np.array(wanted, d.other("Tind"))], attributes, [y])


def _col_2_im(d: Draw) -> Given:
    """Each column's elements added to the places that its block was taken from."""
    rank = d.integer(1, 2)
    block, strides, dilations = ([d.integer(1, 2) for _ in range(rank)] for _ in range(3))
    pads = [d.integer(0, 1) for _ in range(2 * rank)]
    image = [(block[i] - 1) * dilations[i] + 1 + d.integer(0, 2) for i in range(rank)]
    counts = out_sizes(image, block, {"strides": strides, "dilations": dilations, "pads": pads})
    batch, channels = d.integer(0, 2), d.integer(1, 2)
    x = d.array((batch, channels * int(np.prod(block)), int(np.prod(counts))), special=False)
    values = wide(x).reshape(batch, channels, *block, *counts)
    made = np.zeros((batch, channels, *image), values.dtype)
    for tap, place in product(np.ndindex(*block), np.ndindex(*counts)):
        pixel = tuple(place[i] * strides[i] + tap[i] * dilations[i] - pads[i] for i in range(rank))
        if all(0 <= one < size for one, size in zip(pixel, image, strict=True)):
            made[(slice(None), slice(None), *pixel)] += values[(slice(None), slice(None), *tap, *place)]
    attributes = {"strides": strides, "dilations": dilations, "pads": pads}
    return Given([x, np.array(image), np.array(block)], attributes, [as_type(made, d.dtype)])


ROWS = [
    Row("CenterCropPad", _center_crop_pad),
    Row("Col2Im", _col_2_im, without=frozenset((DataType.BOOL, DataType.STRING))),  # which have no sums
    Row("GridSample", _grid_sample, variable="T1"),
    Row("DeformConv", _deform_conv),
    Row("RoiAlign", _roi_align, variable="T1"),
    Row("MaxRoiPool", _max_roi_pool),
    Row("MaxUnpool", _max_unpool, variable="T1"),
    Row("NonMaxSuppression", _non_max_suppression, variable=None),
]
