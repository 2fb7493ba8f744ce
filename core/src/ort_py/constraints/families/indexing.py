"""Operators that read or write at places given by indices: Gather, Scatter and their kin."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ort_py.constraints.scope import Constraint, Dims, NodeScope, Outputs, Tensor, Unchecked, Violation, content_of
from ort_py.constraints.sizes import UNKNOWN, Amount, any_of, at_least, equal


def _indices(n: NodeScope, place: int, size: Amount) -> None:
    n.require_elements(n.tensor(place), -size, size - 1, "an index")


def _gather(n: NodeScope) -> Outputs:
    data, indices = n.require_rank(0, 1), n.shape(1)
    axis = n.axis(n.integer("axis"), len(data))
    _indices(n, 1, data[axis])
    shape = (*data[:axis], *indices, *data[axis + 1 :])
    source, places = content_of(n.tensor(0)), content_of(n.tensor(1))
    content: Dims | None = None
    if source is not None and places is not None and len(data) == 1 and len(indices) <= 1:
        # A place that only the run knows gives a number that only the run knows.
        content = tuple(
            source[one] if isinstance(one, int) and -len(source) <= one < len(source) else UNKNOWN for one in places
        )
    return [Tensor(shape, content=content)]


def _gather_elements(n: NodeScope) -> Outputs:
    data, indices = n.require_rank(0, 1), n.shape(1)
    if len(data) != len(indices):
        raise Violation(f"the indices have {len(indices)} axes and the data {len(data)}")
    axis = n.axis(n.integer("axis"), len(data))
    for place, (size, whole) in enumerate(zip(indices, data, strict=True)):
        if place != axis:
            n.require(at_least(whole, size), "{1} indices along an axis of {0}", whole, size)
    _indices(n, 1, data[axis])
    return [indices]


def _scatter_elements(n: NodeScope) -> Outputs:
    data = n.shape(0)
    _gather_elements(n)
    n.require_same(2, n.shape(1), "the updates")
    return [data]


def _depth(n: NodeScope, data: Dims, indices: Dims, batch: int) -> int:
    """Number of axes that one tuple of indices addresses."""
    if not indices:
        raise Violation("the indices are a scalar")
    depth = indices[-1]
    if not isinstance(depth, int):
        n.require(equal(depth, len(data) - batch), "tuples of {} indices for {} axes", depth, len(data) - batch)
        depth = len(data) - batch
    if not 0 < depth <= len(data) - batch:
        raise Violation(f"tuples of {depth} indices for {len(data) - batch} axes")
    return depth


def _tuples(n: NodeScope, data: Dims, depth: int, batch: int) -> None:
    """State that indices are in range: each column of a constant by itself, others by their smallest axis."""
    tensor = n.tensor(1)
    array = None if tensor.constant is None else tensor.constant()
    if array is not None and array.size:
        for column in range(depth):
            part = Tensor(constant=partial(_column, array, column))
            n.require_elements(part, -data[batch + column], data[batch + column] - 1, "an index")
        return
    if depth == 1:
        _indices(n, 1, data[batch])
        return
    if all(size is data[batch] or size == data[batch] for size in data[batch : batch + depth]):
        _indices(n, 1, data[batch])
        return
    raise Unchecked("the axes that the indices refer to differ in length, and the indices are known only during a run")


def _column(array: Any, column: int) -> Any:
    return array[..., column]


def _gather_nd(n: NodeScope) -> Outputs:
    data, indices, batch = n.require_rank(0, 1), n.shape(1), n.integer("batch_dims")
    if not 0 <= batch < len(data) or batch >= max(len(indices), 1):
        raise Violation(f"batch_dims is {batch} for {len(data)} and {len(indices)} axes")
    for size, other in zip(data[:batch], indices[:batch], strict=True):
        n.require(equal(size, other), "batches of {} and {}", size, other)
    depth = _depth(n, data, indices, batch)
    _tuples(n, data, depth, batch)
    return [(*indices[:-1], *data[batch + depth :])]


def _scatter_nd(n: NodeScope) -> Outputs:
    data, indices = n.require_rank(0, 1), n.shape(1)
    depth = _depth(n, data, indices, 0)
    _tuples(n, data, depth, 0)
    n.require_same(2, (*indices[:-1], *data[depth:]), "the updates")
    return [data]


def _grid_sample(n: NodeScope) -> Outputs:
    data = n.require_rank(0, 3)
    grid = n.require_rank(1, len(data), len(data))
    n.require(equal(data[0], grid[0]), "{} images and {} grids", data[0], grid[0])
    n.require(equal(grid[-1], len(data) - 2), "places of {} numbers for {} axes", grid[-1], len(data) - 2)
    return [(*data[:2], *grid[1:-1])]


def _embeddings(n: NodeScope) -> Outputs:
    """com.microsoft.EmbedLayerNormalization."""
    words, width = n.require_rank(0, 2, 2), n.require_rank(2, 2, 2)[1]
    for places, table, what in ((0, 2, "a word"), (1, 4, "a segment"), (8, 3, "a position")):
        rows, columns = n.require_rank(table, 2, 2) if n.has(table) else (0, width)
        n.require(equal(columns, width), "tables of {} and {} columns", columns, width)
        if n.has(places):
            n.require(equal(n.require_rank(places, 2, 2)[1], words[1]), what + " for {} words", words[1])
            n.require(any_of(*(equal(n.shape(places)[0], one) for one in (words[0], 1))), what + " for other rows")
            n.require_elements(n.tensor(places), 0, rows - 1, what)
        elif places == 8:
            n.require(at_least(rows, words[1]), "{} positions for {} words", rows, words[1])
    for place in (5, 6):
        n.require_same(place, (width,), f"input {place}")
    if n.has(7):
        n.require_same(7, words, "the mask")
    whole = (*words, width)
    return [whole, (words[0],), whole][: n.outputs]


TABLE: Mapping[tuple[str, str], Constraint] = {
    ("", "Gather"): _gather,
    ("", "GatherElements"): _gather_elements,
    ("", "GatherND"): _gather_nd,
    ("", "GridSample"): _grid_sample,
    ("", "Scatter"): _scatter_elements,
    ("", "ScatterElements"): _scatter_elements,
    ("", "ScatterND"): _scatter_nd,
    ("com.microsoft", "EmbedLayerNormalization"): _embeddings,
}
