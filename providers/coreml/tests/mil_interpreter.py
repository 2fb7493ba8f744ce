"""Computes ML programs with NumPy, after the documentation of MIL's operators.

Core ML itself runs on macOS only. Programs are walked as coremltools gives them, before they are converted or after
they were loaded from a package, so that the tests see what Core ML would read. `test_interpreter` compares these
functions with what coremltools computes for operators of constants.

https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import coremltools
import numpy as np
from coremltools.converters.mil.frontend.milproto.load import load
from coremltools.converters.mil.mil import types

from ort_py_coreml.runtime import Loading
from ort_py_coreml.toolkit import BUILDING

__all__ = ["InterpretedModel", "InterpretedRuntime", "evaluate", "loaded_program"]

Array = np.ndarray[Any, Any]


def loaded_program(package: Path) -> Any:
    """Return the program of a package."""
    with BUILDING:
        model = coremltools.models.MLModel(str(package), skip_model_load=True)
        spec = model.get_spec()
        return load(spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)


def evaluate(program: Any, feeds: Mapping[str, Array], states: dict[str, Array] | None = None) -> dict[str, Array]:
    """Compute the function `main` of a program, and change its states.

    Raises:
        KeyError: An operator is not known here.
    """
    function = program.functions["main"]
    states = {} if states is None else states
    names = {var: name for name, var in function.inputs.items() if types.is_state(var.sym_type)}
    values: dict[Any, Any] = {
        var: var if var in names else np.asarray(feeds[name]) for name, var in function.inputs.items()
    }

    def value(var: Any) -> Any:
        if isinstance(var, (list, tuple)):
            return [value(one) for one in var]
        return values[var] if var in values else var.val  # noqa: SIM401 - only constants have a value

    for operation in function.operations:
        if operation.op_type == "const":
            continue
        given = {name: value(var) for name, var in operation.inputs.items() if var is not None}
        if operation.op_type == "read_state":
            found = states[names[given["input"]]].copy()
        elif operation.op_type == "coreml_update_state":
            assert given["value"].dtype == np.float16, "the only type of Core ML's states"
            found = states[names[given["state"]]] = given["value"].copy()
        else:
            found = OPERATIONS[operation.op_type](**given)
        for var, result in zip(operation.outputs, found if isinstance(found, list) else [found], strict=True):
            declared = tuple(size if isinstance(size, int) else None for size in var.shape)
            assert all(size in (None, own) for size, own in zip(declared, np.shape(result), strict=True)), (
                f"{operation.op_type} gives {np.shape(result)} where the program says {var.shape}"
            )
            values[var] = result
    return {var.name: values[var] for var in function.outputs}


class InterpretedModel:
    """A package that is computed here."""

    def __init__(self, package: Path) -> None:
        self._program = loaded_program(package)

    def make_state(self) -> dict[str, Array]:
        """Return states of zeros."""
        inputs = self._program.functions["main"].inputs.items()
        return {name: np.zeros(var.shape, np.float16) for name, var in inputs if types.is_state(var.sym_type)}

    def predict(self, feeds: Mapping[str, Array], state: dict[str, Array] | None = None) -> Mapping[str, Array]:
        """Compute the package's program. Results are copies, as those of Core ML are."""
        for array in feeds.values():
            assert array.flags.writeable, "coremltools takes no array that is read-only"
            assert min(array.strides, default=0) >= 0, "Core ML knows no strides below zero"
        return {name: array.copy() for name, array in evaluate(self._program, feeds, state).items()}


class InterpretedRuntime:
    """Stands in for Core ML."""

    def __init__(self) -> None:
        self.loads: list[Loading] = []

    def load(self, package: Path, how: Loading) -> InterpretedModel:
        """Load a package, and note the options."""
        self.loads.append(how)
        return InterpretedModel(package)


