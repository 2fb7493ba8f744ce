"""Rows of operators that move elements: shapes, cuts, joins, gathers, scatters, choices, orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.dtypes import data_type_of

from .row import Draw, Given, Row, as_type, is_floating, wide

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


def _gather(d: Draw) -> Given:
    x = d.array(d.shape(1, least=1))
    axis = d.axis(x.ndim)
    low = -x.shape[axis] if d.version >= 11 else 0
    indices = d.array(d.shape(0, 2), d.other("Tind"), low, x.shape[axis] - 1, special=False)
    return Given([x, indices], {"axis": axis}, [np.take(x, indices, axis)])


def _gather_elements(d: Draw) -> Given:
    shape = d.shape(1, least=1)
    x = d.array(shape)
    axis = d.axis(x.ndim)
    places = tuple(d.integer(0, size) for size in shape)
    indices = d.array(places, d.other("Tind"), -shape[axis], shape[axis] - 1, special=False)
    trimmed = x[tuple(slice(None) if one == axis % x.ndim else slice(size) for one, size in enumerate(places))]
    return Given(
        [x, indices], {"axis": axis}, [np.take_along_axis(trimmed, indices.astype(np.int64) % shape[axis], axis)]
    )


def _gather_nd(d: Draw) -> Given:
    shape = d.shape(1, least=1)
    x = d.array(shape)
    batch = d.integer(0, len(shape) - 1) if d.version >= 12 else 0
    depth = d.integer(1, len(shape) - batch)
    lead = (*shape[:batch], *d.shape(0, 2))
    indices = np.stack(
        [d.array(lead, np.int64, -shape[batch + k], shape[batch + k] - 1, special=False) for k in range(depth)], axis=-1
    )
    grid = np.indices(lead)[:batch]
    made = x[(*grid, *np.moveaxis(indices, -1, 0))]
    return Given([x, indices], {"batch_dims": batch} if d.version >= 12 else {}, [made])


def _scatter_elements(d: Draw) -> Given:
    shape = d.shape(1, least=1)
    x = d.array(shape, special=False)
    axis = d.axis(x.ndim)
    places = tuple(d.integer(0, size) for size in shape)
    # Every target once, since the order of two writes is open.
    order = np.argsort(np.random.default_rng(d.integer(0, 99)).random(shape), axis)
    cut = tuple(slice(size) for size in places)
    indices = np.ascontiguousarray(order[cut]).astype(d.other("Tind"))
    updates = d.array(places, special=False)
    made = x.copy()
    np.put_along_axis(
        made[tuple(slice(None) if one == axis % x.ndim else slice(size) for one, size in enumerate(places))],
        indices.astype(np.int64),
        updates,
        axis,
    )
    return Given([x, indices, updates], {"axis": axis}, [made])


def _scatter_nd(d: Draw) -> Given:
    shape = d.shape(1, least=1)
    x = d.array(shape, special=False)
    depth = d.integer(1, len(shape))
    places = [tuple(int(k) for k in place) for place in np.ndindex(*shape[:depth])]
    chosen = places[: d.integer(0, len(places))]
    indices = np.array(chosen, np.int64).reshape(len(chosen), depth)
    updates = d.array((len(chosen), *shape[depth:]), special=False)
    made = x.copy()
    if chosen:
        made[tuple(indices.T)] = updates
    return Given([x, indices, updates], {}, [made])


def _one_hot(d: Draw) -> Given:
    rank = d.integer(0, 2)
    depth = d.integer(1, 4)
    indices = d.array(d.shape(rank, rank), d.other("T1"), -depth if d.version >= 11 else 0, depth - 1, special=False)
    axis = d.integer(-rank - 1, rank)
    values = d.array((2,), special=False)
    kind = d.other("T2")
    hot = np.expand_dims(wide(indices).astype(np.int64) % depth, axis)
    places = np.arange(depth).reshape([depth if one == axis % (rank + 1) else 1 for one in range(rank + 1)])
    made = np.where(hot == places, values[1], values[0])
    return Given([indices, np.array(depth).astype(kind), values], {"axis": axis}, [as_type(made, d.dtype)])


def _where(d: Draw) -> Given:
    shape = d.shape()
    condition = d.array(d.broadcastable(shape), np.bool_)
    x, y = d.array(shape), d.array(d.broadcastable(shape))
    return Given([condition, x, y], {}, [np.where(condition, x, y)])


def _compress(d: Draw) -> Given:
    x = d.array(d.shape(1))
    axis = d.pick((None, d.axis(x.ndim, negative=d.version >= 11)))
    size = x.size if axis is None else x.shape[axis]
    condition = d.array((d.integer(0, size),), np.bool_)
    attributes = {} if axis is None else {"axis": axis}
    return Given([x, condition], attributes, [np.compress(condition, x, axis)])


def _non_zero(d: Draw) -> Given:
    x = d.array(d.shape(1), low=-1, high=1)
    zero = np.zeros((), x.dtype) if x.dtype != object else np.array("", object)
    return Given([x], {}, [np.array(np.nonzero(x != zero), np.int64).reshape(x.ndim, -1)])


def _top_k(d: Draw) -> Given:
    shape = d.shape(1, least=1)
    # No two equal elements of a line: which of them comes first is the lower index, tested elsewhere.
    axis = d.axis(len(shape), negative=d.version >= 11)
    order = np.argsort(np.random.default_rng(d.integer(0, 99)).random(shape), axis)
    x = order.astype(d.dtype)
    k = d.integer(0, shape[axis])
    largest = bool(d.flag()) if d.version >= 11 else True
    places = np.argsort(-order if largest else order, axis, kind="stable")
    places = np.take(places, range(k), axis)
    made = [np.take_along_axis(x, places, axis), places.astype(np.int64)]
    if d.version == 1:
        return Given([x], {"axis": axis, "k": k}, made, outputs=2)
    attributes = {"axis": axis, **({"largest": int(largest)} if d.version >= 11 else {})}
    return Given([x, _ints(k)], attributes, made, outputs=2)


def _unique(d: Draw) -> Given:
    x = d.array(d.shape(1, 2, least=1), low=0, high=2, special=False)
    x = np.rint(wide(x)).astype(x.dtype) if is_floating(x.dtype) else x
    found, first, inverse, counts = np.unique(x.reshape(-1), return_index=True, return_inverse=True, return_counts=True)
    made = [found, *(np.asarray(one, np.int64).reshape(-1) for one in (first, inverse, counts))]
    return Given([x], {}, made, outputs=4)


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


def _trilu(d: Draw) -> Given:
    x = d.array(d.shape(2, least=1), special=False)
    k, upper = d.integer(-3, 3), d.flag()
    kept = np.triu(np.ones(x.shape[-2:], np.bool_), k) if upper else np.tril(np.ones(x.shape[-2:], np.bool_), k)
    made = x.copy()
    made[..., ~kept] = "" if x.dtype == object else np.zeros((), x.dtype)
    return Given([x, np.array(k, np.int64)], {"upper": upper}, [made])


def _eye_like(d: Draw) -> Given:
    x = d.array(d.shape(2, 2), special=False)
    k = d.integer(-3, 3)
    target = d.other("T2")
    attributes = {"k": k, "dtype": int(data_type_of(target))} if d.flag() else {"k": k}
    kind = target if "dtype" in attributes else x.dtype
    return Given([x], attributes, [np.eye(x.shape[0], x.shape[1], k).astype(kind)])


def _shape_of(d: Draw) -> Given:
    x = d.array(d.shape())
    if d.version < 15:
        return Given([x], {}, [_ints(*x.shape)])
    start, stop = d.integer(-5, 5), d.integer(-5, 5)
    return Given([x], {"start": start, "end": stop}, [_ints(*_clamped(x.shape, start, stop))])


def _clamped(shape: tuple[int, ...], start: int, stop: int) -> tuple[int, ...]:
    return shape[
        slice(*(min(max(place + len(shape) if place < 0 else place, 0), len(shape)) for place in (start, stop)))
    ]


def _constant_of_shape(d: Draw) -> Given:
    shape = d.shape()
    value = d.array((1,), special=False)
    return Given([_ints(*shape)], {"value": value}, [_filled(shape, value)])


def _filled(shape: tuple[int, ...], value: Any) -> Any:
    made = np.empty(shape, value.dtype)
    made[...] = value[0]
    return made


def _range(d: Draw) -> Given:
    start, delta = d.integer(-3, 3), d.integer(1, 3)
    limit = start + d.integer(-2, 6)
    values = [np.array(value).astype(d.dtype) for value in (start, limit, delta)]
    return Given(values, {}, [np.arange(start, limit, delta).astype(d.dtype)])


def _same(d: Draw) -> Given:
    x = d.array(d.shape())
    return Given([x], {}, [x])


def _size_of(d: Draw) -> Given:
    x = d.array(d.shape())
    return Given([x], {}, [np.array(x.size, np.int64)])


def _constant(d: Draw) -> Given:
    forms: list[Callable[[], tuple[str, Any, Any]]] = [lambda: _tensor_form(d)]
    if d.version >= 12:
        forms += [
            lambda: ("value_int", 7, np.array(7, np.int64)),
            lambda: ("value_ints", (1, 2), _ints(1, 2)),
            lambda: ("value_float", 0.5, np.array(0.5, np.float32)),
            lambda: ("value_floats", (0.5, 2.0), np.array([0.5, 2.0], np.float32)),
            lambda: ("value_string", "a", np.array("a", object)),
            lambda: ("value_strings", ("a", "b"), np.array(["a", "b"], object)),
        ]
    name, value, made = d.pick(forms)()
    return Given([], {name: value}, [made])


def _tensor_form(d: Draw) -> tuple[str, Any, Any]:
    value = d.array(d.shape())
    return "value", value, value


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
    Row("Gather", _gather),
    Row("GatherElements", _gather_elements),
    Row("GatherND", _gather_nd),
    Row("ScatterElements", _scatter_elements),
    Row("Scatter", _scatter_elements),
    Row("ScatterND", _scatter_nd),
    Row("OneHot", _one_hot, variable="T3"),
    Row("Where", _where),
    Row("Compress", _compress),
    Row("NonZero", _non_zero),
    Row("TopK", _top_k),
    Row("Unique", _unique),
    Row("DepthToSpace", _depth_to_space),
    Row("SpaceToDepth", _space_to_depth),
    Row("ReverseSequence", _reverse_sequence),
    Row("Trilu", _trilu),
    Row("EyeLike", _eye_like, variable="T1"),
    Row("Shape", _shape_of),
    Row("Size", _size_of),
    Row("ConstantOfShape", _constant_of_shape, variable="T2"),
    Row("Range", _range),
    Row("Identity", _same, variable="T", until=13),
    Row("Identity", _same, variable="V", since=14),
    Row("Constant", _constant),
]
