"""Products, convolutions, pooling, resizing, and weights that are kept in 8 bits.

Core AI's convolutions and pools have two or three axes and no padding: data with one axis gets another one of size 1,
and padding is an operator of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import coreai.authoring as ai
import numpy as np
from coreai.authoring.constant import constant

from ort_py_coreml.core_ai.elementwise import floor
from ort_py_coreml.core_ai.movement import expand_dims, reshape, split, take, transpose
from ort_py_coreml.core_ai.values import Var, filled, known, numbers, shape_of, sizes_of, without_axes

__all__ = ["FUNCTIONS"]

_ZERO = np.float32(0)
_Sizes = Sequence[int]


def _matmul(x: Var, y: Var, transpose_x: bool = False, transpose_y: bool = False) -> Var:
    return ai.broadcasting_batch_matmul(_turned(x) if transpose_x else x, _turned(y) if transpose_y else y)


def _turned(x: Var) -> Var:
    rank = len(shape_of(x))
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _padded(x: Var, pad: _Sizes, number: Any) -> Var:
    """Pad the axes behind the channels."""
    return ai.pad(x, np.array([0, 0, 0, 0, *pad], np.uint32), number) if any(pad) else x


def _unsigned(*given: int) -> Any:
    return np.array(given, np.uint32)


def _with_bias(x: Var, bias: Var | None) -> Var:
    if bias is None:
        return x
    return ai.broadcasting_add(x, reshape(bias, [1, -1] + [1] * (len(shape_of(x)) - 2)))


def _conv(
    x: Var,
    weight: Var,
    strides: _Sizes,
    pad: _Sizes,
    dilations: _Sizes,
    groups: int,
    pad_type: str = "custom",
    bias: Var | None = None,
) -> Var:
    x = _padded(x, pad, _ZERO)
    flat = len(strides) == 1
    if flat:
        x, weight = expand_dims(x, [2]), expand_dims(weight, [2])
        strides, dilations = [1, *strides], [1, *dilations]
    function = ai.conv2d if len(strides) == 2 else ai.conv3d
    found = function(x, weight, _unsigned(*strides), _unsigned(*dilations), np.uint32(groups))
    return _with_bias(without_axes(found, [2]) if flat else found, bias)


def _conv_transpose(
    x: Var,
    weight: Var,
    strides: _Sizes,
    pad: _Sizes,
    dilations: _Sizes,
    groups: int,
    pad_type: str = "custom",
    bias: Var | None = None,
) -> Var:
    """Compute the whole result, and cut the padding off."""
    kernel, image = sizes_of(weight)[2:], shape_of(x)[2:]
    channels = sizes_of(weight)[1] * groups
    flat = len(kernel) == 1
    if flat:
        x, weight = expand_dims(x, [2]), expand_dims(weight, [2])
        kernel, image = (1, *kernel), (1, *image)
        strides, dilations, pad = [1, *strides], [1, *dilations], [0, 0, *pad]
    whole = [
        (size - 1) * stride + (window - 1) * dilation + 1
        for size, stride, window, dilation in zip(known(image), strides, kernel, dilations, strict=True)
    ]
    zeros = [0] * len(kernel)
    function = ai.conv_transpose2d if len(kernel) == 2 else ai.conv_transpose3d
    found = function(
        x, weight, _unsigned(*strides), _unsigned(*zeros), _unsigned(*dilations), _unsigned(*zeros), np.uint32(groups)
    )
    found = reshape(found, [-1, channels, *whole])
    if any(pad):
        behind = [size - after for size, after in zip(whole, pad[1::2], strict=True)]
        far = 2**31 - 1
        found = ai.slice_(
            found, numbers(0, 0, *pad[::2]), numbers(far, far, *behind), numbers(*[1] * (2 + len(kernel)))
        )
    return _with_bias(without_axes(found, [2]) if flat else found, bias)


def _max_pool(x: Var, kernel_sizes: _Sizes, strides: _Sizes, pad: _Sizes, pad_type: str = "custom") -> Var:
    x = _padded(x, pad, np.float32(-np.inf))
    flat = len(kernel_sizes) == 1
    if flat:
        x, kernel_sizes, strides = expand_dims(x, [2]), [1, *kernel_sizes], [1, *strides]
    batch, channels, *image = shape_of(x)
    result = [batch, channels, *_places(image, kernel_sizes, strides)]
    function = ai.maxpool2d if len(kernel_sizes) == 2 else ai.maxpool3d
    found = function(
        ai.TensorType([-1 if size is None else size for size in result], np.float32),
        x,
        _unsigned(*kernel_sizes),
        _unsigned(*strides),
        _unsigned(*[1] * len(strides)),
        np.bool_(False),
    )
    return without_axes(found, [2]) if flat else found


def _places(image: Sequence[int | None], kernel: _Sizes, strides: _Sizes) -> list[int | None]:
    return [
        None if size is None else (size - window) // stride + 1
        for size, window, stride in zip(image, kernel, strides, strict=True)
    ]


def _avg_pool(
    x: Var,
    kernel_sizes: _Sizes,
    strides: _Sizes,
    pad: _Sizes,
    exclude_padding_from_average: bool,
    pad_type: str = "custom",
) -> Var:
    count: Var = np.float32(math.prod(kernel_sizes))
    if exclude_padding_from_average and any(pad):
        count = _sums(filled(x, np.float32(1)), kernel_sizes, strides, pad)
    return ai.broadcasting_divide(_sums(x, kernel_sizes, strides, pad), count)


def _sums(x: Var, kernel: _Sizes, strides: _Sizes, pad: _Sizes) -> Var:
    x = _padded(x, pad, _ZERO)
    flat = len(kernel) == 1
    if flat:
        x, kernel, strides = expand_dims(x, [2]), [1, *kernel], [1, *strides]
    function = ai.sumpool2d if len(kernel) == 2 else ai.sumpool3d
    ones = constant(_unsigned(*[1] * len(kernel)))  # Core AI makes no constant of this operand itself
    found = function(x, _unsigned(*kernel), _unsigned(*strides), ones)
    return without_axes(found, [2]) if flat else found


def _upsample_nearest_neighbor(x: Var, scale_factor_height: int, scale_factor_width: int) -> Var:
    for axis, scale in ((2, scale_factor_height), (3, scale_factor_width)):
        (size,) = known(shape_of(x)[axis : axis + 1])
        x = take(x, np.repeat(np.arange(size, dtype=np.int32), scale), axis)
    return x


def _resize_bilinear(x: Var, target_size_height: int, target_size_width: int, sampling_mode: str) -> Var:
    """Take both neighbours of each place, one axis after the other, with weights that are computed here."""
    for axis, wanted in ((2, target_size_height), (3, target_size_width)):
        (size,) = known(shape_of(x)[axis : axis + 1])
        places = np.arange(wanted, dtype=np.float32)
        if sampling_mode == "STRICT_ALIGN_CORNERS":
            places *= np.float32(size - 1) / np.float32(max(wanted - 1, 1))
        else:
            half = np.float32(0.5 if sampling_mode == "UNALIGN_CORNERS" else 0)
            places = (places + half) * np.float32(size / wanted) - half
        places = np.clip(places, 0, size - 1)
        low = np.floor(places).astype(np.int32)
        high = np.minimum(low + 1, size - 1)
        weight = (places - low).astype(np.float32).reshape([-1 if place == axis else 1 for place in range(4)])
        near, far = take(x, low, axis), take(x, high, axis)
        x = ai.broadcasting_add(ai.broadcasting_mul(near, 1 - weight), ai.broadcasting_mul(far, weight))
    return x


def _resample(
    x: Var,
    coordinates: Var,
    padding_mode: str,
    align_corners: bool,
    sampling_mode: str = "bilinear",
    padding_value: Any = _ZERO,
    coordinates_mode: str = "normalized_minus_one_to_one",
) -> Var:
    """Weigh the four elements around each place. Rows of an image are one axis, in which they have one number each."""
    channels, height, width = known(shape_of(x)[1:])
    rows, columns = known(shape_of(coordinates)[1:3])
    sides = [reshape(one, [-1, rows * columns]) for one in split(coordinates, 3, num_splits=2)]
    places = [
        _in_image(side, size, padding_mode, align_corners) for side, size in zip(sides, (width, height), strict=True)
    ]
    low = [floor(place) for place in places]
    image, total = reshape(x, [-1, channels, height * width]), None
    for down, right in product((0, 1), repeat=2):
        weights, inside = [], []
        for place, first, far, size in zip(places, low, (right, down), (width, height), strict=True):
            part = ai.broadcasting_sub(place, first)
            weight = part if far else ai.broadcasting_sub(np.float32(1), part)
            at = ai.broadcasting_add(first, np.float32(far))
            inner = ai.broadcasting_minimum(ai.broadcasting_maximum(at, _ZERO), np.float32(size - 1))
            weights.append(ai.broadcasting_where(ai.broadcasting_equal(at, inner), weight, _ZERO))
            inside.append(inner)
        number = ai.broadcasting_add(ai.broadcasting_mul(inside[1], np.float32(width)), inside[0])
        indices = expand_dims(ai.cast(number, np.int32), [1])
        taken = ai.gather_along_axis(image, ai.tile(indices, _unsigned(1, channels, 1)), np.int32(2))
        weight = expand_dims(ai.broadcasting_mul(*weights), [1])
        part = ai.broadcasting_mul(taken, weight)
        total = part if total is None else ai.broadcasting_add(total, part)
    return reshape(total, [-1, channels, rows, columns])


def _in_image(side: Var, size: int, padding_mode: str, align_corners: bool) -> Var:
    """Return the places of coordinates from -1 to 1, moved into the image if elements beyond it are those inside."""
    wide, shift = (size - 1, 0.0) if align_corners else (size, 0.5)
    scaled = ai.broadcasting_mul(ai.broadcasting_add(side, np.float32(1)), np.float32(wide / 2))
    place = ai.broadcasting_sub(scaled, np.float32(shift))
    last = np.float32(size - 1)
    if padding_mode == "reflection":
        span = np.float32(max(2 * (size - 1), 1))
        turns = floor(ai.broadcasting_divide(place, span))
        place = ai.broadcasting_sub(place, ai.broadcasting_mul(turns, span))
        place = ai.broadcasting_sub(last, ai.abs_(ai.broadcasting_sub(place, last)))
    if padding_mode == "constant":
        return place
    return ai.broadcasting_minimum(ai.broadcasting_maximum(place, _ZERO), last)


def _dequantize(quantized_data: Any, zero_point: Any, scale: Any, axis: Any) -> Var:
    """Keep 8 bits, unless a scale is not positive, which Core AI refuses."""
    scale, zero = np.asarray(scale), np.asarray(zero_point, quantized_data.dtype)
    if not np.all(scale > 0):
        shape = [-1 if place == axis else 1 for place in range(quantized_data.ndim)] if scale.ndim else ()
        away = quantized_data.astype(np.float32) - zero.reshape(shape).astype(np.float32)
        return away * scale.reshape(shape)
    places = np.int32(axis) if scale.ndim else numbers(*range(quantized_data.ndim))
    return ai.dequantize(quantized_data, scale, zero, np.zeros_like(scale), places)


def _dequantize_blocks(data: Any, scale: Any, offset: Any) -> Var:
    """Keep integers, unless a scale is not positive, which Core AI refuses."""
    if np.all(scale > 0):
        return ai.blockwise_shift_scale(_bytes(data), scale, _bytes(offset), np.zeros_like(scale))
    for axis, (size, count) in enumerate(zip(data.shape, scale.shape, strict=True)):
        scale, offset = (np.repeat(one, size // count, axis) for one in (scale, offset))
    return (data.astype(np.float32) - offset.astype(np.float32)) * scale


def _bytes(numbers: Any) -> Any:
    """Widen numbers of 4 bits, which Core AI's constants do not take from NumPy."""
    wide = {"int4": np.int8, "uint4": np.uint8}.get(numbers.dtype.name, numbers.dtype)
    return numbers.astype(wide)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "avg_pool": _avg_pool,
    "constexpr_affine_dequantize": _dequantize,
    "constexpr_blockwise_shift_scale": _dequantize_blocks,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "matmul": _matmul,
    "max_pool": _max_pool,
    "resample": _resample,
    "resize_bilinear": _resize_bilinear,
    "upsample_nearest_neighbor": _upsample_nearest_neighbor,
}
"""Functions of MIL by name."""