def _axes(axes: Any, x: Array) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axes is None else tuple(int(axis) for axis in np.atleast_1d(axes))


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Array, axes: Any = None, keep_dims: Any = False) -> Array:
        return np.asarray(function(x, axis=_axes(axes, x), keepdims=bool(keep_dims)), x.dtype)

    return reduce


def _log_sum_exp(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    most = x.max(axis=axis, keepdims=True)
    found = np.log(np.exp(x - most).sum(axis=axis, keepdims=True)) + most
    return np.asarray(found if keepdims else found.squeeze(axis))


def _windows(x: Array, kernel: Any, strides: Any, dilations: Any, pad: Any, fill: float) -> Array:
    """All windows: batch, channels, place in the window, place of the window."""
    kernel, strides, dilations = ([int(one) for one in given] for given in (kernel, strides, dilations))
    pads = [(int(pad[2 * axis]), int(pad[2 * axis + 1])) for axis in range(len(kernel))]
    wide = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    spans = [(size - 1) * gap + 1 for size, gap in zip(kernel, dilations, strict=True)]
    places = [(size - span) // stride + 1 for size, span, stride in zip(wide.shape[2:], spans, strides, strict=True)]
    found = np.empty((*x.shape[:2], math.prod(kernel), *places), x.dtype)
    for number, offset in enumerate(product(*map(range, kernel))):
        cut = tuple(
            slice(one * gap, one * gap + (count - 1) * stride + 1, stride)
            for one, gap, count, stride in zip(offset, dilations, places, strides, strict=True)
        )
        found[:, :, number] = wide[(slice(None), slice(None), *cut)]
    return found


def _conv(
    x: Array, weight: Array, strides: Any, pad: Any, dilations: Any, groups: Any, pad_type: Any, bias: Any = None
) -> Array:
    assert pad_type == "custom"
    groups, kernel = int(groups), weight.shape[2:]
    found = _windows(x.astype(np.float64), kernel, strides, dilations, pad, 0.0)
    places = found.shape[3:]
    found = found.reshape(x.shape[0], groups, -1, math.prod(places))
    result = np.einsum("ngkp,gok->ngop", found, weight.reshape(groups, weight.shape[0] // groups, -1))
    result = result.reshape(x.shape[0], weight.shape[0], *places)
    if bias is not None:
        result += bias.reshape(-1, *(1,) * len(places))
    return np.asarray(result, x.dtype)


def _conv_transpose(
    x: Array,
    weight: Array,
    strides: Any,
    pad: Any,
    dilations: Any,
    groups: Any,
    pad_type: Any,
    bias: Any = None,
    output_shape: Any = None,
) -> Array:
    assert pad_type == "custom"
    groups = int(groups)
    kernel, each = weight.shape[2:], weight.shape[1]
    count = len(kernel)
    whole = [
        (x.shape[2 + axis] - 1) * int(strides[axis]) + (kernel[axis] - 1) * int(dilations[axis]) + 1
        for axis in range(count)
    ]
    result: Array = np.zeros((x.shape[0], each * groups, *whole), np.float64)
    given: Array = x.astype(np.float64).reshape(x.shape[0], groups, -1, *x.shape[2:])
    own: Array = weight.astype(np.float64).reshape(groups, -1, *weight.shape[1:])
    for offset in product(*map(range, kernel)):
        place: tuple[Any, ...] = (..., *offset)
        chosen = own[place]
        part = np.einsum("ngc...,gco->ngo...", given, chosen)
        cut = tuple(slice(offset[axis] * int(dilations[axis]), None, int(strides[axis])) for axis in range(count))
        target = result[(slice(None), slice(None), *cut)]
        target[(slice(None), slice(None), *(slice(size) for size in x.shape[2:]))] += part.reshape(
            x.shape[0], each * groups, *x.shape[2:]
        )
    cut = tuple(slice(int(pad[2 * axis]), whole[axis] - int(pad[2 * axis + 1])) for axis in range(count))
    result = result[(slice(None), slice(None), *cut)]
    if bias is not None:
        result = result + bias.reshape(-1, *(1,) * count)
    assert output_shape is None or tuple(output_shape) == result.shape
    return result.astype(x.dtype)


def _max_pool(x: Array, kernel_sizes: Any, strides: Any, pad: Any, pad_type: Any, ceil_mode: Any = False) -> Array:
    assert pad_type == "custom"
    assert not ceil_mode
    return np.asarray(_windows(x, kernel_sizes, strides, [1] * len(kernel_sizes), pad, -np.inf).max(axis=2))


def _avg_pool(
    x: Array,
    kernel_sizes: Any,
    strides: Any,
    pad: Any,
    pad_type: Any,
    exclude_padding_from_average: Any = False,
    ceil_mode: Any = False,
) -> Array:
    assert pad_type == "custom"
    assert not ceil_mode
    ones = [1] * len(kernel_sizes)
    total = _windows(x, kernel_sizes, strides, ones, pad, 0.0).sum(axis=2)
    count = _windows(np.ones_like(x), kernel_sizes, strides, ones, pad, 0.0).sum(axis=2)
    return np.asarray(total / (count if exclude_padding_from_average else math.prod(kernel_sizes)), x.dtype)


def _channels(numbers: Any, x: Array) -> Any:
    return numbers.reshape(-1, *(1,) * (x.ndim - 2))


def _batch_norm(x: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
    scale = gamma / np.sqrt(variance + epsilon)
    return np.asarray((x - _channels(mean, x)) * _channels(scale, x) + _channels(beta, x), x.dtype)


def _instance_norm(x: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
    axes = tuple(range(2, x.ndim))
    found = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)
    return np.asarray(found * _channels(gamma, x) + _channels(beta, x), x.dtype)


def _layer_norm(x: Array, axes: Any, epsilon: float, gamma: Any = None, beta: Any = None) -> Array:
    over = _axes(axes, x)
    found = (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + epsilon)
    return np.asarray(found * (1 if gamma is None else gamma) + (0 if beta is None else beta), x.dtype)


def _local_response_norm(x: Array, size: Any, alpha: float, beta: float, k: float) -> Array:
    half = int(size) // 2
    wide = np.pad(x**2, [(0, 0), (half, half), *[(0, 0)] * (x.ndim - 2)])
    total = sum(wide[:, first : first + x.shape[1]] for first in range(int(size)))
    return np.asarray(x / (k + alpha / size * total) ** beta, x.dtype)


def _softmax(x: Array, axis: Any) -> Array:
    found = np.exp(x - x.max(axis=int(axis), keepdims=True))
    return np.asarray(found / found.sum(axis=int(axis), keepdims=True))


def _gelu(x: Array, mode: Any = "EXACT") -> Array:
    if mode == "TANH_APPROXIMATION":
        return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), x.dtype)
    assert mode == "EXACT"
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))), x.dtype)


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf)(x), x.dtype)


