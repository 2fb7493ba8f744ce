"""Operators that read indices, constants or fed at run time: Gather, Scatter, OneHot, Range and others."""

from __future__ import annotations

import numpy as np

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.registry import form
from tests.fuzzing.schemas import Rejected, Value

__all__ = ["indices"]


def indices(g: Builder, shape: tuple[int, ...], bound: int, *, negative: bool = True) -> Value:
    """Indices below a bound: constant, or fed at run time."""
    if bound <= 0:
        raise Rejected("nothing to index")
    kind = g.one("int64", "int64", "int32")
    if g.chance(0.4):
        return g.new_input(shape, kind, role="index" if negative else "count", bound=bound, symbolic=0.3)
    low = -bound if negative and g.opset >= 11 and g.chance(0.5) else 0
    return g.const(g.numbers.integers(low, bound, shape), kind)


@form(2)
def gather(g: Builder) -> None:
    """Gather and GatherElements."""
    source = g.data(least=1, dtypes=() if g.chance(0.2) else (g.main,))
    axis = g.axis(source.rank)
    if g.chance(0.6):
        shape = tuple(g.integer(1, 4) for _ in range(g.integer(0, 2)))
        g.emit("Gather", [source, indices(g, shape, source.shape[axis])], axis=axis if axis or g.chance(0.5) else None)
    else:
        shape = tuple([g.integer(1, max(1, size)) for size in source.shape])
        g.emit("GatherElements", [source, indices(g, shape, source.shape[axis])], axis=axis)


@form(1)
def gather_nd(g: Builder) -> None:
    """GatherND with batches."""
    source = g.data(least=1)
    batch = g.integer(0, source.rank - 1) if g.opset >= 12 and g.chance(0.4) else 0
    count = g.integer(1, source.rank - batch)
    bound = min(source.shape[batch : batch + count])
    shape = (*source.shape[:batch], g.integer(1, 3), count)
    g.emit("GatherND", [source, indices(g, shape, bound)], batch_dims=batch or None)


@form(1.2)
def scatter(g: Builder) -> None:
    """ScatterElements and ScatterND with every reduction, without doubled places where the order would count."""
    source = g.data(least=1)
    reduction = (
        g.one(None, "add", "mul", "max", "min")
        if g.opset >= 18
        else g.one(None, "add", "mul")
        if g.opset >= 16
        else None
    )
    axis = g.axis(source.rank)
    size = source.shape[axis]
    if not size or 0 in source.shape:
        raise Rejected("nothing to scatter into")
    if g.chance(0.5):
        count = g.integer(1, size)
        shape = [g.integer(1, one) for one in source.shape]
        shape[axis] = count
        if reduction is None:
            order = np.argsort(
                g.numbers.random([size if place == axis % source.rank else one for place, one in enumerate(shape)]),
                axis,
            )
            places = np.take(order, np.arange(count), axis)
        else:
            places = g.numbers.integers(0, size, shape)
        op_type = "Scatter" if g.opset < 11 else "ScatterElements"
        g.emit(op_type, [source, g.const(places.astype(np.int64)), g.weights(shape)], axis=axis, reduction=reduction)
        return
    rows = g.integer(1, source.shape[0])
    places = g.numbers.permutation(source.shape[0])[:rows].reshape(rows, 1)
    g.emit(
        "ScatterND",
        [source, g.const(places.astype(np.int64)), g.weights([rows, *source.shape[1:]])],
        reduction=reduction,
    )


@form(0.6)
def one_hot(g: Builder) -> None:
    """OneHot of indices that may lie outside."""
    depth = g.integer(1, 5)
    places = g.const(g.numbers.integers(-depth - 1, depth + 2, (g.integer(1, 4),)).astype(np.int64))
    values = g.const(np.array([0.0, 1.5]), g.main)
    g.emit("OneHot", [places, g.const(np.array(depth, np.int64)), values], axis=g.one(None, 0, -1), shapes=[])


@form(0.5)
def made_from_nothing(g: Builder) -> None:
    """Range, EyeLike, ConstantOfShape."""
    roll = g.rng.random()
    if roll < 0.35 and g.opset >= 11:
        count = g.integer(0, 6)
        start, step = g.one(0, 3, -2), g.one(1, 2, -1)
        numbers = [g.const(np.array(one), g.one("int64")) for one in (start, start + step * count, step)]
        g.emit("Range", numbers, shapes=[(count,)])
    elif roll < 0.6:
        g.emit("EyeLike", [g.data(2)], k=g.one(None, 0, 1, -1))
    else:
        from onnx import numpy_helper

        from tests.fuzzing.schemas import np_dtype

        filled = numpy_helper.from_array(np.array([g.one(0, 1, 2)], np_dtype(g.main)))
        g.emit("ConstantOfShape", [g.ints(*[g.integer(1, 4) for _ in range(g.integer(0, 3))])], value=filled)


@form(0.5)
def odd_sizes(g: Builder) -> None:
    """CenterCropPad and Compress, whose sizes are data."""
    source = g.data(least=1)
    if g.chance(0.5):
        shape = [max(1, size + g.integer(-2, 2)) for size in source.shape]
        g.emit("CenterCropPad", [source, g.ints(*shape)], shapes=[shape])
    else:
        axis = g.integer(0, source.rank - 1)
        chosen = g.numbers.integers(0, 2, source.shape[axis]).astype(bool)
        shape = [int(chosen.sum()) if place == axis else size for place, size in enumerate(source.shape)]
        g.emit("Compress", [source, g.const(chosen)], axis=axis, shapes=[shape])
