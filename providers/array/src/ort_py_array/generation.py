"""Constant, ConstantOfShape, Range, EyeLike, OneHot: tensors made from a few numbers.

Shapes, limits and depths are host inputs; every result whose size they decide is announced to `check_allocation`.
"""

from __future__ import annotations

from math import ceil, inf, isfinite, prod
from typing import Any

import numpy as np  # dtypes and host values only

from ort_py import errors
from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelForms, kernel
from ort_py.devices import HOST
from ort_py.dtypes import numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE, constant_input, host_ints, normalized_axis, shape_error
from ort_py_array.parts import LARGE_PART, assign, by_parts

_AT_A_TIME = 1 << 20
"""Numbers that are computed at a time."""

_CONSTANT_FORMS: dict[str, Any] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


def constant(ctx: KernelContext) -> KernelCallable:
    """Constant-1..25: the tensor in the one attribute that is set; a fresh copy each time.

    Raises:
        InvalidArgument: No attribute, or several, are set.
        NotImplemented: The value is sparse; nothing after this node would take it.
    """
    attributes = ctx.node.attributes
    if len(attributes) != 1:
        raise InvalidArgument(
            f"Constant has {len(attributes)} values: {', '.join(attributes) or 'none'}.",
            where=ctx.node.location,
            fix="Exactly one of its attributes must be set.",
        )
    ((name, value),) = attributes.items()
    if name == "sparse_value":
        raise errors.NotImplemented(
            "Constant with a sparse value.", where=ctx.node.location, fix="Write it with the attribute 'value'."
        )
    # Here the values are still NumPy's, whatever the provider's array module is.
    host = value if name == "value" else np.array(value, _CONSTANT_FORMS[name])
    array = host if host.dtype.kind == "O" else ctx.xp.asarray(host)
    copy: KernelCallable = array.copy
    return copy


def constant_of_shape(ctx: KernelContext) -> KernelCallable:
    """ConstantOfShape-9..25: a tensor of the host shape, filled with the one element of `value` (float32 0).

    Raises:
        InvalidArgument: A size is negative, or the shape has other than one axis.
        LimitError: The result would be too large.
    """
    value = ctx.node.attributes.get("value")
    dtype = np.dtype(np.float32) if value is None else value.dtype
    fill = 0.0 if value is None else value.reshape(-1)[0].item()

    def run(shape_input: Array) -> Array:
        if shape_input.ndim != 1:
            raise InvalidArgument(
                f"The shape was given as a tensor of shape {tuple(shape_input.shape)}.",
                where=ctx.node.location,
                fix="Give a list of sizes: a tensor with one axis.",
            )
        shape = host_ints(shape_input) or ()
        if min(shape, default=0) < 0:
            raise InvalidArgument(
                f"The shape {shape} has a negative size.", where=ctx.node.location, fix="Every size must be 0 or more."
            )
        ctx.check_allocation(shape, dtype)
        return ctx.xp.full(shape, fill, dtype)

    return run


@kernel("Range", since=11, until=27, host_inputs=frozenset({0, 1, 2}))
def arange(ctx: KernelContext, start: Array, limit: Array, delta: Array, *, stash_type: int = 1) -> Array:
    """Range-11..27: start + i * delta for as many i as stay before `limit`; all three are host scalars.

    Floats are computed in float64 and rounded once, which is at least as exact as any `stash_type` (27).

    Raises:
        InvalidArgument: One of them is several numbers or none, `delta` is 0, or a number is not finite.
        LimitError: The result would be too large.
    """
    xp, dtype = ctx.xp, start.dtype
    if not start.size == limit.size == delta.size == 1:
        raise shape_error(
            "Range takes one number each for start, limit and delta.",
            ctx.node.location,
            [start.shape, limit.shape, delta.shape],
        )
    first, last, step = start.item(), limit.item(), delta.item()
    if dtype.kind in "iu" and step:
        count = len(range(first, last, step))
        if count > LARGE:
            ctx.check_allocation((count,), dtype)
        y = xp.empty((count,), dtype)
        for begin in range(0, count, LARGE_PART):
            ctx.check_time()
            end = min(begin + LARGE_PART, count)
            y[begin:end] = xp.arange(first + begin * step, first + end * step, step, dtype)
        return y
    where = ctx.node.location
    if step == 0 or not all(isfinite(number) for number in (first, last, step)):
        raise InvalidArgument(
            f"Range from {first} to {last} in steps of {step}.",
            where=where,
            fix="The step must not be 0, and all three numbers must be finite.",
        )
    ratio = (last - first) / step
    if ratio == inf:
        raise InvalidArgument(
            f"Range from {first} to {last} in steps of {step} has no end.",
            where=where,
            fix="Give a step other than 0, and finite numbers.",
        )
    count = max(0, ceil(ratio))
    ctx.check_allocation((count,), dtype)
    y = xp.empty((count,), dtype)
    for begin in range(0, count, _AT_A_TIME):
        ctx.check_time()
        places = xp.arange(begin, min(begin + _AT_A_TIME, count), dtype=xp.float64)
        xp.multiply(places, step, places)
        y[begin : begin + _AT_A_TIME] = xp.add(places, first, places).astype(dtype)
    return y