def _matmul(x: Array, y: Array, transpose_x: Any = False, transpose_y: Any = False) -> Array:
    first, second = np.swapaxes(x, -1, -2) if transpose_x else x, np.swapaxes(y, -1, -2) if transpose_y else y
    return np.asarray(first @ second)


def _slice_by_index(
    x: Array,
    begin: Any,
    end: Any,
    stride: Any = None,
    begin_mask: Any = None,
    end_mask: Any = None,
    squeeze_mask: Any = None,
) -> Array:
    cut = tuple(
        int(begin[axis])
        if squeeze_mask is not None and squeeze_mask[axis]
        else slice(
            None if begin_mask is not None and begin_mask[axis] else int(begin[axis]),
            None if end_mask is not None and end_mask[axis] else int(end[axis]),
            1 if stride is None else int(stride[axis]),
        )
        for axis in range(x.ndim)
    )
    return np.asarray(x[cut])


def _pad(x: Array, pad: Any, mode: Any = "constant", constant_val: Any = 0.0) -> Array:
    assert mode == "constant"
    pairs = [(int(pad[place]), int(pad[place + 1])) for place in range(0, len(pad), 2)]
    return np.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, constant_values=constant_val)


def _split(x: Array, axis: Any, split_sizes: Any = None, num_splits: Any = None) -> list[Array]:
    return np.split(x, int(num_splits) if split_sizes is None else np.cumsum(split_sizes)[:-1], int(axis))


