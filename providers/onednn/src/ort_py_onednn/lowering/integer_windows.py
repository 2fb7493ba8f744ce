"""Products of bytes where oneDNN has no exact ones: sums over windows in code of our own.

A product of matrices is a convolution whose pixels are rows. What follows it in straight lines, bounds and a last
rounding is part of the code; anything else is applied to its real numbers. `quantized` has the way of oneDNN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ort_py_onednn.binding.constants import F32, Argument, Binary, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.integer_windows import Residual, WindowSums, packed_factors
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.binding.widening import Widening
from ort_py_onednn.graph.holding import LIMITS
from ort_py_onednn.graph.operation import Combine, Operation, Post, Result
from ort_py_onednn.lowering.geometry import window
from ort_py_onednn.lowering.planner import Planner, Value
from ort_py_onednn.lowering.quantized import converted, last_steps

__all__ = ["window_sums"]

_LEAST, _MOST = 2.0**-126, 2.0**96
"""Scales whose products with sums of 32 bits are normal numbers of float32."""

_SMALL = 16.0
"""Summands up to this are put together."""

Reals: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


def window_sums(planner: Planner, operation: Operation) -> None:
    """Products of integers: X (N, C, H, W) of a convolution or (…, rows, C), packed weights, bias, scale of the sums,
    and the zero point of X where it is known in the run only.

    Attributes: the zero point of X elsewhere, and the sizes of the weights (outputs, inputs, height, width). A result
    of int32 is the sums themselves.
    """
    source = planner.value(operation.inputs[0])
    outputs, inputs, *kernel = operation.attributes["weights"]
    shape: tuple[int, ...] = ()
    if operation.attributes["is_matrix"]:
        shape = (*source.dims[:-1], outputs)
        pixels = (1, inputs, math.prod(shape[:-1]), 1)
        source = planner.view(planner.plain(source), Desc.channels_last(pixels, source.dtype), pixels)
    bias, scale = (None if name is None else _numbers(planner, name) for name in operation.inputs[2:4])
    chain = _Chain(
        np.broadcast_to(1.0 if scale is None else scale, outputs), np.zeros(outputs) if bias is None else bias
    )
    left = operation.posts[chain.take(operation.posts) :]
    result = operation.result
    element, zero = F32, 0
    place = window(source.dims[2:], kernel, operation.attributes)
    dims = (source.dims[0], outputs, *place.sizes)
    added: tuple[Residual, Value] | None = None
    if result is not None and left and not shape:
        added = _residual(planner, chain, left, dims, result)
        left = left if added is None else []
    if result is not None and (added or result.element == Element.S32 or not left):
        element, zero = result.element, result.zero
    if result is not None and element != F32 and not added:
        low, high = (bound - zero for bound in LIMITS.get(element, (-math.inf, math.inf)))
        chain.clip(low, high)
    wide = _widened(planner, operation, source, (*place.begin, *place.end))
    target = Desc.channels_last(dims, element)
    weights = planner.value(operation.inputs[1])
    residual = None if added is None else added[0]
    factors = planner.fixed(packed_factors(chain.scale, chain.bias, (chain.low, chain.high), zero, residual))
    layouts = wide.desc, weights.desc, factors.desc, target
    geometry = kernel, place.strides, place.dilations
    work = float(math.prod(target.dims) * inputs * math.prod(kernel))
    sums = planner.make_heavy(lambda: WindowSums(planner.library, *layouts, *geometry, residual), work)
    found = planner.new(target)
    given = {Argument.SRC: wide, Argument.SRC_1: planner.fixed(sums.table), Argument.WEIGHTS: weights}
    if added is not None:
        given[Argument.post_op(0)] = added[1]
    planner.emit(sums, given | {Argument.BIAS: factors, Argument.DST: found})
    if shape:
        found = planner.view(found, Desc.plain(shape, element), shape)
    if result is not None and element == F32:
        found = planner.apply(found, [*left, *last_steps(result)])
        found = converted(planner, found, result.element, Argument.DST, 1.0, 0)
    else:
        found = planner.apply(found, left)
    planner.bind(operation.outputs[0], found)


def _residual(
    planner: Planner, chain: _Chain, posts: Sequence[Post], dims: tuple[int, ...], result: Result
) -> tuple[Residual, Value] | None:
    """The tensor that posts add, and what is done around that; None where they are something else.

    Args:
        planner: The planner.
        chain: What comes before; gets the bounds of a rounding.
        posts: Those behind it.
        dims: Of the result.
        result: What it becomes.
    """
    before, behind = _Chain(np.ones(1), np.zeros(1)), _Chain(np.ones(1), np.zeros(1))
    low, high = -math.inf, math.inf
    rest = list(posts)
    rounds = rest[0] == Function(Eltwise.ROUND)
    if rounds:
        del rest[0]
        if rest and isinstance(rest[0], Function) and rest[0].algorithm == Eltwise.CLIP_V2:
            low, high = rest[0].alpha, rest[0].beta  # whole numbers, so that they may come before the rounding
            del rest[0]
    del rest[: before.take(rest)]
    post = rest.pop(0) if rest else None
    if (
        not isinstance(post, Combine)
        or post.algorithm != Binary.ADD
        or before.is_bounded
        or behind.take(rest) < len(rest)
    ):
        return None
    value = planner.value(post.value)
    if value.dims != dims or value.dtype not in LIMITS:
        return None
    chain.clip(low, high)
    behind.clip(*(bound - result.zero for bound in LIMITS[result.element]))
    first, second = ((float(one.scale[0]), float(one.bias[0])) for one in (before, behind))
    residual = Residual(value.dtype, rounds, first, second, (behind.low, behind.high))
    return residual, planner.in_layout(value, Desc.channels_last(dims, value.dtype))


def _widened(planner: Planner, operation: Operation, source: Value, pads: tuple[int, ...]) -> Value:
    """The first factor as numbers of 16 bits, less its zero point."""
    source = planner.in_layout(source, Desc.channels_last(source.dims, source.dtype))
    given = {Argument.SRC: source}
    number: int | None = operation.attributes["zero"]
    if len(operation.inputs) > 4 and operation.inputs[4]:
        number = None
        zero = planner.reshaped(planner.value(operation.inputs[4]), (1,))
        given[Argument.zero_points(Argument.SRC)] = planner.plain(zero)
    widening = planner.make(lambda: Widening(planner.library, source.desc, pads, number), source.desc)
    wide = planner.new(widening.arguments[Argument.DST])
    planner.emit(widening, given | {Argument.SRC_1: planner.fixed(widening.table), Argument.DST: wide})
    return wide


def _numbers(planner: Planner, name: str) -> Reals:
    value = planner.value(name)
    data = planner.buffer_of(planner.plain(value)).data
    assert data is not None, "a constant has its bytes"
    return data.view(np.float32)[: math.prod(value.dims)].astype(np.float64)


class _Chain:
    """``min(max(scale · sum + bias, low), high)``, to which functions are added at the end.

    They are left alone where a number in between might become too large or too small for float32, or where one of two
    summands might round away what is left when the other is added.

    Args:
        scale: Of each output.
        bias: Likewise.
    """

    def __init__(self, scale: Reals, bias: Reals) -> None:
        self.scale, self.bias = scale, bias
        self.low, self.high = -math.inf, math.inf

    def take(self, posts: Sequence[Post]) -> int:
        """Add functions as long as they can be; return how many."""
        for place, post in enumerate(posts):
            if not isinstance(post, Function) or not self._takes(post):
                return place
        return len(posts)

    def _takes(self, function: Function) -> bool:
        match function.algorithm:
            case Eltwise.LINEAR if function.alpha > 0 and self._holds(function):
                self.scale, self.bias = self.scale * function.alpha, self.bias * function.alpha + function.beta
                self.low, self.high = (bound * function.alpha + function.beta for bound in (self.low, self.high))
            case Eltwise.RELU if function.alpha == 0:
                self.clip(0.0, math.inf)
            case Eltwise.CLIP_V2:
                self.clip(function.alpha, function.beta)
            case _:
                return False
        return True

    def _holds(self, function: Function) -> bool:
        """Return whether a linear function of what there is differs in nothing from one of the sum."""
        after = self.scale * function.alpha
        for scales in (self.scale, after):
            used = np.abs(scales[scales != 0])
            if used.size and not _LEAST <= used.min() <= used.max() <= _MOST:
                return False
        summand = float(np.abs(self.bias).max(initial=0.0))
        if summand and function.beta:
            return max(summand * function.alpha, summand, abs(function.beta)) <= _SMALL
        return summand * function.alpha <= _MOST

    @property
    def is_bounded(self) -> bool:
        """Whether anything is cut off."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    def clip(self, low: float, high: float) -> None:
        """Add bounds."""
        self.low, self.high = (min(max(bound, low), high) for bound in (self.low, self.high))
