"""Adagrad, Adam and Momentum: one step of an optimiser on any number of tensors.

Learning rate and count are read on the host, where all that depends on them alone is computed in double precision.
The tensors are cut into blocks that stay in the cache through the steps of a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel, tensors
from ort_py.devices import HOST
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.broadcasting import broadcast_dims

__all__ = ["adagrad", "adam", "momentum"]

_DOMAIN = "ai.onnx.preview.training"
_ELEMENTS = 32768
_TYPES = {name: tensors(DataType.FLOAT, DataType.DOUBLE) for name in ("T1", "T3")}

_Step: TypeAlias = Callable[..., tuple[Array, ...]]
"""``f(x, gradient, *state)`` → the new values of all but the gradient."""


@kernel("Adagrad", domain=_DOMAIN, since=1, types=_TYPES, outputs=None, host_inputs=frozenset({0, 1}))
def adagrad(
    ctx: KernelContext,
    rate: Array,
    count: Array,
    *inputs: Array,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Array, ...]:
    """ai.onnx.preview.training.Adagrad-1: inputs are all X, all gradients, all sums of squares; float or double.

    Raises:
        InvalidArgument: The inputs are not groups of three, their shapes differ, or rate or count is not a scalar.
    """
    xp = ctx.xp
    r, t = _scalar(ctx, rate, "R"), _scalar(ctx, count, "T")
    adjusted = r / (1 + t * decay_factor)

    def step(x: Array, g: Array, h: Array) -> tuple[Array, ...]:
        g = _regularized(x, g, norm_coefficient)
        h = h + xp.multiply(g, g)
        return x - adjusted * g / (xp.sqrt(h) + epsilon), h

    return _stepped(ctx, inputs, 2, step)


@kernel("Adam", domain=_DOMAIN, since=1, types=_TYPES, outputs=None, host_inputs=frozenset({0, 1}))
def adam(
    ctx: KernelContext,
    rate: Array,
    count: Array,
    *inputs: Array,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Array, ...]:
    """ai.onnx.preview.training.Adam-1: inputs are all X, gradients, averages V and averages of squares H.

    Raises:
        InvalidArgument: The inputs are not groups of four, their shapes differ, or rate or count is not a scalar.
    """
    xp = ctx.xp
    r, t = _scalar(ctx, rate, "R"), _scalar(ctx, count, "T")
    adjusted = r * sqrt(1 - beta**t) / (1 - alpha**t) if t > 0 else r

    def step(x: Array, g: Array, v: Array, h: Array) -> tuple[Array, ...]:
        g = _regularized(x, g, norm_coefficient)
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * xp.multiply(g, g)
        x = x - adjusted * v / (xp.sqrt(h) + epsilon)
        return (1 - norm_coefficient_post) * x if norm_coefficient_post else x, v, h

    return _stepped(ctx, inputs, 3, step)


@kernel("Momentum", domain=_DOMAIN, since=1, types=_TYPES, outputs=None, host_inputs=frozenset({0, 1}))
def momentum(
    ctx: KernelContext,
    rate: Array,
    count: Array,
    *inputs: Array,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Array, ...]:
    """ai.onnx.preview.training.Momentum-1, standard or Nesterov's: inputs are all X, all gradients, all momenta V.

    Raises:
        InvalidArgument: The mode is unknown, the inputs are not groups of three, their shapes differ, or rate or count
            is not a scalar.
    """
    if mode not in ("standard", "nesterov"):
        raise InvalidArgument(f"mode is '{mode}'.", where=ctx.node.location, fix="Use 'standard' or 'nesterov'.")
    r, t = _scalar(ctx, rate, "R"), _scalar(ctx, count, "T")
    factor = beta if t > 0 else 1.0

    def step(x: Array, g: Array, v: Array) -> tuple[Array, ...]:
        g = _regularized(x, g, norm_coefficient)
        v = alpha * v + factor * g
        return x - r * (g + alpha * v if mode == "nesterov" else v), v

    return _stepped(ctx, inputs, 2, step)


def _regularized(x: Array, g: Array, coefficient: float) -> Array:
    return coefficient * x + g if coefficient else g


def _scalar(ctx: KernelContext, value: Array, name: str) -> float:
    if value.size != 1:
        raise InvalidArgument(
            f"{name} has the shape {list(value.shape)}.", where=ctx.node.location, fix=f"{name} must be one number."
        )
    return value.reshape(()).item()  # type: ignore[no-any-return]  # a Python float or int


def _stepped(ctx: KernelContext, inputs: Sequence[Array], kept: int, step: _Step) -> tuple[Array, ...]:
    """`step` on every group of `kept` + 1 inputs (X, gradient, state): all new X, then all of each new state."""
    if not inputs or len(inputs) % (kept + 1):
        raise InvalidArgument(
            f"{ctx.node.op_type} has {len(inputs)} tensors.",
            where=ctx.node.location,
            fix=f"Each optimised tensor brings {kept + 1}: itself, its gradient and {kept - 1} of its state.",
        )
    count = len(inputs) // (kept + 1)
    groups = [_one(ctx, [inputs[part * count + index] for part in range(kept + 1)], step) for index in range(count)]
    return tuple(group[part] for part in range(kept) for group in groups)


def _one(ctx: KernelContext, group: Sequence[Array], step: _Step) -> tuple[Array, ...]:
    xp = ctx.xp
    shape = tuple(group[0].shape)
    if any(tuple(array.shape) != shape for array in group):
        if broadcast_dims([array.shape for array in group], ctx.node.location) != shape:
            raise InvalidArgument(
                f"The tensors of one group have the shapes {', '.join(str(list(array.shape)) for array in group)}.",
                where=ctx.node.location,
                fix="Gradient and state must have the shape of the tensor they belong to, or broadcast to it.",
            )
        group = [xp.broadcast_to(array, shape) for array in group]
    types = [array.dtype for index, array in enumerate(group) if index != 1]
    outs = tuple(xp.empty(shape, dtype) for dtype in types)
    size = outs[0].size
    contiguous = all(array.flags.c_contiguous for array in group)
    if ctx.device != HOST or size <= _ELEMENTS or not contiguous:
        for out, value in zip(outs, step(*group), strict=True):
            out[...] = value
        return outs
    flat, flat_outs = [array.reshape(-1) for array in group], [out.reshape(-1) for out in outs]

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, _ELEMENTS):
            chosen = slice(first, min(first + _ELEMENTS, stop))
            for out, value in zip(flat_outs, step(*(array[chosen] for array in flat)), strict=True):
                out[chosen] = value

    ctx.parallel_for(size, _ELEMENTS, part)
    return outs