def _depth_to_space(x: Array, block_size: Any) -> Array:
    n, c, h, w = x.shape
    b = int(block_size)
    return x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


def _pixel_shuffle(x: Array, upscale_factor: Any) -> Array:
    n, c, h, w = x.shape
    b = int(upscale_factor)
    return x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)


def _space_to_depth(x: Array, block_size: Any) -> Array:
    n, c, h, w = x.shape
    b = int(block_size)
    return x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b**2, h // b, w // b)


def _nearest(x: Array, scale_factor_height: Any, scale_factor_width: Any) -> Array:
    return x.repeat(int(scale_factor_height), -2).repeat(int(scale_factor_width), -1)


def _bilinear(x: Array, scale_factor_height: Any, scale_factor_width: Any, align_corners: Any) -> Array:
    for axis, scale in ((-2, scale_factor_height), (-1, scale_factor_width)):
        assert not align_corners
        wide = math.floor(x.shape[axis] * float(scale))
        x = _between(x, axis, _GRIDS["UNALIGN_CORNERS"](np.arange(wide), x.shape[axis], wide))
    return x


_GRIDS: dict[str, Callable[[Array, int, int], Array]] = {
    "STRICT_ALIGN_CORNERS": lambda number, size, wide: number * ((size - 1) / (wide - 1)),
    "DEFAULT": lambda number, size, wide: number * ((size - size / wide) / (wide - 1)),
    "UNALIGN_CORNERS": lambda number, size, wide: number * (size / wide) + 0.5 * (size / wide) - 0.5,
}
"""The places of each mode of `resize_bilinear`, as its documentation writes them."""


def _resize_bilinear(x: Array, target_size_height: Any, target_size_width: Any, sampling_mode: Any) -> Array:
    for axis, wide in ((-2, int(target_size_height)), (-1, int(target_size_width))):
        x = _between(x, axis, _GRIDS[str(sampling_mode)](np.arange(wide), x.shape[axis], wide))
    return x


def _between(x: Array, axis: int, at: Array) -> Array:
    """Elements at places of an axis, which are moved to its border if they are beyond it."""
    last = x.shape[axis] - 1
    at = at.clip(0, last)
    low = np.floor(at).astype(int)
    part = (at - low).reshape([-1 if place == axis % x.ndim else 1 for place in range(x.ndim)])
    found = x.take(low, axis) * (1 - part) + x.take(np.minimum(low + 1, last), axis) * part
    return np.asarray(found, x.dtype)


_PLACES: dict[str, Callable[[Array, int], Array]] = {
    "border": lambda place, size: place.clip(0, size - 1),
    "reflection": lambda place, size: size - 1 - abs(place % max(2 * size - 2, 1) - (size - 1)),
}
"""Elements beyond an image for each mode of `resample`: those of its border, or a reflection without the border."""


def _resample(
    x: Array,
    coordinates: Array,
    sampling_mode: Any,
    padding_mode: Any,
    padding_value: Any,
    coordinates_mode: Any,
    align_corners: Any,
) -> Array:
    assert str(sampling_mode) == "bilinear"
    assert str(coordinates_mode) == "normalized_minus_one_to_one"
    places = []
    for number, size in ((0, x.shape[3]), (1, x.shape[2])):
        side = coordinates[..., number].astype(np.float64)
        places.append((side + 1) / 2 * (size - 1) if align_corners else ((side + 1) * size - 1) / 2)
    total: Array = np.zeros((*x.shape[:2], *coordinates.shape[1:3]))
    for right, down in product((0, 1), repeat=2):
        weight, indices = np.ones(places[0].shape), []
        inside = np.ones(places[0].shape, np.bool_)
        for place, far, size in zip(places, (right, down), (x.shape[3], x.shape[2]), strict=True):
            low = np.floor(place)
            weight = weight * (place - low if far else low + 1 - place)
            at = (low + far).astype(int)
            inside = inside & (at >= 0) & (at < size) if str(padding_mode) == "constant" else inside
            indices.append(_PLACES.get(str(padding_mode), _PLACES["border"])(at, size))
        for batch in range(x.shape[0]):
            found = x[batch][:, indices[1][batch], indices[0][batch]]
            chosen = np.where(inside[batch], found, padding_value)
            total[batch] += chosen * weight[batch]
    return np.asarray(total, x.dtype)


