"""Rows of operators that move elements: shapes, cuts, joins, paddings, rearrangements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Draw, Given, Row

__all__ = ["ROWS"]


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


def _transpose(d: Draw) -> Given:
    x = d.array(d.shape())
    if d.flag():
        return Given([x], {}, [x.T])
    perm = tuple(int(axis) for axis in np.random.default_rng(d.integer(0, 99)).permutation(x.ndim))
    return Given([x], {"perm": perm}, [x.transpose(perm)])


def _concat(d: Draw) -> Given:
    shape = list(d.shape(1))
    axis = 1 if d.version == 1 and len(shape) > 1 else d.axis(len(shape), negative=d.version >= 11)
    arrays = []
    for _ in range(d.integer(1, 4)):
        shape[axis] = d.integer(0, 3)
        arrays.append(d.array(shape))
    attributes = {} if d.version == 1 and axis == 1 else {"axis": axis}
    return Given(arrays, attributes, [np.concatenate(arrays, axis)])


def _split(d: Draw) -> Given:
    shape = list(d.shape(1))
    axis = d.axis(len(shape), negative=d.version >= 11)
    sizes = [d.integer(0, 3) for _ in range(d.integer(1, 3))]
    if d.flag():  # equal parts
        sizes = [sizes[0]] * len(sizes)
    shape[axis] = sum(sizes)
    x = d.array(shape)
    parts = np.split(x, np.cumsum(sizes)[:-1], axis)
    attributes: dict[str, Any] = {"axis": axis}
    inputs = [x]
    if d.version in (1, 13, 18) and (len(set(sizes)) > 1 or d.flag()):
        inputs.append(np.array(sizes, d.dtype if d.version == 1 else np.int64))
    elif len(set(sizes)) > 1 or (d.version < 13 and d.flag()):
        attributes["split"] = tuple(sizes)
    elif d.version == 18:
        attributes["num_outputs"] = len(sizes)
    return Given(inputs, attributes, parts, outputs=len(sizes))


def _reshape(d: Draw) -> Given:
    shape = d.shape(1)
    x = d.array(shape)
    target = list(np.random.default_rng(d.integer(0, 99)).permutation(shape))
    made = x.reshape(target)
    if 0 not in target and d.flag():
        target[d.integer(0, len(target) - 1)] = -1
    attributes: dict[str, Any] = {}
    if 0 in target:
        if d.version < 14:
            target = [shape[0], *([-1] if x.size else [size for size in shape[1:] if size])]
            # A zero means the input's size there.
            made = (
                x.reshape([shape[axis] if size == 0 else size for axis, size in enumerate(target)])
                if _fits(shape, target)
                else x
            )
            target = target if _fits(shape, target) else [0] * len(shape)
        else:
            attributes["allowzero"] = 1
    if d.version == 1:
        return Given([x], {"shape": tuple(int(size) for size in target)}, [made])
    return Given([x, _ints(*target)], attributes, [made])


def _fits(shape: tuple[int, ...], target: list[Any]) -> bool:
    sizes = [shape[axis] if size == 0 else size for axis, size in enumerate(target) if axis < len(shape)]
    return len(target) <= len(shape) and -1 not in target and int(np.prod(sizes)) == int(np.prod(shape))


def _flatten(d: Draw) -> Given:
    x = d.array(d.shape())
    axis = d.integer(-x.ndim if d.version >= 11 else 0, x.ndim)
    rows = int(np.prod(x.shape[: axis + x.ndim if axis < 0 else axis]))
    columns = int(np.prod(x.shape[axis + x.ndim if axis < 0 else axis :]))
    return Given([x], {"axis": axis}, [x.reshape(rows, columns)])


def _squeeze(d: Draw) -> Given:
    shape = list(d.shape(1, 3))
    for _ in range(d.integer(1, 2)):
        shape.insert(d.integer(0, len(shape)), 1)
    x = d.array(shape)
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    if d.flag():
        return Given([x], {}, [x.squeeze()])
    axes = ones[: d.integer(1, len(ones))]
    made = x.squeeze(tuple(axes))
    signed = [axis - len(shape) if d.version >= 11 and d.flag() else axis for axis in axes]
    return Given([x, _ints(*signed)], {}, [made]) if d.version >= 13 else Given([x], {"axes": tuple(signed)}, [made])


def _unsqueeze(d: Draw) -> Given:
    x = d.array(d.shape(0, 3))
    count = d.integer(1, 2)
    rank = x.ndim + count
    axes = sorted({int(axis) for axis in np.random.default_rng(d.integer(0, 99)).permutation(rank)[:count]})
    made = np.expand_dims(x, tuple(axes))
    signed = [axis - rank if d.version >= 11 and d.flag() else axis for axis in axes]
    return Given([x, _ints(*signed)], {}, [made]) if d.version >= 13 else Given([x], {"axes": tuple(signed)}, [made])


def _slice(d: Draw) -> Given:
    shape = d.shape(1)
    x = d.array(shape)
    axes = sorted({d.axis(len(shape), negative=False) for _ in range(d.integer(1, len(shape)))})
    starts, stops, steps = ([d.integer(-6, 6) for _ in axes] for _ in range(3))
    steps = [step or 1 for step in steps] if d.version >= 10 else [1] * len(axes)
    made = x
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        made = made.take(_cut(shape[axis], start, stop, step), axis)
    if d.version == 1:
        return Given([x], {"starts": tuple(starts), "ends": tuple(stops), "axes": tuple(axes)}, [made])
    inputs = [x, *(np.array(values, d.other("Tind")) for values in (starts, stops, axes, steps))]
    kind = inputs[1].dtype
    return Given([x, *(one.astype(kind) for one in inputs[1:])], {}, [made])


def _cut(size: int, start: int, stop: int, step: int) -> Any:
    """Places that a slice takes, with start and end clamped in the words of the specification."""
    start, stop = (place + size if place < 0 else place for place in (start, stop))
    if step > 0:
        return np.arange(min(max(start, 0), size), min(max(stop, 0), size), step)
    return np.arange(min(max(start, 0), size - 1), min(max(stop, -1), size - 1), step)


def _expand(d: Draw) -> Given:
    shape = d.shape()
    x = d.array(d.broadcastable(shape))
    return Given([x, _ints(*shape)], {}, [np.broadcast_to(x, np.broadcast_shapes(x.shape, shape))])


def _tile(d: Draw) -> Given:
    x = d.array(d.shape(1))
    if d.version == 1:
        axis, times = d.axis(x.ndim, negative=False), d.integer(0, 3)
        repeats = [times if one == axis else 1 for one in range(x.ndim)]
        scalars = (np.array(value, d.dtype) for value in (times, axis))
        made = np.concatenate([x[(slice(None),) * axis + (slice(0, 0),)], *[x] * times], axis)
        return Given([x, *(one.reshape(1) for one in scalars)], {}, [made])
    repeats = [d.integer(0, 3) for _ in x.shape]
    return Given([x, _ints(*repeats)], {}, [np.tile(x, repeats)])


def _pad(d: Draw) -> Given:
    shape = d.shape(1, least=1)
    x = d.array(shape)
    mode = d.pick(("constant", "reflect", "edge", *(("wrap",) if d.version >= 19 else ())))
    room = [size - 1 if mode == "reflect" else size if mode == "wrap" else 2 for size in shape]
    before, after = ([d.integer(0, min(2, most)) for most in room] for _ in range(2))
    widths = list(zip(before, after, strict=True))
    fill = d.array((), special=False) if d.version >= 11 else np.array(1.5, x.dtype)
    given = mode == "constant" and bool(d.flag())
    if x.dtype == object and mode == "constant":
        given = True
    arguments = {"constant_values": fill if given else np.zeros((), x.dtype)} if mode == "constant" else {}
    made = _padded(x, widths, mode, arguments)
    if d.version < 11:
        attributes: dict[str, Any] = {"mode": mode, "paddings" if d.version == 1 else "pads": (*before, *after)}
        return Given([x], {**attributes, **({"value": 1.5} if given else {})}, [made])
    inputs = [x, _ints(*before, *after), *([fill] if given else [])]
    return Given(inputs, {"mode": mode}, [made])


def _padded(x: Any, widths: list[tuple[int, int]], mode: str, arguments: dict[str, Any]) -> Any:
    """`np.pad` on places, so that every element type can be padded."""
    if mode == "constant":
        made = np.full([size + sum(width) for size, width in zip(x.shape, widths, strict=True)], 0).astype(x.dtype)
        made[...] = arguments["constant_values"]
        made[tuple(slice(low, low + size) for size, (low, _) in zip(x.shape, widths, strict=True))] = x
        return made
    places = np.pad(np.arange(x.size).reshape(x.shape), widths, mode=mode)  # type: ignore[call-overload]
    return x.reshape(-1)[places]


def _depth_to_space(d: Draw) -> Given:
    n, c, h, w, b = (d.integer(1, 3) for _ in range(5))
    x = d.array((n, c * b * b, h, w))
    mode = d.pick(("DCR", "CRD")) if d.version >= 11 else "DCR"
    parts = x.reshape(n, b, b, c, h, w) if mode == "DCR" else x.reshape(n, c, b, b, h, w)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    made = parts.transpose(order).reshape(n, c, h * b, w * b)
    return Given([x], {"blocksize": b, **({"mode": mode} if d.version >= 11 else {})}, [made])


def _space_to_depth(d: Draw) -> Given:
    n, c, h, w, b = (d.integer(1, 3) for _ in range(5))
    x = d.array((n, c, h * b, w * b))
    made = x.reshape(n, c, h, b, w, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h, w)
    return Given([x], {"blocksize": b}, [made])


def _reverse_sequence(d: Draw) -> Given:
    shape = d.shape(2, 3, least=1)
    x = d.array(shape)
    batch = d.integer(0, 1)
    lengths = np.array([d.integer(1, shape[1 - batch]) for _ in range(shape[batch])], np.int64)
    made = x.copy()
    for entry, length in enumerate(lengths):
        place: list[Any] = [slice(None)] * 2
        place[batch], place[1 - batch] = entry, slice(0, length)
        made[tuple(place)] = made[tuple(place)][::-1]
    return Given([x, lengths], {"batch_axis": batch, "time_axis": 1 - batch}, [made])


ROWS = [
    Row("Transpose", _transpose),
    Row("Concat", _concat),
    Row("Split", _split),
    Row("Reshape", _reshape),
    Row("Flatten", _flatten),
    Row("Squeeze", _squeeze),
    Row("Unsqueeze", _unsqueeze),
    Row("Slice", _slice),
    Row("Expand", _expand),
    Row("Tile", _tile),
    Row("Pad", _pad),
    Row("DepthToSpace", _depth_to_space),
    Row("SpaceToDepth", _space_to_depth),
    Row("ReverseSequence", _reverse_sequence),
]
