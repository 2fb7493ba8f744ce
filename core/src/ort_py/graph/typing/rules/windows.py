"""Convolutions, pools, and resizing."""

from __future__ import annotations

from math import floor

import numpy as np

from ort_py.dtypes import DataType, Dim, Shape, TensorType
from ort_py.graph.typing.rules.question import LARGEST, Answer, Question, Rule, Uncovered, unknown_sizes


def _windows(question: Question, sizes: Shape) -> tuple[list[int], list[int], list[int]] | None:
    """Reach, strides and pads along each axis; None where the size of the kernel is not known.

    Args:
        sizes: The kernel's sizes, where no attribute has them.
    """
    kernel = question.integers("kernel_shape")
    if kernel is None:
        kernel = [size for size in sizes if isinstance(size, int)]
        if len(kernel) < len(sizes):
            return None
    rank = len(kernel)
    strides = question.integers("strides") or [1] * rank
    dilations = question.integers("dilations") or [1] * rank
    padding = question.attributes.get("auto_pad", "NOTSET")
    pads = question.integers("pads")
    if padding not in ("NOTSET", "VALID") or (padding == "VALID" and pads is not None):
        raise Uncovered
    pads = [0] * (2 * rank) if pads is None else pads
    if not len(strides) == len(dilations) == rank or len(pads) != 2 * rank or rank != len(sizes):
        raise Uncovered
    if min([*strides, *dilations, *kernel], default=1) < 1 or min(pads, default=0) < 0:
        raise Uncovered
    return [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)], strides, pads


def _slid(shape: Shape, windows: tuple[list[int], list[int], list[int]]) -> tuple[Dim, ...]:
    """Return the number of windows that fit along each axis."""
    reach, strides, pads = windows
    found: list[Dim] = []
    for axis, size in enumerate(shape):
        if not isinstance(size, int):
            found.append(None)
            continue
        room = size + pads[axis] + pads[axis + len(reach)] - reach[axis]
        if room < 0 or room > LARGEST:
            raise Uncovered
        found.append(room // strides[axis] + 1)
    return tuple(found)


def _convolution(question: Question) -> Answer:
    data_type = DataType.INT32 if question.op_type == "ConvInteger" else question.tensor(0).data_type
    source, weights = question.shape(0), question.shape(1)
    if source is None or weights is None:
        return [TensorType(data_type)]
    if len(source) < 3 or len(weights) != len(source):
        raise Uncovered
    windows = _windows(question, weights[2:])
    if windows is None:
        raise Uncovered
    return [TensorType(data_type, (source[0], weights[0], *_slid(source[2:], windows)))]


def _transposed_convolution(question: Question) -> Answer:
    data_type = question.tensor(0).data_type
    source, weights = question.shape(0), question.shape(1)
    if source is None or weights is None:
        return [TensorType(data_type)]
    if len(source) < 3 or len(weights) != len(source) or "output_shape" in question.attributes:
        raise Uncovered
    windows = _windows(question, weights[2:])
    group, channels = question.integer("group", 1), weights[1]
    if windows is None or not isinstance(channels, int) or group < 1:
        raise Uncovered
    if any(isinstance(size, int) and size % group for size in (source[1], weights[0])):
        raise Uncovered
    reach, strides, pads = windows
    rank = len(reach)
    more = question.integers("output_padding") or [0] * rank
    if len(more) != rank:
        raise Uncovered
    sizes: list[Dim] = []
    for axis, size in enumerate(source[2:]):
        made = None
        if isinstance(size, int):
            made = strides[axis] * (size - 1) + more[axis] + reach[axis] - pads[axis] - pads[axis + rank]
            if not 0 <= made <= LARGEST:
                raise Uncovered
        sizes.append(made)
    return [TensorType(data_type, (source[0], channels * group, *sizes))]


def _pool(question: Question) -> Answer:
    source = question.tensor(0)
    if source.shape is None:
        raise Uncovered
    if len(source.shape) < 3 or question.flag("ceil_mode", default=False) or "kernel_shape" not in question.attributes:
        raise Uncovered
    windows = _windows(question, source.shape[2:])
    assert windows is not None  # the attribute says
    shape = (*source.shape[:2], *_slid(source.shape[2:], windows))
    return [TensorType(source.data_type, shape), TensorType(DataType.INT64, shape)]


def _global_pool(question: Question) -> Answer:
    source = question.tensor(0)
    if source.shape is None:
        return [TensorType(source.data_type)]
    if len(source.shape) < 3:
        raise Uncovered
    return [TensorType(source.data_type, (*source.shape[:2], *[1] * (len(source.shape) - 2)))]


def _resize(question: Question) -> Answer:
    source = question.tensor(0)
    if source.shape is None:
        return [TensorType(source.data_type)]
    if "axes" in question.attributes or "keep_aspect_ratio_policy" in question.attributes:
        raise Uncovered
    place = 1 if question.version < 11 else 2
    rank = len(source.shape)
    scales = question.values(place) if question.is_given(place) else []
    if question.is_given(place + 1):
        sizes = question.numbers(place + 1)
        if scales or scales is None or sizes is None or len(sizes) != rank or min(sizes) < 1 or max(sizes) > LARGEST:
            raise Uncovered
        return [TensorType(source.data_type, tuple(sizes))]
    if scales is None:
        return [TensorType(source.data_type, unknown_sizes(rank))]
    numbers = [size for size in source.shape if isinstance(size, int)]
    if len(scales) != rank or not all(0 <= scale * max(numbers, default=1) <= LARGEST for scale in scales):
        raise Uncovered
    found: list[Dim] = []
    for size, scale in zip(source.shape, scales, strict=True):
        found.append(floor(size * float(np.float32(scale))) if isinstance(size, int) else None)
    if any(isinstance(size, int) and size > LARGEST for size in found):
        raise Uncovered
    return [TensorType(source.data_type, tuple(found))]


RULES: dict[str, tuple[int, Rule]] = {
    "Conv": (1, _convolution),
    "ConvInteger": (10, _convolution),
    "ConvTranspose": (1, _transposed_convolution),
    **dict.fromkeys(("AveragePool", "MaxPool"), (1, _pool)),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), (1, _global_pool)),
    "Resize": (10, _resize),
}
"""The rule of each operator, and the version of its schema from which on it holds."""