def _lstm(
    x: Array,
    initial_h: Array,
    initial_c: Array,
    weight_ih: Array,
    weight_hh: Array,
    direction: Any,
    output_sequence: Any,
    bias: Any = 0.0,
    weight_ih_back: Any = None,
    weight_hh_back: Any = None,
    bias_back: Any = 0.0,
    **activations: Any,
) -> list[Array]:
    assert {str(one) for one in activations.values()} <= {"sigmoid", "tanh"}
    assert output_sequence
    assert direction in {"forward", "bidirectional"}
    size = weight_hh.shape[1]
    sides = [(x, weight_ih, weight_hh, bias)]
    if direction == "bidirectional":
        sides.append((x[::-1], weight_ih_back, weight_hh_back, bias_back))
    every, last, cells = [], [], []
    for number, (given, wide, recurrent, added) in enumerate(sides):
        h, c = (state[:, number * size : (number + 1) * size] for state in (initial_h, initial_c))
        states = []
        for step in given:
            i, f, o, z = np.split(step @ wide.T + h @ recurrent.T + added, 4, axis=1)
            c = c / (1 + np.exp(-f)) + np.tanh(z) / (1 + np.exp(-i))
            h = np.tanh(c) / (1 + np.exp(-o))
            states.append(h)
        every.append(np.stack(states[::-1] if number else states))
        last.append(h)
        cells.append(c)
    return [np.concatenate(parts, axis=-1).astype(x.dtype) for parts in (every, last, cells)]


def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: np.asarray(function(x, y))


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: np.asarray(function(x), x.dtype)


def _simple_layer(step: Callable[..., Array]) -> Callable[..., list[Array]]:
    """A recurrent layer of one direction and one state."""

    def layer(
        x: Array,
        initial_h: Array,
        weight_ih: Array,
        weight_hh: Array,
        output_sequence: Any,
        direction: Any = "forward",
        bias: Any = 0.0,
        **activations: Any,
    ) -> list[Array]:
        assert {str(one) for one in activations.values()} <= {"sigmoid", "tanh"}
        assert output_sequence
        assert direction == "forward"
        h, states = initial_h, []
        for given in x:
            h = step(given @ weight_ih.T + bias, h, weight_hh).astype(x.dtype)
            states.append(h)
        return [np.stack(states), h]

    return layer


def _gru_step(given: Array, h: Array, weight_hh: Array) -> Array:
    of_reset, of_new, of_update = np.split(given, 3, axis=1)
    reset, new, update = np.split(h @ weight_hh.T, 3, axis=1)
    kept = 1 / (1 + np.exp(-of_update - update))
    made = np.tanh(of_new + new / (1 + np.exp(-of_reset - reset)))
    return np.asarray((1 - kept) * made + kept * h)


def _gather(x: Array, indices: Array, axis: Any, batch_dims: Any = 0, validate_indices: Any = False) -> Array:
    assert not batch_dims
    return x.take(indices, int(axis))


def _gather_nd(x: Array, indices: Array, batch_dims: Any = 0, validate_indices: Any = False) -> Array:
    if batch_dims:
        return np.stack([_gather_nd(one, other, int(batch_dims) - 1) for one, other in zip(x, indices, strict=True)])
    return np.asarray(x[tuple(np.moveaxis(indices, -1, 0))])


