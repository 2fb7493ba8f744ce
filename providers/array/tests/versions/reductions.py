"""Rows of operators that reduce axes: sums, extremes, norms, positions of extremes, running sums, softmaxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .row import Draw, Given, Row, as_type, is_floating, wide

__all__ = ["ROWS"]

Reduction = Callable[[Any, tuple[int, ...]], Any]


def _reduce(function: Reduction, axes_since: int, low: float = -3.0, *, empty: bool = True) -> Callable[[Draw], Given]:
    """Axes as attribute, or as input from `axes_since` on; nothing to reduce gives the neutral element where one is."""

    def draw(d: Draw) -> Given:
        # Until opset 17 the result of an empty reduction was left open.
        shape = d.shape(least=0 if empty and d.version >= 18 else 1)
        x = d.array(shape, low=low, high=3, special=False)
        attributes: dict[str, Any] = {}
        keepdims = 1
        if d.flag():
            keepdims = attributes["keepdims"] = d.flag()
        axes: list[int] | None = None
        if shape and d.flag():
            axes = sorted({d.axis(len(shape), negative=False) for _ in range(d.integer(1, len(shape)))})
        signed = [axis - len(shape) if axes and d.version >= 11 and d.flag() else axis for axis in axes or ()]
        inputs = [x]
        if axes is not None and d.version >= axes_since:
            inputs.append(np.array(signed, np.int64))
        elif axes is not None:
            attributes["axes"] = tuple(signed)
        reduced = tuple(range(len(shape))) if axes is None else tuple(axes)
        if axes is None and d.version >= axes_since and d.flag():
            attributes["noop_with_empty_axes"] = 1
            return Given(inputs, attributes, [as_type(function(wide(x)[..., None], (x.ndim,)), x.dtype)])
        with np.errstate(all="ignore"):
            made = np.asarray(function(wide(x), reduced))
        kept = tuple(1 if axis in reduced else size for axis, size in enumerate(shape))
        made = made.reshape(kept if keepdims else [size for axis, size in enumerate(shape) if axis not in reduced])
        return Given(inputs, attributes, [as_type(made, x.dtype)])

    return draw


def _exact(x: Any) -> Any:
    """Integers of any size."""
    return x if is_floating(x.dtype) else x.astype(np.int64)


def _mean(x: Any, axes: tuple[int, ...]) -> Any:
    """Integers are divided as C divides them: cut towards zero."""
    return np.mean(x, axis=axes) if is_floating(x.dtype) else np.trunc(np.mean(x.astype(np.float64), axis=axes))


def _extreme(name: str) -> Reduction:
    def reduce(x: Any, axes: tuple[int, ...]) -> Any:
        function = getattr(np, name)
        if x.size:
            return function(x, axis=axes)
        kept = np.empty([size for axis, size in enumerate(x.shape) if axis not in axes])
        if is_floating(x.dtype):
            return np.full(kept.shape, -np.inf if name == "max" else np.inf)
        if x.dtype == np.bool_:
            return np.full(kept.shape, name == "min")
        info = np.iinfo(x.dtype)
        return np.full(kept.shape, info.min if name == "max" else info.max)

    return reduce


def _log_sum_exp(x: Any, axes: tuple[int, ...]) -> Any:
    return np.log(np.sum(np.exp(x), axis=axes))


def _arg(name: str) -> Callable[[Draw], Given]:
    def draw(d: Draw) -> Given:
        shape = d.shape(1, least=1)
        x = np.rint(wide(d.array(shape, special=False))).astype(d.dtype)  # ties
        axis = d.axis(len(shape), negative=d.version >= 11)
        attributes: dict[str, Any] = {"axis": axis, "keepdims": d.flag()}
        if d.version >= 12:
            attributes["select_last_index"] = d.flag()
        values = np.flip(wide(x), axis) if attributes.get("select_last_index") else wide(x)
        found = getattr(np, name)(values, axis=axis, keepdims=bool(attributes["keepdims"]))
        if attributes.get("select_last_index"):
            found = shape[axis] - 1 - found
        return Given([x], attributes, [np.asarray(found, np.int64)])

    return draw


def _running(function: Any) -> Callable[[Draw], Given]:
    def draw(d: Draw) -> Given:
        shape = d.pick((d.shape(1), (2, d.integer(1, 12), 40)))  # a wide slice behind the axis takes another way
        x = d.array(shape, low=-2, high=2, special=False)
        axis = d.axis(len(shape))
        attributes = {"exclusive": d.flag(), "reverse": d.flag()}
        values = np.moveaxis(wide(x), axis, 0)
        values = values[::-1] if attributes["reverse"] else values
        made = function(values, axis=0)
        if attributes["exclusive"] and len(made):
            neutral = np.full_like(made[:1], function(np.empty((0,)), axis=0).sum() if function is np.cumsum else 1)
            made = np.concatenate([neutral, made[:-1]])
        made = np.moveaxis(made[::-1] if attributes["reverse"] else made, 0, axis)
        return Given([x, np.array(axis, np.int64)], attributes, [as_type(made, x.dtype)])

    return draw


def _softmax(finish: Callable[[Any, Any], Any]) -> Callable[[Draw], Given]:
    """Before version 13 all axes from `axis` (default 1) on are one; then one axis, the last by default."""

    def draw(d: Draw) -> Given:
        shape = d.shape(1, least=1)
        x = d.array(shape, special=False)
        axis = d.axis(len(shape), negative=d.version >= 11)
        values = wide(x)
        first = axis % len(shape)
        flat = values if d.version >= 13 else values.reshape(int(np.prod(shape[:first])), -1)
        made = finish(flat, first if d.version >= 13 else 1)
        return Given([x], {"axis": axis}, [as_type(made.reshape(shape), x.dtype)])

    return draw


def _shares(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _hardmax(x: Any, axis: int) -> Any:
    made = np.zeros_like(x)
    np.put_along_axis(made, x.argmax(axis)[(slice(None),) * axis + (None,)], 1, axis)
    return made


ROWS = [
    Row("ReduceSum", _reduce(lambda x, axes: np.sum(_exact(x), axis=axes), 13)),
    Row("ReduceMean", _reduce(_mean, 18, empty=False)),
    Row("ReduceMax", _reduce(_extreme("max"), 18)),
    Row("ReduceMin", _reduce(_extreme("min"), 18)),
    Row("ReduceProd", _reduce(lambda x, axes: np.prod(_exact(x), axis=axes), 18)),
    Row("ReduceL1", _reduce(lambda x, axes: np.sum(np.abs(_exact(x)), axis=axes), 18)),
    Row("ReduceL2", _reduce(lambda x, axes: np.sqrt(np.sum(_exact(x) ** 2, axis=axes)), 18)),
    Row("ReduceSumSquare", _reduce(lambda x, axes: np.sum(_exact(x) ** 2, axis=axes), 18)),
    Row("ReduceLogSum", _reduce(lambda x, axes: np.log(np.sum(_exact(x), axis=axes)), 18, low=1)),
    Row("ReduceLogSumExp", _reduce(_log_sum_exp, 18)),
    Row("ArgMax", _arg("argmax")),
    Row("ArgMin", _arg("argmin")),
    Row("CumSum", _running(np.cumsum)),
    Row("CumProd", _running(np.cumprod)),
    Row("Softmax", _softmax(_shares)),
    Row("LogSoftmax", _softmax(lambda x, axis: np.log(_shares(x, axis)))),
    Row("Hardmax", _softmax(_hardmax)),
]
