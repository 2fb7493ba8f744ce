"""Rows of operators that pick elements by place, condition or order, and put them at places."""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Draw, Given, Row, as_type, is_floating, wide

__all__ = ["ROWS"]


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


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


ROWS = [
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
]