def _topk(x: Array, k: Any, axis: Any, ascending: Any = False, **more: Any) -> list[Array]:
    assert more.pop("sort", True)
    assert more.pop("return_indices", True)
    order = np.argsort(x if ascending else -x, axis=int(axis), kind="stable").take(range(int(k)), int(axis))
    return [np.take_along_axis(x, order, int(axis)), order.astype(np.int32)]


def _argument(function: Callable[..., Any]) -> Callable[..., Any]:
    def found(x: Array, axis: Any, keep_dims: Any, output_dtype: Any = "int32") -> Array:
        return np.asarray(function(x, axis=int(axis), keepdims=bool(keep_dims)), str(output_dtype))

    return found


def _slice_by_size(x: Array, begin: Any, size: Any) -> Array:
    ends = [None if int(one) == -1 else int(first) + int(one) for first, one in zip(begin, size, strict=True)]
    return x[tuple(slice(int(first), end) for first, end in zip(begin, ends, strict=True))]


def _affine(quantized_data: Array, zero_point: Any, scale: Any, axis: Any) -> Array:
    shape = [-1 if place == int(axis) else 1 for place in range(quantized_data.ndim)]
    zero, step = (np.asarray(one).reshape(shape) if np.ndim(one) else one for one in (zero_point, scale))
    return np.asarray(
        (quantized_data.astype(np.float32) - np.asarray(zero, np.float32)) * step, np.asarray(scale).dtype
    )


def _range(start: Any, end: Any, step: Any) -> Array:
    return np.asarray(range(int(start), int(end), int(step)), np.int32)


def _concat(values: list[Array], axis: int, interleave: bool = False) -> Array:
    assert not interleave, "coremltools itself ignores it where it folds constants"
    return np.concatenate(values, int(axis))