@kernel("EyeLike", since=9, until=22, strided=True)
def eye_like(ctx: KernelContext, x: Array, *, dtype: int | None = None, k: int = 0) -> Array:
    """EyeLike-9..22: ones on diagonal `k` of a matrix of the input's shape; `dtype`, else the input's type.

    Raises:
        InvalidArgument: The input is not a matrix.
        LimitError: The result would be too large: an input that repeats one number takes less memory.
    """
    if x.ndim != 2:
        raise InvalidArgument(
            f"EyeLike needs a matrix, not a tensor of shape {tuple(x.shape)}.",
            where=ctx.node.location,
            fix="Feed a tensor of rank 2.",
        )
    kind = x.dtype if dtype is None else numpy_dtype(dtype)
    ctx.check_allocation(x.shape, kind)
    rows, columns = x.shape
    if x.size <= LARGE_PART or ctx.device != HOST:
        return ctx.xp.eye(rows, columns, k, kind)
    return _eye_by_parts(ctx, rows, columns, k, kind)


def _eye_by_parts(ctx: KernelContext, rows: int, columns: int, k: int, kind: Any) -> Array:
    xp = ctx.xp
    y = xp.zeros((rows, columns), kind)  # its memory is not touched before ones are written to it

    def part(start: int, stop: int) -> None:
        first, last = max(start, -k), min(stop, columns - k)
        if first < last:
            places = xp.arange(first, last)
            y[places, places + k] = 1

    ctx.parallel_for(rows, max(1, LARGE_PART // columns), part)
    return y


def one_hot(ctx: KernelContext) -> KernelCallable:
    """OneHot-9..28: `values` = (off, on), on where the new axis' position is the index.

    Negative indices count from the end (from 11); an index outside ``[-depth, depth)`` is off everywhere.

    Raises:
        InvalidArgument: `axis` is out of range, `depth` is not positive or not one number, or `values` are not two.
        LimitError: The result would be too large.
    """
    where, axis = ctx.node.location, ctx.node.attributes.get("axis", -1)
    fill = _filled if ctx.device == HOST else _compared

    def run(indices: Array, depth: Array, values: Array, out: Array | None = None) -> Array:
        numbers = host_ints(depth) or ()
        if len(numbers) != 1 or numbers[0] < 1:
            raise InvalidArgument(
                f"OneHot has the depth {numbers}.", where=where, fix="It must be one positive number."
            )
        if values.shape != (2,):
            raise InvalidArgument(
                f"OneHot has values of shape {tuple(values.shape)}.",
                where=where,
                fix="They must be two, for off and on: shape (2,).",
            )
        (size,) = numbers
        place = normalized_axis(axis, indices.ndim + 1, where)
        if out is None:
            shape = (*indices.shape[:place], size, *indices.shape[place:])
            if indices.size * size > LARGE:
                ctx.check_allocation(shape, values.dtype)
            out = ctx.xp.empty(shape, values.dtype)
        if indices.size:
            fill(ctx, indices.astype(ctx.xp.int64, copy=False), values, place, out)
        return out

    return KernelForms(3, run, run if constant_input(ctx, 1) is not None else None)


def _filled(ctx: KernelContext, indices: Array, values: Array, place: int, out: Array) -> None:
    """Each index written to its place: a fraction of what comparing all elements costs."""
    xp, size = ctx.xp, out.shape[place]
    single = indices.size == 1  # one step of a loop
    low, high = (indices.item(),) * 2 if single else (indices.min().item(), indices.max().item())
    if low < -size or high >= size:
        _compared(ctx, indices, values, place, out)
        return
    assign(ctx, out, values[0:1])
    if single:
        out.reshape(-1)[low] = values[1]
        return
    lines, inner = prod(indices.shape[:place]), prod(indices.shape[place:])
    chosen, places, positions = out.reshape((lines, size, inner)), indices.reshape((lines, inner)), xp.arange(inner)

    def part(first: int, last: int) -> None:
        if inner == 1:
            chosen[:, :, 0][xp.arange(first, last), places[first:last, 0]] = values[1:2]
        else:
            chosen[xp.arange(first, last).reshape((-1, 1)), places[first:last], positions] = values[1:2]

    if indices.size <= LARGE_PART:
        part(0, lines)
    else:
        ctx.parallel_for(lines, max(1, lines * LARGE_PART // indices.size), part)


def _compared(ctx: KernelContext, indices: Array, values: Array, place: int, out: Array) -> None:
    """Indices compared with the positions of the axis: never waits for a device, and knows indices outside."""
    xp, size = ctx.xp, out.shape[place]
    wrapped = xp.expand_dims(indices, place)
    wrapped = xp.where(wrapped < 0, xp.add(wrapped, size), wrapped)
    positions = xp.arange(size, dtype=xp.int64).reshape((size,) + (1,) * (indices.ndim - place))

    def step(some: Array, wanted: Array, here: Array) -> None:
        some[...] = xp.where(xp.equal(wanted, here), values[1:2], values[0:1])

    by_parts(ctx, step, out, wrapped, positions)


KERNELS: list[KernelDef] = [
    KernelDef("Constant", constant, since=1, until=25, implementation=f"{__name__}:constant"),
    KernelDef(
        "ConstantOfShape",
        constant_of_shape,
        since=9,
        until=25,
        host_inputs=frozenset({0}),
        implementation=f"{__name__}:constant_of_shape",
    ),
    KernelDef(
        "OneHot",
        one_hot,
        since=9,
        until=28,
        out=True,
        strided=True,
        host_inputs=frozenset({1}),
        implementation=f"{__name__}:one_hot",
    ),
]
