"""Conv and ConvTranspose, in whatever layout oneDNN likes best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, INTEGERS, Argument
from ort_py_onednn.binding.descriptors import Desc, row_major
from ort_py_onednn.binding.primitive import Geometry, PostOp, Primitive, Unimplemented
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.few_channels import has_few, lying_last, of_picture
from ort_py_onednn.lowering.geometry import window
from ort_py_onednn.lowering.numbers import Numbers, floating
from ort_py_onednn.lowering.planner import Planner, Value
from ort_py_onednn.lowering.tiled_convolution import tiled

__all__ = ["convolution", "transposed_convolution"]


_PER_WEIGHT = 8
"""Products that take as long as it takes to read a weight: those for one pixel of a pooled picture follow work that
filled the caches. Where one thread reads them alone, the others fall asleep, and what follows must wake them."""


def convolution(planner: Planner, operation: Operation, numbers: Numbers | None = None) -> None:
    """ONNX Conv: X (N, C, spatial…), W (M, C / group, kernel…), B (M).

    Args:
        planner: The planner.
        operation: The operation.
        numbers: Types and scales; those of the planner where none are given.
    """
    source, weight = planner.value(operation.inputs[0]), planner.value(operation.inputs[1])
    group = operation.attributes.get("group", 1)
    outputs, inner, *kernel = weight.dims
    place = window(source.dims[2:], kernel, operation.attributes)
    shape = (source.dims[0], outputs, *place.sizes)
    geometry: Geometry = place.strides, place.dilations, place.begin, place.end
    rank = len(kernel)
    while (
        rank > 1
        and source.dims[rank + 1] == kernel[rank - 1] == shape[rank + 1] == 1
        and place.begin[rank - 1] == place.end[rank - 1] == 0
        and not operation.posts_read()
    ):
        # A column of pixels is a row: oneDNN cuts its work along the last dimension.
        rank -= 1
    if rank < len(kernel):
        strides, dilations, begin, end = (part[:rank] for part in geometry)
        geometry = strides, dilations, begin, end
        source = planner.reshaped(source, source.dims[: rank + 2])
        weight = planner.reshaped(weight, weight.dims[: rank + 2])
        kernel = kernel[:rank]
    dims = shape[: rank + 2]
    if rank == 1 and group == outputs == source.dims[1] and not operation.posts_read():
        # Channels by themselves: oneDNN has code for pictures, for rows a product of matrices for each channel.
        strides, dilations, begin, end = geometry
        geometry = (1, *strides), (1, *dilations), (0, *begin), (0, *end)
        source = planner.reshaped(source, (*source.dims[:2], 1, *source.dims[2:]))
        weight = planner.reshaped(weight, (*weight.dims[:2], 1, *weight.dims[2:]))
        kernel, dims = [1, *kernel], (*dims[:2], 1, *dims[2:])
    wanted = (group, outputs // group, inner, *kernel) if group > 1 else weight.dims
    seen = Desc.plain(wanted, weight.dtype)
    numbers = numbers or floating(planner)
    found = _emit(planner, operation, (source, weight), (dims, wanted, seen), geometry, numbers)
    planner.bind(operation.outputs[0], found if dims == shape else planner.reshaped(found, shape))


def transposed_convolution(planner: Planner, operation: Operation) -> None:
    """ONNX ConvTranspose: X (N, C, spatial…), W (C, M / group, kernel…), B (M)."""
    source, weight = planner.value(operation.inputs[0]), planner.value(operation.inputs[1])
    group = operation.attributes.get("group", 1)
    inputs, inner, *kernel = weight.dims
    rank = len(kernel)
    attributes = operation.attributes
    strides = tuple(attributes.get("strides") or (1,) * rank)
    dilations = tuple(attributes.get("dilations") or (1,) * rank)
    extra = tuple(attributes.get("output_padding") or (0,) * rank)
    full = [
        (size - 1) * stride + (width - 1) * dilation + 1
        for size, stride, width, dilation in zip(source.dims[2:], strides, kernel, dilations, strict=True)
    ]
    shape = attributes.get("output_shape")
    mode = attributes.get("auto_pad", "NOTSET")
    if shape or mode in {"SAME_UPPER", "SAME_LOWER"}:
        sizes = list(shape or [size * stride for size, stride in zip(source.dims[2:], strides, strict=True)])[-rank:]
        totals = [max(0, one + more - size) for one, more, size in zip(full, extra, sizes, strict=True)]
        begin = [total // 2 if mode == "SAME_UPPER" else total - total // 2 for total in totals]
    else:
        pads = tuple(attributes.get("pads") or (0,) * (2 * rank)) if mode != "VALID" else (0,) * (2 * rank)
        begin = list(pads[:rank])
        sizes = [
            one + more - pads[axis] - pads[rank + axis]
            for axis, (one, more) in enumerate(zip(full, extra, strict=True))
        ]
    end = [one - first - size for one, first, size in zip(full, begin, sizes, strict=True)]
    if rank == 2 and group == 1 and strides == tuple(kernel) and not any((*begin, *end)) and set(dilations) == {1}:
        found = tiled(planner, operation)
        if found is not None:
            planner.bind(operation.outputs[0], found)
            return
    dims = (source.dims[0], inner * group, *sizes)
    # oneDNN wants (group, M, C, kernel…): the array is read with two dimensions exchanged.
    held = (group, inputs // group, inner, *kernel)
    steps = row_major(held)
    wanted = (group, inner, inputs // group, *kernel)
    seen = (steps[0], steps[2], steps[1], *steps[3:])
    if group == 1:
        wanted, seen = wanted[1:], seen[1:]
    found = _emit(
        planner,
        operation,
        (source, weight),
        (dims, wanted, Desc.strided(wanted, seen, weight.dtype)),
        (strides, dilations, begin, end),
        floating(planner),
        transposed=True,
    )
    planner.bind(operation.outputs[0], found)


def _emit(
    planner: Planner,
    operation: Operation,
    operands: tuple[Value, Value],
    layouts: tuple[tuple[int, ...], tuple[int, ...], Desc],
    geometry: Geometry,
    numbers: Numbers,
    *,
    transposed: bool = False,
) -> Value:
    source, weight = operands
    dims, wanted, seen = layouts
    dtype, made, scaling = numbers.weights, numbers.result, numbers.scaling
    bias = planner.value(operation.inputs[2]) if len(operation.inputs) > 2 and operation.inputs[2] else None
    fixed = weight.weight is not None and numbers.keeps_layout
    held = weight.weight.first_layout(wanted, dtype) if fixed and weight.weight is not None else None
    result = Desc.any(dims, made)
    anything = Desc.any(source.dims, numbers.source)
    free = Desc.any(wanted, dtype)
    work = max(math.prod(dims) / dims[1], _PER_WEIGHT) * math.prod(wanted)
    pictured = has_few(source) and not transposed

    def build(posts: Sequence[PostOp]) -> Primitive:
        nonlocal held
        vector = None if bias is None else Desc.plain(bias.dims)

        def packed(factors: Desc) -> Primitive:
            def create(given: Desc, target: Desc) -> Primitive:
                return primitives.convolution(
                    given, factors, vector, target, geometry, posts, scaling, transposed=transposed
                )

            picture = None
            if pictured:
                picture = of_picture(planner, create, source, numbers.source, result, operation.outputs[0])
            return picture or create(anything, result)

        if held is not None:
            try:
                found = packed(held)
            except Unimplemented:
                held = None  # packed for another shape in a way that does not fit this one
            else:
                if not (found.is_reference or found.is_one_too_many):
                    return found
        found = packed(free)
        if not found.is_one_too_many:
            return found
        # For plain arrays oneDNN has code on top of its matrix product, whose memory comes back.
        flat = Desc.plain(source.dims, numbers.source), free, vector, Desc.plain(dims, made)
        found = primitives.convolution(*flat, geometry, posts, scaling, transposed=transposed)
        if found.is_reference or found.is_one_too_many:
            raise Unimplemented("a convolution whose code stays in memory, of which this process has enough")
        return found

    def values(primitive: Primitive) -> Mapping[int, Value]:
        given = {
            **numbers.given,
            Argument.SRC: planner.in_layout(source, primitive.arguments[Argument.SRC]),
            Argument.WEIGHTS: _weights(planner, weight, seen, primitive.arguments[Argument.WEIGHTS]),
        }
        if bias is not None:
            given[Argument.BIAS] = planner.plain(planner.converted(bias, F32))
        return given

    alone = planner.looks and made not in INTEGERS and _writes_bare(wanted, geometry, transposed=transposed)
    posts = () if alone else operation.posts
    found = planner.with_posts(build, values, Desc.plain(dims, made), dims, posts, work)
    if pictured:
        found = lying_last(planner, found)
    return planner.apply(found, operation.posts) if alone else found


def _writes_bare(weights: Sequence[int], geometry: Geometry, *, transposed: bool) -> bool:
    """Return whether some elements of the result are sums of nothing: their windows lie in the padding, or between or
    behind the windows of a transposed convolution.

    For these oneDNN runs nothing but the functions behind the convolution, and without masks (AVX2) on whatever is left
    in the rest of a register: the processor's flags then say that something was not a number, or not, as it happens.
    """
    strides, dilations, begin, end = geometry
    spans = [(width - 1) * dilation + 1 for width, dilation in zip(weights[-len(strides) :], dilations, strict=True)]
    if transposed:
        return any(last < 0 or stride > span for last, stride, span in zip(end, strides, spans, strict=True))
    return any(max(first, last) >= span for first, last, span in zip(begin, end, spans, strict=True))


def _weights(planner: Planner, weight: Value, seen: Desc, desc: Desc) -> Value:
    if weight.weight is not None and weight.buffer is None:
        return planner.in_layout(Value(seen, None, seen.dims, weight.weight), desc)
    return planner.in_layout(planner.view(planner.plain(weight), seen), desc)
