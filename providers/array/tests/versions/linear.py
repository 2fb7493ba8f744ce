"""Rows of operators that multiply and add up: matrices, convolutions, windows. Expected values by naive loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from .row import Draw, Given, Row, as_type, is_floating, quantized, wide

__all__ = ["ROWS"]


def _exact(x: Any) -> Any:
    return wide(x) if is_floating(x.dtype) else x.astype(np.int64)


def _matmul(d: Draw) -> Given:
    lead, m, k, n = d.shape(0, 2), d.integer(0, 4), d.integer(0, 4), d.integer(0, 4)
    a = d.array((*lead, m, k), special=False)
    b = d.array((*d.broadcastable(lead), k, n), special=False)
    if d.flag():
        a = d.array((k,), special=False)
    elif d.flag():
        b = d.array((k,), special=False)
    return Given([a, b], {}, [as_type(_exact(a) @ _exact(b), d.dtype)])


def _gemm(d: Draw) -> Given:
    m, k, n = d.integer(0, 4), d.integer(0, 4), d.integer(0, 4)
    trans_a, trans_b = d.flag(), d.flag()
    a = d.array((k, m) if trans_a else (m, k), special=False)
    b = d.array((n, k) if trans_b else (k, n), special=False)
    alpha, beta = d.pick((1.0, 0.5)), d.pick((1.0, 2.0))
    attributes: dict[str, Any] = {"transA": trans_a, "transB": trans_b, "alpha": alpha, "beta": beta}
    made = (_exact(a.T if trans_a else a) @ _exact(b.T if trans_b else b)) * alpha
    if not is_floating(d.dtype):
        made = np.trunc(made)
    if d.version >= 11 and d.flag():
        return Given([a, b], attributes, [as_type(made, d.dtype)])
    c = d.array((m, n), special=False)
    if d.flag():
        c = d.array(d.broadcastable((m, n)), special=False)
        if d.version < 7:
            attributes["broadcast"] = 1
    return Given([a, b, c], attributes, [as_type(made + _exact(c) * beta, d.dtype)])


def _einsum(d: Draw) -> Given:
    i, j, k = d.integer(0, 3), d.integer(0, 3), d.integer(0, 3)
    equation, shapes = d.pick(
        [("ij,jk->ik", [(i, j), (j, k)]), ("ij->ji", [(i, j)]), ("...ij->...", [(k, i, j)]), ("i,j", [(i,), (j,)])]
    )
    arrays = [d.array(shape, special=False) for shape in shapes]
    made = np.einsum(equation, *(_exact(x) for x in arrays))
    return Given(arrays, {"equation": equation}, [as_type(made, d.dtype)])


def _geometry(d: Draw, *, kernel: bool = True, dilated: bool = True) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Spatial input sizes and the attributes of windows that fit into them."""
    rank = d.integer(1, 3)
    sizes = [d.integer(1, 3) for _ in range(rank)]
    strides, dilations = [d.integer(1, 2) for _ in sizes], [d.integer(1, 2) if dilated else 1 for _ in sizes]
    # Padding stays below the window: a window of padding alone has no maximum.
    pads = [d.integer(0, size - 1) for size in sizes * 2]
    spatial = tuple(
        (size - 1) * dilation + 1 + d.integer(0, 3) for size, dilation in zip(sizes, dilations, strict=True)
    )
    attributes: dict[str, Any] = {"kernel_shape": tuple(sizes), "strides": tuple(strides), "pads": tuple(pads)}
    if dilated:
        attributes["dilations"] = tuple(dilations)
    return spatial, attributes


