"""RandomNormal, RandomUniform, their "Like" forms, Bernoulli and Multinomial.

Numbers are drawn on the host, from the generator that the node's `seed` or the session decides, and moved to the
device: the same seed gives the same numbers whatever the provider. No specification says which numbers a seed gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np  # random numbers are drawn on the host

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_FLOATS, ALL_NUMERIC, KernelContext, kernel, tensors
from ort_py.dtypes import DataType, data_type_of
from ort_py.errors import InvalidArgument
from ort_py_array.element_types import attribute_type
from ort_py_array.precision import widened

__all__ = [
    "bernoulli",
    "multinomial",
    "random_normal",
    "random_normal_like",
    "random_uniform",
    "random_uniform_like",
]

_INDICES = tensors(DataType.INT32, DataType.INT64)
_BINARY = ALL_NUMERIC | tensors(DataType.BOOL)


def _drawn(ctx: KernelContext, shape: tuple[int, ...], dtype: Any, draw: Callable[[Any], Any]) -> Array:
    """Float64 draws stay float64; all others are float32 and rounded once. `draw` receives the type to draw in."""
    if min(shape, default=0) < 0:
        raise InvalidArgument(
            f"The shape {list(shape)} has a negative size.", where=ctx.node.location, fix="Correct the attribute."
        )
    working = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    ctx.check_allocation(shape, working)
    return ctx.xp.asarray(np.asarray(draw(working)).astype(dtype, copy=False))


def _normal(
    ctx: KernelContext, shape: tuple[int, ...], dtype: Any, seed: float | None, mean: float, scale: float
) -> Array:
    if not scale >= 0:
        raise InvalidArgument(
            f"The standard deviation 'scale' is {scale}.", where=ctx.node.location, fix="It must not be negative."
        )

    def draw(working: Any) -> Any:
        values = np.asarray(ctx.random_generator(seed).standard_normal(shape, working))
        values *= scale
        values += mean
        return values

    return _drawn(ctx, shape, dtype, draw)


def _uniform(
    ctx: KernelContext, shape: tuple[int, ...], dtype: Any, seed: float | None, low: float, high: float
) -> Array:
    if not low <= high:
        raise InvalidArgument(
            f"The range from {low} to {high} is empty.", where=ctx.node.location, fix="'low' must not exceed 'high'."
        )

    def draw(working: Any) -> Any:
        values = np.asarray(ctx.random_generator(seed).random(shape, working))
        values *= high - low
        values += low
        return values

    return _drawn(ctx, shape, dtype, draw)


@kernel("RandomNormal", since=1, until=22)
def random_normal(
    ctx: KernelContext,
    *,
    shape: tuple[int, ...],
    dtype: int = DataType.FLOAT,
    seed: float | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
) -> Array:
    """RandomNormal-1..22: normally distributed numbers of the attributes' shape and floating type.

    Raises:
        InvalidArgument: The type is not a floating-point type, a size or `scale` is negative.
        LimitError: The result would be too large.
    """
    return _normal(ctx, tuple(shape), attribute_type(ctx, "dtype", dtype, ALL_FLOATS), seed, mean, scale)


@kernel("RandomNormalLike", since=1, until=22, strided=True)
def random_normal_like(
    ctx: KernelContext,
    x: Array,
    *,
    dtype: int | None = None,
    seed: float | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
) -> Array:
    """RandomNormalLike-1..22: like `random_normal`, of the input's shape and, without `dtype`, its type.

    Raises:
        InvalidArgument: The type is not a floating-point type, or `scale` is negative.
    """
    kind = attribute_type(ctx, "dtype", data_type_of(x.dtype) if dtype is None else dtype, ALL_FLOATS)
    return _normal(ctx, tuple(x.shape), kind, seed, mean, scale)


@kernel("RandomUniform", since=1, until=22)
def random_uniform(
    ctx: KernelContext,
    *,
    shape: tuple[int, ...],
    dtype: int = DataType.FLOAT,
    seed: float | None = None,
    low: float = 0.0,
    high: float = 1.0,
) -> Array:
    """RandomUniform-1..22: numbers evenly distributed between `low` and `high`, of the attributes' shape and type.

    Raises:
        InvalidArgument: The type is not a floating-point type, a size is negative, or `low` exceeds `high`.
        LimitError: The result would be too large.
    """
    return _uniform(ctx, tuple(shape), attribute_type(ctx, "dtype", dtype, ALL_FLOATS), seed, low, high)


@kernel("RandomUniformLike", since=1, until=22, strided=True)
def random_uniform_like(
    ctx: KernelContext,
    x: Array,
    *,
    dtype: int | None = None,
    seed: float | None = None,
    low: float = 0.0,
    high: float = 1.0,
) -> Array:
    """RandomUniformLike-1..22: as `random_uniform`, of the input's shape and, without `dtype`, type.

    Raises:
        InvalidArgument: The type is not a floating-point type, or `low` exceeds `high`.
    """
    kind = attribute_type(ctx, "dtype", data_type_of(x.dtype) if dtype is None else dtype, ALL_FLOATS)
    return _uniform(ctx, tuple(x.shape), kind, seed, low, high)


@kernel("Bernoulli", since=15, until=22, strided=True)
def bernoulli(ctx: KernelContext, x: Array, *, dtype: int | None = None, seed: float | None = None) -> Array:
    """Bernoulli-15..22: 1 with the probability that the input gives for each place, else 0; numeric or bool.

    Raises:
        InvalidArgument: A probability is not in [0, 1], or the type is neither numeric nor bool.
    """
    xp = ctx.xp
    kind = attribute_type(ctx, "dtype", data_type_of(x.dtype) if dtype is None else dtype, _BINARY)
    chances = widened(xp, x)
    if chances.size and not xp.all(xp.logical_and(chances >= 0, chances <= 1)).item():
        raise InvalidArgument(
            "Bernoulli got a probability outside [0, 1].",
            where=ctx.node.location,
            fix="Feed probabilities, such as what Sigmoid or Softmax give.",
        )
    working = np.dtype(chances.dtype)

    def draw(_: Any) -> Any:
        return ctx.random_generator(seed).random(tuple(x.shape), working)

    return xp.asarray(xp.less(_drawn(ctx, tuple(x.shape), working, draw), chances)).astype(kind)


_SEARCHED = 1 << 18
"""Samples that are searched between two looks at the clock."""


@kernel("Multinomial", since=7, until=22)
def multinomial(
    ctx: KernelContext, x: Array, *, dtype: int = DataType.INT32, sample_size: int = 1, seed: float | None = None
) -> Array:
    """Multinomial-7..22: `sample_size` classes a row of unnormalised log-probabilities ``[batch][class]``.

    A class of log-probability minus infinity is never drawn. int32 or int64.

    Raises:
        InvalidArgument: The input is not a matrix, `sample_size` is not positive, the type is not an index type, or a
            row has no class to draw or one that is NaN or plus infinity.
        LimitError: The result would be too large.
    """
    xp, where = ctx.xp, ctx.node.location
    kind = attribute_type(ctx, "dtype", dtype, _INDICES)
    if x.ndim != 2 or sample_size < 1:
        raise InvalidArgument(
            f"Multinomial draws {sample_size} samples from an input of shape {list(x.shape)}.",
            where=where,
            fix="The input must have the shape [batch][class], and sample_size must be at least 1.",
        )
    rows, classes = x.shape
    ctx.check_allocation((rows, sample_size), np.dtype(np.float64))
    if rows == 0:
        return xp.zeros((0, sample_size), kind)
    ctx.check_allocation((rows, classes), np.dtype(np.float64))
    draw = ctx.random_generator(seed).random
    found = xp.empty((rows, sample_size), kind)
    some = max(1, _SEARCHED // max(1, classes))
    for start in range(0, rows, some):
        ctx.check_time()
        _draw_rows(ctx, x[start : start + some], start, draw, found[start : start + some])
    return found


def _draw_rows(ctx: KernelContext, x: Array, start: int, draw: Callable[[int], Any], found: Array) -> None:
    """Draw from some rows, the first of which has the number `start`."""
    xp = ctx.xp
    rows, classes = x.shape
    if classes:
        chances = xp.empty(x.shape, xp.float64)
        most = xp.max(x, axis=1, keepdims=True).astype(xp.float64)

        def part(begin: int, end: int) -> None:
            xp.subtract(x[:, begin:end], most, out=chances[:, begin:end])
            xp.exp(chances[:, begin:end], out=chances[:, begin:end])

        ctx.parallel_for(classes, max(1, _SEARCHED // rows), part)
        ctx.check_time()
        steps = xp.cumsum(chances, axis=1)
    if not classes or not xp.all(xp.isfinite(steps[:, -1])).item():
        raise InvalidArgument(
            f"Multinomial cannot draw from every row of an input with {classes} classes.",
            where=ctx.node.location,
            why="a row has no class, only impossible ones, or one whose log-probability is NaN or plus infinity",
            fix="Feed finite log-probabilities; minus infinity excludes a class.",
        )
    # All rows' distributions one after the other are one ascending list, row r from r to r + 1: one search serves all.
    first = xp.arange(start, start + rows, dtype=xp.float64).reshape((-1, 1))
    steps /= steps[:, -1:]
    steps += first
    borders, flat, samples = steps.reshape(-1), found.reshape(-1), found.shape[1]
    for begin in range(0, flat.size, _SEARCHED):
        ctx.check_time()
        end = min(begin + _SEARCHED, flat.size)
        row = xp.arange(begin, end) // samples
        base = row.astype(xp.float64) + start
        draws = xp.minimum(xp.asarray(draw(end - begin)) + base, xp.nextafter(base + 1, 0.0))
        flat[begin:end] = (xp.searchsorted(borders, draws, side="right") - row * classes).astype(found.dtype)
