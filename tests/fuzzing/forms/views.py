"""Operators that move or part data: Split, Slice, Transpose, Reshape, Squeeze, Concat, Expand, Tile, Pad and others."""

from __future__ import annotations

import numpy as np

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.registry import form
from tests.fuzzing.schemas import FLOATS, Rejected, Value

__all__ = ["parts_of", "view_of"]

_HUGE = 2**63 - 1


def parts_of(g: Builder, source: Value, axis: int | None = None, count: int = 0) -> list[Value]:
    """The parts of a Split: equal ones, or of given sizes."""
    if not source.rank:
        raise Rejected("a scalar has no parts")
    axis = g.integer(0, source.rank - 1) if axis is None else axis
    size = source.shape[axis]
    count = count or g.integer(1, 3)
    shown = axis - source.rank if g.opset >= 11 and g.chance(0.3) else axis
    if size % count == 0 and g.chance(0.5):
        return g.emit("Split", [source], count, axis=shown, num_outputs=count if g.opset >= 18 else None)
    if g.opset >= 18 and g.chance(0.2) and -(-size // count) * (count - 1) < size:
        return g.emit("Split", [source], count, axis=shown, num_outputs=count)
    cuts = sorted(g.integer(0 if g.chance(0.05) else min(1, size), size) for _ in range(count - 1))
    sizes = [end - begin for begin, end in zip([0, *cuts], [*cuts, size], strict=True)]
    if g.opset >= 13:
        return g.emit("Split", [source, g.ints(*sizes)], count, axis=shown)
    return g.emit("Split", [source], count, axis=shown, split=sizes)


def sliced(g: Builder, source: Value, *, steps: bool = True) -> Value:
    """A Slice of one or two axes: from either end, with steps, beyond the ends."""
    if not source.rank:
        raise Rejected("a scalar has no slices")
    axes = g.rng.sample(range(source.rank), min(source.rank, g.one(1, 1, 1, 2)))
    starts, ends, by = [], [], []
    for axis in axes:
        size = source.shape[axis]
        step = g.one(1, 1, 1, 2, 3, -1, -2) if steps and g.opset >= 10 else 1
        first = g.integer(0, max(size - 1, 0))
        last = g.integer(min(first + 1, size), size)
        if step < 0:
            first, last = last - 1 if g.chance(0.6) else _HUGE, first - 1
            last = last if last >= 0 else g.one(-_HUGE, -size - 1)
        elif g.chance(0.3):
            last = _HUGE if g.chance(0.7) else 2**31 - 1
        elif g.chance(0.2) and last < size:
            last -= size
        if step > 0 and first and g.chance(0.3):
            first -= size
        starts.append(first)
        ends.append(last)
        by.append(step)
    if g.opset < 10:
        return g.emit("Slice", [source], starts=starts, ends=ends, axes=axes)[0]
    shown = [axis - source.rank if g.opset >= 11 and g.chance(0.3) else axis for axis in axes]
    kind = np.int32 if g.chance(0.2) and not any(abs(one) > 2**31 - 1 for one in (*starts, *ends)) else np.int64
    operands = [g.const(np.array(one, kind)) for one in (starts, ends, shown)]
    if any(step != 1 for step in by) or g.chance(0.2):
        operands.append(g.const(np.array(by, kind)))
    return g.emit("Slice", [source, *operands])[0]


def transposed(g: Builder, source: Value) -> Value:
    """A Transpose in any order."""
    order = g.rng.sample(range(source.rank), source.rank)
    if g.chance(0.3) and source.rank >= 2:
        order = [*range(source.rank - 2), source.rank - 1, source.rank - 2]
    return g.emit("Transpose", [source], perm=None if g.chance(0.1) else order)[0]


def view_of(g: Builder, source: Value) -> Value:
    """A part of a value, or the value in another shape."""
    roll = g.rng.random()
    if roll < 0.4:
        return sliced(g, source)
    if roll < 0.55:
        return g.rng.choice(parts_of(g, source))
    if roll < 0.7:
        return transposed(g, source)
    if roll < 0.8:
        return g.reshaped(source, g.integer(1, 5))
    if roll < 0.9:
        return unsqueezed(g, source)
    return gathered(g, source)


def unsqueezed(g: Builder, source: Value) -> Value:
    """New axes of size 1."""
    count = g.one(1, 1, 2)
    axes = sorted(g.rng.sample(range(source.rank + count), count))
    if g.opset >= 13:
        if g.chance(0.3):
            axes = [axis - source.rank - count for axis in axes]
        return g.emit("Unsqueeze", [source, g.ints(*axes)])[0]
    return g.emit("Unsqueeze", [source], axes=axes)[0]


def gathered(g: Builder, source: Value) -> Value:
    """A Gather with constant indices: one, several, a range."""
    if not source.rank:
        raise Rejected("a scalar has no rows")
    axis = g.axis(source.rank)
    size = source.shape[axis]
    if not size:
        raise Rejected("nothing to gather")
    shape = g.one((), (1,), (3,), (2, 2), (size,))
    low = -size if g.opset >= 11 and g.chance(0.3) else 0
    indices = g.numbers.integers(low, size, shape).astype(g.one(np.int64, np.int64, np.int32))
    return g.emit("Gather", [source, g.const(indices)], axis=axis)[0]


@form(5)
def view(g: Builder) -> None:
    """A part of a value, of any type."""
    view_of(g, g.data(least=1, dtypes=() if g.chance(0.15) else (g.main,)))


@form(2)
def split(g: Builder) -> None:
    """The parts of a value."""
    parts_of(g, g.data(least=1))


@form(1.5)
def reshape(g: Builder) -> None:
    """A Reshape with zeros and minus ones, Flatten, or Squeeze."""
    source = g.data(least=1)
    roll = g.rng.random()
    if roll < 0.4:
        shape = [0 if g.chance(0.4) and place < source.rank else size for place, size in enumerate(source.shape)]
        if g.chance(0.5) and all(source.shape):
            shape[g.integer(0, len(shape) - 1)] = -1
        if g.chance(0.3):
            shape.append(1)
        allow = 1 if g.opset >= 14 and g.chance(0.1) and 0 not in shape else None
        g.emit("Reshape", [source, g.ints(*shape)], allowzero=allow)
    elif roll < 0.6:
        g.emit("Flatten", [source], axis=g.one(*range(source.rank + 1), None))
    else:
        wide = unsqueezed(g, source)
        ones = [place for place, size in enumerate(wide.shape) if size == 1]
        axes = g.rng.sample(ones, g.integer(1, len(ones)))
        if g.chance(0.15):
            g.emit("Squeeze", [wide])
        elif g.opset >= 13:
            g.emit("Squeeze", [wide, g.ints(*[axis - g.one(0, wide.rank) for axis in axes])])
        else:
            g.emit("Squeeze", [wide], axes=axes)


@form(1)
def reshape_by_computed_shape(g: Builder) -> None:
    """A Reshape to a shape that nodes compute, as exporters write it."""
    source = g.data(least=2)
    shape = g.emit("Shape", [source], keep=0)[0]
    first = g.emit("Gather", [shape, g.const(np.array(0, np.int64))], axis=0, keep=0, shapes=[()])[0]
    lifted = (
        g.emit("Unsqueeze", [first, g.ints(0)], keep=0)[0]
        if g.opset >= 13
        else g.emit("Unsqueeze", [first], axes=[0], keep=0)[0]
    )
    wanted = g.emit("Concat", [lifted, g.ints(-1)], axis=0, keep=0)[0]
    rest = int(np.prod(source.shape[1:]))
    if 0 in source.shape:
        raise Rejected("-1 beside nothing")
    g.emit("Reshape", [source, wanted], shapes=[(source.shape[0], rest)])


@form(3)
def concat(g: Builder) -> None:
    """Values of one shape beside each other, the same one twice sometimes."""
    source = g.data(least=1, dtypes=() if g.chance(0.1) else (g.main,))
    axis = g.integer(0, source.rank - 1)
    parts = [source]
    for _ in range(g.integer(0, 3)):
        rest = source.shape[:axis] + source.shape[axis + 1 :]
        found = [
            one
            for one in g.values
            if one.dtype == source.dtype
            and one.rank == source.rank
            and one.shape[:axis] + one.shape[axis + 1 :] == rest
        ]
        parts.append(g.rng.choice(found) if g.chance(0.7) else g.like(source))
    g.rng.shuffle(parts)
    g.emit("Concat", parts, axis=axis - source.rank if g.opset >= 11 and g.chance(0.3) else axis)


@form(1)
def expand_or_tile(g: Builder) -> None:
    """Expand and Tile, by a constant or a computed shape."""
    source = g.data(dtypes=() if g.chance(0.2) else (g.main,))
    if g.chance(0.5):
        repeats = [g.one(1, 1, 2, 3, 0 if g.chance(0.1) else 1) for _ in source.shape]
        g.emit("Tile", [source, g.const(np.array(repeats, np.int64))])
    else:
        shape = [g.one(1, size) if size == 1 or g.chance(0.2) else size for size in source.shape]
        shape = [
            g.integer(1, 4) if before == 1 and g.chance(0.5) else now
            for before, now in zip(source.shape, shape, strict=True)
        ]
        if g.chance(0.3):
            shape = [g.integer(1, 2), *shape]
        g.emit("Expand", [source, g.const(np.array(shape, np.int64))])


@form(2)
def pad(g: Builder) -> None:
    """Pad in every mode, with negative pads sometimes."""
    source = g.data(least=1, dtypes=(g.main,))
    mode = g.one("constant", "constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else []))
    low = -1 if g.chance(0.25) else 0
    pads = []
    for size in (*source.shape, *source.shape):
        most = max(0, size - 1) if mode in {"reflect", "wrap"} else 2
        pads.append(g.integer(max(low, -(size // 3)), min(most, 2)) if g.chance(0.6) else 0)
    value = g.one(0.0, 1.5, -2.0)
    if g.opset < 11:
        g.emit("Pad", [source], pads=pads, mode=mode, value=value)
        return
    operands: list[Value | None] = [source, None]
    axes = None
    if g.opset >= 18 and g.chance(0.4):
        chosen = g.rng.sample(range(source.rank), g.integer(1, source.rank))
        pads = [pads[axis + side * source.rank] for side in (0, 1) for axis in chosen]
        axes = g.ints(*[axis - g.one(0, source.rank) for axis in chosen])
    operands[1] = g.ints(*pads)
    if axes is not None or g.chance(0.5):
        operands.append(g.const(np.array(value), source.dtype) if g.chance(0.7) else None)
        operands.append(axes)
    g.emit("Pad", operands, mode=mode)


@form(1)
def blocks(g: Builder) -> None:
    """SpaceToDepth and DepthToSpace."""
    source = g.data(4)
    if g.chance(0.5):
        g.emit("SpaceToDepth", [source], blocksize=g.one(1, 2))
    else:
        count = g.one(1, 2)
        wide = g.emit("Concat", [source] * count * count, axis=1)[0]
        g.emit("DepthToSpace", [wide], blocksize=count, mode=g.one("DCR", "CRD") if g.opset >= 11 else None)


@form(0.7)
def triangle(g: Builder) -> None:
    """Trilu with an offset."""
    source = g.data(least=2, dtypes=(g.main, *FLOATS[:1]))
    offset = [g.const(np.array(g.one(-3, -1, 0, 1, 4), np.int64))] if g.chance(0.7) else []
    g.emit("Trilu", [source, *offset], upper=g.one(0, 1))


@form(0.7)
def reversed_sequences(g: Builder) -> None:
    """ReverseSequence along either axis."""
    source = g.data(least=2)
    time, batch = g.one((0, 1), (1, 0))
    bound = source.shape[time]
    if not bound:
        raise Rejected("no time")
    lengths = g.const(g.numbers.integers(1, bound + 1, source.shape[batch]).astype(np.int64))
    g.emit("ReverseSequence", [source, lengths], time_axis=time, batch_axis=batch)


@form(0.5)
def shape_values(g: Builder) -> None:
    """Shape, Size and what is made of them."""
    source = g.data(least=1)
    if g.chance(0.5):
        attributes = {"start": g.one(None, 0, 1, -1), "end": g.one(None, -1, 2)} if g.opset >= 15 else {}
        shape = g.emit("Shape", [source], **attributes)[0]
        if g.chance(0.5):
            g.emit("ConstantOfShape", [g.ints(*[g.integer(0, 3) for _ in range(g.integer(0, 3))])])
        else:
            g.emit("Mul", [shape, g.const(np.array(2, np.int64))])
    else:
        g.emit("Size", [source])