def _blocks(data: Array, scale: Array, offset: Array) -> Array:
    for axis, (size, count) in enumerate(zip(data.shape, scale.shape, strict=True)):
        scale, offset = (np.repeat(one, size // count, axis) for one in (scale, offset))
    return np.asarray((data.astype(np.float32) - offset.astype(np.float32)) * scale, scale.dtype)


_TYPES: dict[str, Any] = {
    "bool": np.bool_,
    "fp16": np.float16,
    "fp32": np.float32,
    "int16": np.int16,
    "int32": np.int32,
    "uint16": np.uint16,
}

OPERATIONS: dict[str, Callable[..., Any]] = {
    **{
        name: _unary(getattr(np, name))
        for name in ["abs", "ceil", "cos", "cosh", "exp", "floor", "sign", "sin", "sinh", "sqrt", "tan", "tanh"]
    },
    "acos": _unary(np.arccos),
    "asin": _unary(np.arcsin),
    "atan": _unary(np.arctan),
    "atanh": _unary(np.arctanh),
    "erf": _erf,
    "cast": lambda x, dtype: x.astype(_TYPES[str(dtype)]),
    "identity": _unary(lambda x: x),
    "relu": _unary(lambda x: np.maximum(x, 0)),
    "round": _unary(np.rint),
    "sigmoid": _unary(lambda x: 1 / (1 + np.exp(-x))),
    "silu": _unary(lambda x: x / (1 + np.exp(-x))),
    "softplus": _unary(lambda x: np.logaddexp(x, np.float32(0))),
    "softsign": _unary(lambda x: x / (1 + abs(x))),
    "gelu": _gelu,
    "log": lambda x, epsilon: np.asarray(np.log(x + epsilon), x.dtype),
    "rsqrt": lambda x, epsilon: np.asarray(1 / np.sqrt(x + epsilon), x.dtype),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)).astype(x.dtype),
    "leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x).astype(x.dtype),
    "sigmoid_hard": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1).astype(x.dtype),
    "clip": lambda x, alpha, beta: np.clip(x, alpha, beta),  # noqa: PLW0108 - the names of the operands
    "select": lambda cond, a, b: np.where(cond, a, b),  # noqa: PLW0108 - likewise
    "equal": _binary(np.equal),
    "not_equal": _binary(np.not_equal),
    "greater": _binary(np.greater),
    "greater_equal": _binary(np.greater_equal),
    "less": _binary(np.less),
    "less_equal": _binary(np.less_equal),
    "logical_and": _binary(np.logical_and),
    "logical_or": _binary(np.logical_or),
    "logical_xor": _binary(np.logical_xor),
    "logical_not": _unary(np.logical_not),
    "add": _binary(np.add),
    "sub": _binary(np.subtract),
    "mul": _binary(np.multiply),
    "real_div": _binary(np.divide),
    "floor_div": _binary(np.floor_divide),
    "pow": _binary(np.power),
    "maximum": _binary(np.maximum),
    "minimum": _binary(np.minimum),
    "square": _unary(np.square),
    "matmul": _matmul,
    "linear": lambda x, weight, bias=0.0: x @ weight.T + bias,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "batch_norm": _batch_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "local_response_norm": _local_response_norm,
    "softmax": _softmax,
    "reduce_l1_norm": _reduction(lambda x, **more: abs(x).sum(**more)),
    "reduce_l2_norm": _reduction(lambda x, **more: np.sqrt((x**2).sum(**more))),
    "reduce_log_sum": _reduction(lambda x, **more: np.log(x.sum(**more))),
    "reduce_log_sum_exp": _reduction(_log_sum_exp),
    "reduce_max": _reduction(np.max),
    "reduce_mean": _reduction(np.mean),
    "reduce_min": _reduction(np.min),
    "reduce_prod": _reduction(np.prod),
    "reduce_sum": _reduction(np.sum),
    "reduce_sum_square": _reduction(lambda x, **more: (x**2).sum(**more)),
    "transpose": lambda x, perm: x.transpose([int(axis) for axis in perm]),
    "reshape": lambda x, shape: x.reshape([int(size) for size in shape]),
    "squeeze": lambda x, axes=None: np.asarray(x).squeeze(None if axes is None else tuple(map(int, axes))),
    "expand_dims": lambda x, axes: np.expand_dims(x, tuple(int(axis) for axis in axes)),
    "concat": _concat,
    "slice_by_index": _slice_by_index,
    "split": _split,
    "stack": lambda values, axis: np.stack(values, int(axis)),
    "lstm": _lstm,
    "pad": _pad,
    "tile": lambda x, reps: np.tile(x, [int(one) for one in reps]),
    "gather": _gather,
    "gather_along_axis": lambda x, indices, axis, validate_indices=False: np.take_along_axis(x, indices, int(axis)),
    "gather_nd": _gather_nd,
    "constexpr_affine_dequantize": _affine,
    "constexpr_blockwise_shift_scale": _blocks,
    "topk": _topk,
    "reduce_argmax": _argument(np.argmax),
    "reduce_argmin": _argument(np.argmin),
    "reverse": lambda x, axes: np.flip(x, tuple(int(axis) for axis in axes)),
    "slice_by_size": _slice_by_size,
    "fill_like": lambda ref_tensor, value: np.full(ref_tensor.shape, value, np.asarray(value).dtype),
    "gru": _simple_layer(_gru_step),
    "rnn": _simple_layer(lambda given, h, weight_hh: np.tanh(given + h @ weight_hh.T)),
    "depth_to_space": _depth_to_space,
    "pixel_shuffle": _pixel_shuffle,
    "space_to_depth": _space_to_depth,
    "upsample_nearest_neighbor": _nearest,
    "upsample_bilinear": _bilinear,
    "resize_bilinear": _resize_bilinear,
    "resample": _resample,
    "shape": lambda x: np.array(x.shape, np.int32),
    "range_1d": _range,
}
"""How each operator is computed, by its name in MIL."""
