"""Pooling over windows and over everything, and reductions: to oneDNN most of them are pooling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, INTEGERS, Algorithm, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function, Geometry, PostOp, Primitive, Unimplemented
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.operation import Operation, Post
from ort_py_onednn.lowering.geometry import window
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["global_pool", "pool", "reduce"]

_MOST_IN_ONE = 4096
"""Elements that are added one after the other: the error grows with their number."""

_LEAST_BLOCK = 8

_SHORT = 64
"""Most elements of a row for which a product is preferred: it is four to ten times as fast as a reduction, but adds one
element after the other, so that sums of longer rows would lose digits."""

_EXTREMES = {
    "ReduceMax": Algorithm.REDUCTION_MAX,
    "ReduceMin": Algorithm.REDUCTION_MIN,
}

_REDUCTIONS = {
    "ReduceMean": Algorithm.REDUCTION_MEAN,
    "ReduceSum": Algorithm.REDUCTION_SUM,
}


def pool(planner: Planner, operation: Operation) -> None:
    """ONNX MaxPool (without indices) and AveragePool."""
    attributes = operation.attributes
    source = planner.value(operation.inputs[0])
    place = window(source.dims[2:], attributes["kernel_shape"], attributes, ceil=bool(attributes.get("ceil_mode", 0)))
    if any(size < 0 for size in place.rooms):
        # onnxruntime and ONNX's shape inference count one window or none then, and do not agree with the formula.
        raise Unimplemented("a window that is larger than the padded picture")
    if operation.kind == "MaxPool":
        algorithm = Algorithm.POOLING_MAX
    elif attributes.get("count_include_pad", 0):
        algorithm = Algorithm.POOLING_AVG_INCLUDE_PADDING
    else:
        algorithm = Algorithm.POOLING_AVG_EXCLUDE_PADDING
    dims = (*source.dims[:2], *place.sizes)
    geometry = place.strides, place.dilations, place.begin, place.end
    found = _pooled(planner, algorithm, source, dims, place.kernel, geometry, operation.posts)
    planner.bind(operation.outputs[0], found)


def global_pool(planner: Planner, operation: Operation) -> None:
    """ONNX GlobalAveragePool and GlobalMaxPool."""
    source = planner.value(operation.inputs[0])
    average = operation.kind == "GlobalAveragePool"
    planner.bind(operation.outputs[0], _everywhere(planner, average, source, operation.posts))


def _everywhere(planner: Planner, average: bool, source: Value, posts: Sequence[Post]) -> Value:
    spatial = source.dims[2:]
    # Of integers nothing is rounded before the posts are done: all of it is one primitive.
    whole = planner.result_type(source) in INTEGERS
    if source.desc.is_plain and math.prod(spatial) > 1 and not whole:
        outer, count = source.dims[:2], math.prod(spatial)
        rows = planner.reshaped(source, (math.prod(outer), count))
        found = _sums(planner, "ReduceMean", rows) if average else _extremes(planner, "ReduceMax", rows)
        if found is not None:
            return planner.apply(planner.reshaped(found, (*outer, *(1,) * len(spatial))), posts)
    block = _block(math.prod(spatial)) if average and not whole else 0
    if block:
        # Means of blocks, then their mean: added one after the other, many elements lose digits.
        outer, count = source.dims[:2], math.prod(spatial)
        blocks = planner.reshaped(source, (*outer, count // block, block))
        dims, geometry = (*outer, count // block, 1), ((1, 1), (1, 1), (0, 0), (0, 0))
        means = _pooled(planner, Algorithm.POOLING_AVG_EXCLUDE_PADDING, blocks, dims, (1, block), geometry, ())
        found = _everywhere(planner, True, planner.reshaped(means, (*outer, count // block, 1)), posts)
        return planner.reshaped(found, (*outer, *(1,) * len(spatial)))
    ones, none = (1,) * len(spatial), (0,) * len(spatial)
    algorithm = Algorithm.POOLING_AVG_EXCLUDE_PADDING if average else Algorithm.POOLING_MAX
    return _pooled(planner, algorithm, source, (*source.dims[:2], *ones), spatial, (ones, ones, none, none), posts)


def _pooled(
    planner: Planner,
    algorithm: int,
    source: Value,
    dims: tuple[int, ...],
    kernel: Sequence[int],
    geometry: Geometry,
    posts: Sequence[Post],
) -> Value:
    dtype = planner.result_type(source)
    source = planner.converted(source, dtype)
    if source.desc.has_offset:
        # Some of oneDNN 3.2's code for pools reads a part of a tensor from the tensor's beginning.
        source = planner.in_layout(source, Desc.plain(source.dims, dtype))
    first = next((place for place, post in enumerate(posts) if not isinstance(post, Function)), len(posts))
    if source.desc.is_plain and dims[1] == 1 < dims[0] and (first == len(posts) or dtype not in INTEGERS):
        # Each picture is pooled by itself, so those of a batch may be channels: the more of them, the faster.
        picture = planner.reshaped(source, (1, dims[0], *source.dims[2:]))
        found = _pooled(planner, algorithm, picture, (1, dims[0], *dims[2:]), kernel, geometry, posts[:first])
        return planner.apply(planner.reshaped(found, dims), posts[first:])
    # Pictures are pooled fast only where channels are innermost or blocked; whole blocks are made in half the time.
    descs = [source.desc]
    if source.desc.is_plain and dims[1] % 8 == 0 and dtype == F32:
        descs.append(Desc.blocked(source.dims))
    descs += [Desc.channels_last(source.dims, dtype), Desc.plain(source.dims, dtype)]
    largest = planner.looks and algorithm == Algorithm.POOLING_MAX and dtype not in INTEGERS
    doubled = _doubled(dtype) if largest else ()

    def build(chain: Sequence[PostOp]) -> Primitive:
        best: Primitive | None = None
        for desc in descs:
            try:
                found = primitives.pooling(algorithm, desc, Desc.any(dims, dtype), kernel, geometry, (*doubled, *chain))
            except Unimplemented:
                continue
            if found.is_tuned:
                return found
            best = found if best is None or best.is_reference else best
        if best is None:
            raise Unimplemented("pooling")
        return best

    def values(primitive: Primitive) -> Mapping[int, Value]:
        given = planner.in_layout(source, primitive.arguments[Argument.SRC])
        if largest and primitive.hazards.silent:
            count = planner.count
            planner.probe(given)
            planner.count = count
        return {Argument.SRC: given}

    size, work = Desc.plain(dims, dtype), math.prod(source.dims) * 2.0
    if not largest:
        return planner.with_posts(build, values, size, dims, posts, work)
    # Operands of post-ops go by their place in the chain, so they stay outside.
    return planner.apply(planner.with_posts(build, values, size, dims, (), work), posts)


def _doubled(dtype: Element) -> tuple[Function, Function]:
    """Post-ops that change no element, but raise the Overflow flag where a maximum is the lowest finite number of its
    type: oneDNN begins with that, so it is what becomes of a window that holds nothing but -infinity."""
    factor = 2.0**113 if dtype == Element.F16 else 2.0
    return linear(factor), linear(1 / factor)


def reduce(planner: Planner, operation: Operation) -> None:
    """ONNX ReduceMax, ReduceMean, ReduceMin and ReduceSum along constant axes."""
    source = planner.value(operation.inputs[0])
    if 0 in source.dims:
        raise Unimplemented("a reduction of an empty tensor")
    rank = len(source.shape)
    axes = _axes(planner, operation, rank)
    keep = operation.attributes.get("keepdims", 1) == 1
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(source.shape))
    shape = kept if keep else tuple(dim for axis, dim in enumerate(source.shape) if axis not in axes)
    if not axes or rank == 0:
        planner.bind(operation.outputs[0], planner.apply(source, operation.posts))
        return
    found = _reduced(planner, operation.kind, source, axes, kept)
    if shape != kept:
        found = planner.reshaped(found, shape)
    planner.bind(operation.outputs[0], planner.apply(found, operation.posts))


def _axes(planner: Planner, operation: Operation, rank: int) -> tuple[int, ...]:
    axes = operation.attributes.get("axes")
    if len(operation.inputs) > 1 and operation.inputs[1]:
        axes = tuple(int(axis) for axis in planner.integers(operation.inputs[1]))
    if not axes:
        return () if operation.attributes.get("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(axis % rank for axis in axes))


def _reduced(planner: Planner, kind: str, source: Value, axes: tuple[int, ...], kept: tuple[int, ...]) -> Value:
    rank = len(source.dims)
    if kept == source.dims:
        return planner.converted(source, planner.result_type(source))
    if rank >= 3 and axes == tuple(range(2, rank)) and rank <= 5 and kind == "ReduceMean":
        return _everywhere(planner, True, source, ())
    split = max((place for place in range(1, len(axes)) if axes[place] > axes[place - 1] + 1), default=0)
    if split:
        # The last neighbours, then those in front: for all in one there is only reference code.
        inner = axes[split:]
        dims = tuple(1 if axis in inner else dim for axis, dim in enumerate(source.dims))
        return _reduced(planner, kind, _reduced(planner, kind, source, inner, dims), axes[:split], kept)
    # Neighbouring axes are one: (outer, reduced, inner).
    plain = planner.plain(source)
    outer = math.prod(source.dims[: axes[0]])
    count = math.prod(source.dims[axes[0] : axes[-1] + 1])
    inner_count = math.prod(source.dims[axes[-1] + 1 :])
    if inner_count == 1:
        rows = planner.reshaped(plain, (outer, count))
        found = _extremes(planner, kind, rows) if kind in _EXTREMES else _sums(planner, kind, rows)
        if found is None:
            raise Unimplemented(f"{kind} of rows in fast code")
        return planner.reshaped(found, kept)
    # The inner elements are channels that lie innermost: pooling of one long window.
    plain = planner.converted(plain, planner.result_type(plain))
    view = planner.view(
        plain, Desc.strided((outer, inner_count, count), (count * inner_count, 1, inner_count), plain.dtype)
    )
    if kind == "ReduceMin":  # of the least the negative is the largest
        view = planner.apply(view, [linear(-1.0)])
    scale = {"ReduceSum": [linear(count)], "ReduceMin": [linear(-1.0)]}.get(kind, [])
    found = _everywhere(planner, kind not in _EXTREMES, view, scale)
    return planner.reshaped(planner.view(found, found.desc, found.dims), kept)


def _in_one(planner: Planner, kind: str, source: Value, target: tuple[int, ...]) -> Value:
    desc, result = source.desc, Desc.plain(target, planner.result_type(source))
    primitive = planner.make(lambda: primitives.reduction(_REDUCTIONS[kind], desc, result), desc)
    found = planner.new(result)
    planner.emit(primitive, {Argument.SRC: source, Argument.DST: found})
    return found


def _extremes(planner: Planner, kind: str, rows: Value) -> Value | None:
    """The largest or least element of each row; None where oneDNN has no fast code for that."""
    if rows.dtype in INTEGERS:
        return None
    rows = planner.converted(rows, F32)
    desc, target = rows.desc, Desc.plain((rows.dims[0], 1))
    posts = _doubled(F32) if planner.looks else ()
    try:
        primitive = planner.make(lambda: primitives.reduction(_EXTREMES[kind], desc, target, posts), desc)
    except Unimplemented:
        return None
    if not primitive.is_tuned:
        return None
    found = planner.new(target)
    planner.emit(primitive, {Argument.SRC: rows, Argument.DST: found})
    return found


def _block(count: int) -> int:
    """The size of equal blocks into which many elements are cut before they are added; 0 for few, or if there is none.

    It is the divisor that is nearest to the square root.
    """
    if count <= _MOST_IN_ONE:
        return 0
    root = math.isqrt(count)
    found = next((size for size in range(root, 1, -1) if count % size == 0), 0)
    return found if found >= _LEAST_BLOCK else 0


def _sums(planner: Planner, kind: str, rows: Value) -> Value:
    """Sums or means of rows; of short ones as a product with a constant, where oneDNN starts again for each row."""
    outer, count = rows.dims
    block = _block(count)
    if block:
        parts = _sums(planner, kind, planner.reshaped(rows, (outer * (count // block), block)))
        return _sums(planner, kind, planner.reshaped(parts, (outer, count // block)))
    desc, target = rows.desc, Desc.plain((outer, 1), planner.result_type(rows))
    if count > _SHORT or desc.dtype != F32:
        trial = planner.make(lambda: primitives.reduction(_REDUCTIONS[kind], desc, target), desc)
        if not trial.is_reference:
            return _in_one(planner, kind, rows, (outer, 1))
    # The quotient of a mean has all the bits of float32.
    rows = planner.converted(rows, F32)
    desc, target = rows.desc, Desc.plain((outer, 1))
    ones = np.full((count, 1), 1 / count if kind == "ReduceMean" else 1, np.float32)
    column = planner.fixed(ones)
    primitive = planner.make_heavy(
        lambda: primitives.matmul(desc, column.desc, None, target), float(math.prod(rows.dims))
    )
    found = planner.new(target)
    planner.emit(primitive, {Argument.SRC: rows, Argument.WEIGHTS: column, Argument.DST: found})
    return found