def _windows(
    spatial: Sequence[int], attributes: dict[str, Any], *, ceil: bool = False
) -> tuple[tuple[int, ...], Iterator[tuple[tuple[int, ...], list[tuple[tuple[int, ...], tuple[int, ...]]]]]]:
    """Output sizes; then for each output place, (tap, input place) of the taps inside the input."""
    kernel, strides, pads = attributes["kernel_shape"], attributes["strides"], attributes["pads"]
    dilations = attributes.get("dilations", (1,) * len(kernel))
    rank = len(kernel)
    sizes = []
    for axis in range(rank):
        room = spatial[axis] + pads[axis] + pads[axis + rank] - (kernel[axis] - 1) * dilations[axis] - 1
        size = (-(-room // strides[axis]) if ceil else room // strides[axis]) + 1
        if ceil and (size - 1) * strides[axis] >= spatial[axis] + pads[axis]:
            size -= 1  # a window must start inside the input or the padding before it
        sizes.append(size)

    def places() -> Iterator[tuple[tuple[int, ...], list[tuple[tuple[int, ...], tuple[int, ...]]]]]:
        for place in product(*map(range, sizes)):
            taps = []
            for tap in product(*map(range, kernel)):
                source = tuple(
                    place[axis] * strides[axis] - pads[axis] + tap[axis] * dilations[axis] for axis in range(rank)
                )
                if all(0 <= one < size for one, size in zip(source, spatial, strict=True)):
                    taps.append((tap, source))
            yield place, taps

    return tuple(sizes), places()


def _convolved(x: Any, w: Any, attributes: dict[str, Any]) -> Any:
    """The sum over taps and channels, window by window; what is outside counts as 0."""
    group, spatial = attributes["group"], x.shape[2:]
    sizes, places = _windows(spatial, attributes)
    features = w.shape[0] // group
    made = np.zeros((x.shape[0], group, features, *sizes))
    parts = x.reshape(x.shape[0], group, w.shape[1], *spatial)
    weights = w.reshape(group, features, *w.shape[1:])
    for place, taps in places:
        for tap, source in taps:
            part = parts[(slice(None),) * 3 + source]
            made[(slice(None),) * 3 + place] += np.einsum("bgc,gfc->bgf", part, weights[(slice(None),) * 3 + tap])
    return made.reshape(x.shape[0], group * features, *sizes)


def _operands(d: Draw, weight: Any = None, **ranges: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Input, weights and attributes of a convolution."""
    spatial, attributes = _geometry(d)
    group, per_group, features, batch = d.integer(1, 2), d.integer(1, 2), d.integer(1, 2), d.integer(0, 2)
    attributes["group"] = group
    x = d.array((batch, group * per_group, *spatial), **ranges)
    return x, d.array((group * features, per_group, *attributes["kernel_shape"]), weight, **ranges), attributes


def _spread(parameter: Any, rank: int) -> Any:
    """One number per channel, or one alone, beside an axis of channels and `rank` others."""
    return parameter.astype(np.float64).reshape(-1, *(1,) * rank)


def _conv(d: Draw) -> Given:
    x, w, attributes = _operands(d, special=False)
    made = _convolved(wide(x), wide(w), attributes)
    if d.flag():
        return Given([x, w], attributes, [as_type(made, d.dtype)])
    bias = d.array((w.shape[0],), special=False)
    made += _spread(bias, x.ndim - 2)
    return Given([x, w, bias], attributes, [as_type(made, d.dtype)])


def _conv_integer(d: Draw) -> Given:
    """Zero points pad the input. Weights may have one for each feature."""
    x, w, attributes = _operands(d, d.other("T2"))
    x_zero, w_zero = d.array((), x.dtype), d.array((d.pick((1, w.shape[0])),), w.dtype)
    made = _convolved(x.astype(np.float64) - x_zero, w - _spread(w_zero, w.ndim - 1), attributes)
    return Given(
        [x, w, x_zero, w_zero.reshape(()) if w_zero.size == 1 else w_zero], attributes, [as_type(made, np.int32)]
    )


def _qlinear_conv(d: Draw) -> Given:
    """Scales are such that what is rounded is whole: ways to round agree."""
    x, w, attributes = _operands(d, d.other("T2"), low=-2, high=4, special=False)
    count = d.pick((1, w.shape[0]))
    x_zero, y_zero = (d.array((), kind, low=0, high=3, special=False) for kind in (x.dtype, d.other("T3")))
    w_zero = d.array((count,), w.dtype, low=0, high=2, special=False)
    w_scale = (2.0 ** d.array((count,), np.int64, low=-1, high=1, special=False)).astype(np.float32)
    made = _convolved(x.astype(np.float64) - x_zero, w - _spread(w_zero, w.ndim - 1), attributes)
    bias = d.array((w.shape[0],), np.int32, special=False) if d.flag() else None
    if bias is not None:
        made += _spread(bias, x.ndim - 2)
    made = made * 0.5 * _spread(w_scale, x.ndim - 2) / 0.25 + float(y_zero)
    half, quarter = (np.array(one, np.float32) for one in (0.5, 0.25))
    if count == 1:
        w_scale, w_zero = w_scale.reshape(()), w_zero.reshape(())
    inputs = [x, half, x_zero, w, w_scale, w_zero, quarter, y_zero, *([] if bias is None else [bias])]
    return Given(inputs, attributes, [quantized(made, y_zero.dtype)])


def _conv_transpose(d: Draw) -> Given:
    spatial, attributes = _geometry(d)
    # The sizes of the convolution that this one undoes.
    wanted, attributes = spatial, {**attributes, "pads": (0,) * (2 * len(spatial))}
    group, features, per_group, batch = d.integer(1, 2), d.integer(1, 2), d.integer(1, 2), d.integer(0, 2)
    inner, _ = _windows(wanted, attributes)
    x = d.array((batch, group * features, *inner), special=False)
    w = d.array((group * features, per_group, *attributes["kernel_shape"]), special=False)
    dilations, strides = attributes["dilations"], attributes["strides"]
    sizes = tuple(
        (size - 1) * stride + (kernel - 1) * dilation + 1
        for size, stride, kernel, dilation in zip(inner, strides, attributes["kernel_shape"], dilations, strict=True)
    )
    made = np.zeros((batch, group, per_group, *sizes))
    parts = wide(x).reshape(batch, group, features, *inner)
    weights = wide(w).reshape(group, features, per_group, *attributes["kernel_shape"])
    for source in product(*map(range, inner)):
        for tap in product(*map(range, attributes["kernel_shape"])):
            place = tuple(
                one * stride + k * dilation
                for one, stride, k, dilation in zip(source, strides, tap, dilations, strict=True)
            )
            part, weight = parts[(slice(None),) * 3 + source], weights[(slice(None),) * 3 + tap]
            made[(slice(None),) * 3 + place] += np.einsum("bgf,gfc->bgc", part, weight)
    made = made.reshape(batch, group * per_group, *sizes)
    return Given([x, w], {**attributes, "group": group}, [as_type(made, d.dtype)])


def _pool(reduce: Callable[[Draw, dict[str, Any], list[Any], int, int], Any]) -> Callable[[Draw], Given]:
    def draw(d: Draw) -> Given:
        dilated = (d.version >= 10 and d.op_type == "MaxPool") or d.version >= (19 if d.op_type != "LpPool" else 18)
        spatial, attributes = _geometry(d, dilated=dilated)
        ceil = bool(d.flag()) if d.version >= (10 if d.op_type != "LpPool" else 18) else False
        if ceil:
            attributes["ceil_mode"] = 1
        x = d.array((d.integer(0, 2), d.integer(1, 2), *spatial), special=False)
        extra: dict[str, Any] = {}
        if d.op_type == "AveragePool" and d.version >= 7 and d.flag():
            extra["count_include_pad"] = 1
        if d.op_type == "LpPool":
            extra["p"] = d.pick((1, 2, 3)) if d.version >= 2 else 2.0
        sizes, places = _windows(spatial, attributes, ceil=ceil)
        made = np.zeros((*x.shape[:2], *sizes))
        taps_in_all = int(np.prod(attributes["kernel_shape"]))
        for place, taps in places:
            values = [wide(x)[(slice(None),) * 2 + source] for _, source in taps]
            padded = _padded_taps(spatial, attributes, place) if ceil else taps_in_all
            made[(slice(None),) * 2 + place] = reduce(d, extra, values, len(taps), padded)
        return Given([x], {**attributes, **extra}, [as_type(made, d.dtype)])

    return draw


def _padded_taps(spatial: Sequence[int], attributes: dict[str, Any], place: Sequence[int]) -> int:
    """Taps of a window inside the input and its padding: with ``ceil_mode`` one can reach beyond both."""
    kernel, strides, pads = attributes["kernel_shape"], attributes["strides"], attributes["pads"]
    dilations, rank = attributes.get("dilations", (1,) * len(kernel)), len(kernel)
    count = 1
    for axis in range(rank):
        first = place[axis] * strides[axis] - pads[axis]
        limit = spatial[axis] + pads[axis + rank]
        count *= sum(first + tap * dilations[axis] < limit for tap in range(kernel[axis]))
    return count


def _max(_d: Draw, _extra: dict[str, Any], values: list[Any], _inside: int, _padded: int) -> Any:
    return np.max(values, axis=0)


def _average(_d: Draw, extra: dict[str, Any], values: list[Any], inside: int, padded: int) -> Any:
    return np.sum(values, axis=0) / (padded if extra.get("count_include_pad") else inside)


def _norm(_d: Draw, extra: dict[str, Any], values: list[Any], _inside: int, _padded: int) -> Any:
    return np.sum(np.abs(values) ** extra["p"], axis=0) ** (1 / extra["p"])


def _global(function: Callable[[Any, tuple[int, ...], dict[str, Any]], Any]) -> Callable[[Draw], Given]:
    def draw(d: Draw) -> Given:
        x = d.array((d.integer(0, 2), d.integer(1, 3), *d.shape(1, 3, least=1)), special=False)
        attributes: dict[str, Any] = {}
        if d.op_type == "GlobalLpPool" and d.flag():
            attributes["p"] = d.pick((1, 3)) if d.version >= 2 else 3.0
        axes = tuple(range(2, x.ndim))
        made = function(wide(x), axes, attributes).reshape(*x.shape[:2], *(1,) * len(axes))
        return Given([x], attributes, [as_type(made, d.dtype)])

    return draw


def _global_norm(x: Any, axes: tuple[int, ...], attributes: dict[str, Any]) -> Any:
    p = attributes.get("p", 2)
    return np.sum(np.abs(x) ** p, axis=axes) ** (1 / p)


ROWS = [
    Row("MatMul", _matmul),
    Row("Gemm", _gemm),
    Row("Einsum", _einsum),
    Row("Conv", _conv),
    Row("ConvInteger", _conv_integer, variable="T1"),
    Row("QLinearConv", _qlinear_conv, variable="T1"),
    Row("ConvTranspose", _conv_transpose),
    Row("MaxPool", _pool(_max)),
    Row("AveragePool", _pool(_average)),
    Row("LpPool", _pool(_norm)),
    Row("GlobalAveragePool", _global(lambda x, axes, _: np.mean(x, axis=axes))),
    Row("GlobalMaxPool", _global(lambda x, axes, _: np.max(x, axis=axes))),
    Row("GlobalLpPool", _global(_global_norm)),
]
