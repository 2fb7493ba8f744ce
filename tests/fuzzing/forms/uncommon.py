"""Operators that few models have: signals, losses, sequences, unusual pictures, and results whose size is data.

What has a size that only its numbers tell is reduced to a known shape at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.indexing import indices
from tests.fuzzing.forms.registry import form
from tests.fuzzing.forms.windows import picture
from tests.fuzzing.schemas import FLOATS, INTEGERS, ONNX_TYPES, Rejected, Value

__all__: list[str] = []


def _unchecked(
    g: Builder,
    op_type: str,
    inputs: Sequence[str],
    since: int,
    shape: Sequence[int] | None,
    dtype: str,
    **attributes: Any,
) -> Value:
    """A node that makes or reads a sequence or an optional value, of which `Builder.emit` knows nothing.

    Without a shape, its result is no tensor, and joins no values.
    """
    if g.opset < since:
        raise Rejected(f"{op_type} is newer")
    made = Value(g.name(), tuple(shape or ()), dtype)
    given = {name: value for name, value in attributes.items() if value is not None}
    g.nodes.append(helper.make_node(op_type, inputs, [made.name], **given))
    if shape is not None:
        g.values.append(made)
    return made


def _summed(g: Builder, source: Value, axis: int) -> Value:
    """The sum over an axis of an unknown size."""
    if g.opset >= 13:
        return g.emit("ReduceSum", [source, g.ints(axis)], keepdims=0)[0]
    return g.emit("ReduceSum", [source], axes=[axis], keepdims=0)[0]


@form(0.4)
def sequence(g: Builder) -> None:
    """A sequence of tensors that grows, shrinks, and is joined or read."""
    parts = [g.data(least=1)]
    parts += [g.like(parts[0]) for _ in range(g.integer(0, 2))]
    source = parts[0]
    made = _unchecked(g, "SequenceConstruct", [one.name for one in parts], 11, None, source.dtype)
    place = g.const(np.array(g.integer(-len(parts), len(parts) - 1)), g.one("int64", "int32"))
    if g.chance(0.4):
        added = [made.name, source.name, *([place.name] if g.chance(0.6) else [])]
        made = _unchecked(g, "SequenceInsert", added, 11, None, source.dtype)
        parts.append(source)
    if len(parts) > 1 and g.chance(0.4):
        made = _unchecked(
            g, "SequenceErase", [made.name, *([place.name] if g.chance(0.6) else [])], 11, None, source.dtype
        )
        parts.pop()
    kind = g.one("at", "length", "join", "stack")
    if kind == "at":
        place = g.const(np.array(g.integer(-len(parts), len(parts) - 1)), "int64")
        _unchecked(g, "SequenceAt", [made.name, place.name], 11, source.shape, source.dtype)
    elif kind == "length":
        _unchecked(g, "SequenceLength", [made.name], 11, (), "int64")
    else:
        new_axis = kind == "stack"
        axis = g.integer(0, source.rank - (not new_axis))
        shape = list(source.shape)
        if new_axis:
            shape.insert(axis, len(parts))
        else:
            shape[axis] *= len(parts)
        axis -= (source.rank + new_axis) if g.chance(0.3) else 0
        _unchecked(
            g,
            "ConcatFromSequence",
            [made.name],
            11,
            shape,
            source.dtype,
            axis=axis,
            new_axis=1 if new_axis else g.one(None, 0),
        )


@form(0.3)
def split_to_sequence(g: Builder) -> None:
    """SplitToSequence into equal parts, parts of given sizes, or single entries; one of them is read."""
    source = g.data(least=1)
    axis = g.integer(0, source.rank - 1)
    size = source.shape[axis]
    if not size:
        raise Rejected("nothing to split")
    kind, keep = g.one("single", "equal", "given"), g.one(None, 0, 1)
    first, names = 1, [source.name]
    if kind == "equal":
        first = g.integer(1, size)
        names.append(g.const(np.array(first), g.one("int64", "int32")).name)
    elif kind == "given":
        first = g.integer(0, size)
        names.append(g.const(np.array([first, size - first]), g.one("int64", "int32")).name)
    axis_given = axis - source.rank if g.chance(0.3) else axis
    made = _unchecked(g, "SplitToSequence", names, 11, None, source.dtype, axis=axis_given, keepdims=keep)
    shape = list(source.shape)
    shape[axis] = first
    if kind == "single" and keep == 0:
        del shape[axis]
    _unchecked(g, "SequenceAt", [made.name, g.const(np.array(0, np.int64)).name], 11, shape, source.dtype)


@form(0.2)
def optional(g: Builder) -> None:
    """An optional value that is there, and the question whether it is."""
    source = g.data()
    made = _unchecked(g, "Optional", [source.name], 15, None, source.dtype)
    if g.chance(0.5):
        _unchecked(
            g, "OptionalHasElement", [made.name if g.opset < 18 or g.chance(0.5) else source.name], 15, (), "bool"
        )
    else:
        _unchecked(g, "OptionalGetElement", [made.name], 15, source.shape, source.dtype)


@form(0.4)
def places_of_numbers(g: Builder) -> None:
    """NonZero and Unique, whose sizes are data."""
    source = g.data(dtypes=(g.main,) if g.chance(0.4) else (g.one(*INTEGERS),), least=1)
    if g.chance(0.4):
        found = g.emit("NonZero", [source], shapes=[(source.rank, 1)], keep=0)[0]
        _summed(g, found, 1)
        return
    axis = g.one(None, g.integer(-source.rank, source.rank - 1))
    size = int(np.prod(source.shape)) if axis is None else source.shape[axis]
    shape = (
        [1] if axis is None else [1 if place == axis % source.rank else one for place, one in enumerate(source.shape)]
    )
    made = g.emit(
        "Unique", [source], 4, axis=axis, sorted=g.one(None, 0, 1), shapes=[shape, (1,), (size,), (1,)], keep=0
    )
    g.values.append(made[2])
    _summed(g, g.emit("Mul", [made[1], made[3]], keep=0)[0], 0)
    if g.opset >= 13 and source.dtype in {"float32", "float64", "int32", "int64"}:
        _summed(g, made[0], 0 if axis is None else axis)


@form(0.4)
def suppression(g: Builder) -> None:
    """NonMaxSuppression in both notations of boxes."""
    batch, classes, count = g.integer(1, 2), g.integer(1, 3), g.integer(1, 8)
    boxes = g.new_input((batch, count, 4), "float32")
    scores = g.new_input((batch, classes, count), "float32")
    most = g.const(np.array(g.one(0, 1, 3, 2**40)), "int64")
    thresholds = [g.const(np.array(number), "float32") for number in (g.one(0.0, 0.3, 1.0), g.one(0.0, -1.0, 0.5))]
    made = g.emit(
        "NonMaxSuppression",
        [boxes, scores, *[most, *thresholds][: g.integer(0, 3)]],
        center_point_box=g.one(None, 0, 1),
        shapes=[(1, 3)],
        keep=0,
    )
    _summed(g, made[0], 0)


@form(0.5)
def loss(g: Builder) -> None:
    """SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss, weighted, with labels that are ignored."""
    source, weighted = g.data(g.one(2, 2, 3, 4)), g.chance(0.4)
    if weighted:
        source = g.new_input(source.shape, symbolic=0.0)  # with as many classes in each run
    batch, classes, *rest = source.shape
    labels = indices(g, (batch, *rest), classes, negative=False)
    if labels.constant is None:
        raise Rejected("labels that are fed count from 1 to the number of classes")
    operands: list[Value | None] = [source, labels]
    if weighted:
        operands.append(g.const(np.abs(g.numbers.standard_normal(classes)) + 0.1, source.dtype))
    ignored = g.one(None, 0, -1, -100)
    reduction = g.one(None, "none", "sum", "mean")
    if g.chance(0.5):
        g.emit("NegativeLogLikelihoodLoss", operands, ignore_index=ignored, reduction=reduction)
    else:
        g.emit("SoftmaxCrossEntropyLoss", operands, g.one(1, 2), ignore_index=ignored, reduction=reduction)


@form(0.5)
def spectrum(g: Builder) -> None:
    """DFT along any axis, forwards and backwards, one-sided, of fewer or more samples than there are."""
    parts = g.one(1, 2)
    shape = [g.integer(1, 3) for _ in range(g.integer(1, 2))] + [g.one(1, 2, 3, 5, 8, 16), parts]
    source = g.new_input(shape, g.one("float32", "float32", "float64", "float16"), symbolic=0.0)
    axis = g.integer(1, len(shape) - 2)
    length = g.one(None, shape[axis], shape[axis] + 3, max(1, shape[axis] - 1))
    operands: list[Value | None] = [
        source,
        None if length is None else g.const(np.array(length), g.one("int64", "int32")),
    ]
    onesided, inverse = g.one(None, 0, 1), g.one(None, 0, 1)
    attributes = {"onesided": onesided, "inverse": inverse}
    if g.opset < 20:
        attributes["axis"] = axis
    else:
        operands.append(g.const(np.array(axis - len(shape) if g.chance(0.3) else axis), "int64"))
    size = shape[axis] if length is None else length
    out = [*shape[:axis], size // 2 + 1 if onesided and not inverse else size, *shape[axis + 1 : -1], 2]
    if onesided and inverse:
        raise Rejected("what that gives depends on the version")
    g.emit("DFT", operands, shapes=[out], **attributes)


@form(0.3)
def short_time_spectrum(g: Builder) -> None:
    """STFT with a window, a frame length, or both."""
    frame, step, extra = g.one(1, 2, 4, 8), g.integer(1, 3), g.integer(0, 6)
    signal = g.new_input((g.integer(1, 2), frame + extra, 1), g.one("float32", "float64"))
    window = g.weights([frame], signal.dtype) if g.chance(0.6) else None
    length = g.const(np.array(frame, np.int64)) if window is None or g.chance(0.5) else None
    onesided = g.one(None, 0, 1)
    bins = frame if onesided == 0 else frame // 2 + 1
    shape = (signal.shape[0], extra // step + 1, bins, 2)
    g.emit("STFT", [signal, g.const(np.array(step, np.int64)), window, length], onesided=onesided, shapes=[shape])


@form(0.3)
def weights_of_signals(g: Builder) -> None:
    """Windows of signals, and the matrix of the mel scale."""
    kind = g.one(None, int(ONNX_TYPES["float32"]), int(ONNX_TYPES["float64"]), int(ONNX_TYPES["float16"]))
    if g.chance(0.7):
        size = g.integer(1, 9)
        op_type = g.one("HannWindow", "HammingWindow", "BlackmanWindow")
        g.emit(
            op_type,
            [g.const(np.array(size), g.one("int64", "int32"))],
            periodic=g.one(None, 0, 1),
            output_datatype=kind,
            shapes=[(size,)],
        )
        return
    bins, length, rate = g.integer(1, 6), g.one(8, 16, 17, 32), g.one(8000, 16000)
    whole = [g.const(np.array(number, np.int64)) for number in (bins, length, rate)]
    edges = [g.const(np.array(number, np.float32)) for number in (g.one(0.0, 20.0, 300.0), g.one(2000.0, 4000.0))]
    g.emit("MelWeightMatrix", [*whole, *edges], output_datatype=kind, shapes=[(length // 2 + 1, bins)])


@form(0.4)
def unpooled(g: Builder) -> None:
    """MaxUnpool of what MaxPool found, to the size that was, or to a larger one that is given."""
    source = picture(g, 2)
    kernel, strides = [g.one(1, 2, 3), g.one(1, 2)], [g.one(1, 2, 3), g.one(1, 2)]
    found, places = g.emit("MaxPool", [source], 2, kernel_shape=kernel, strides=strides)
    shape = [*found.shape[:2], *((n - 1) * s + k for n, s, k in zip(found.shape[2:], strides, kernel, strict=True))]
    operands: list[Value | None] = [found, places]
    if g.chance(0.4) or tuple(shape) != source.shape:
        operands.append(g.ints(*source.shape))
        shape = list(source.shape)
    g.emit("MaxUnpool", operands, kernel_shape=kernel, strides=strides, shapes=[shape])


@form(0.4)
def regions_of_pictures(g: Builder) -> None:
    """MaxRoiPool over regions that may lie outside, and AffineGrid."""
    if g.chance(0.5):
        source = picture(g, 2)
        count = g.integer(0, 3)
        rois = np.round(g.numbers.uniform(-1, 9, (count, 5)))
        rois[:, 0] = g.numbers.integers(0, max(1, source.shape[0]), count)
        rois[:, 3:] = np.maximum(rois[:, 3:], rois[:, 1:3])
        g.emit(
            "MaxRoiPool",
            [source, g.const(rois, source.dtype)],
            pooled_shape=[g.integer(1, 3), g.integer(1, 3)],
            spatial_scale=g.one(None, 0.5, 1.0),
        )
        return
    axes, batch = g.one(2, 3), g.integer(0 if g.chance(0.1) else 1, 2)
    corners = g.one(None, 0, 1)
    # A line of one pixel has no two corners: the operator's function, the reference and onnxruntime differ about it.
    size = [batch, g.integer(1, 3), *[g.integer(2 if corners else 1, 5) for _ in range(axes)]]
    theta = g.new_input((batch, axes, axes + 1), g.main)
    g.emit("AffineGrid", [theta, g.ints(*size)], align_corners=corners, shapes=[(batch, *size[2:], axes)])


@form(0.4)
def columns_to_picture(g: Builder) -> None:
    """Col2Im with pads, strides and dilations."""
    axes = g.one(1, 2, 2, 3)
    image = [g.integer(2, 7) for _ in range(axes)]
    block, strides = [g.integer(1, 2) for _ in range(axes)], [g.integer(1, 2) for _ in range(axes)]
    dilations, pads = [g.integer(1, 2) for _ in range(axes)], [g.integer(0, 1) for _ in range(2 * axes)]
    counts = [
        (image[a] + pads[a] + pads[axes + a] - dilations[a] * (block[a] - 1) - 1) // strides[a] + 1 for a in range(axes)
    ]
    if min(counts) < 1:
        raise Rejected("no block fits")
    batch, channels = g.integer(0 if g.chance(0.1) else 1, 2), g.integer(1, 3)
    columns = g.new_input((batch, channels * int(np.prod(block)), int(np.prod(counts))), g.main)
    g.emit(
        "Col2Im",
        [columns, g.ints(*image), g.ints(*block)],
        strides=strides if g.chance(0.7) else None if set(strides) == {1} else strides,
        dilations=dilations if set(dilations) != {1} or g.chance(0.5) else None,
        pads=pads if any(pads) or g.chance(0.5) else None,
        shapes=[(batch, channels, *image)],
    )


@form(0.5)
def deformed(g: Builder) -> None:
    """DeformConv with groups, offset groups, a mask and pads."""
    groups, offsets = g.one(1, 1, 2), g.one(1, 1, 2)
    channels = groups * offsets * g.integer(1, 2)
    batch, height, width = g.integer(0 if g.chance(0.1) else 1, 2), g.integer(2, 6), g.integer(2, 6)
    kernel, pads = [g.integer(1, 3), g.integer(1, 3)], [g.integer(0, 1) for _ in range(4)]
    strides, dilations = [g.integer(1, 2), g.integer(1, 2)], [g.integer(1, 2), g.integer(1, 2)]
    out = [
        (size + pads[a] + pads[2 + a] - dilations[a] * (kernel[a] - 1) - 1) // strides[a] + 1
        for a, size in enumerate((height, width))
    ]
    if min(out) < 1:
        raise Rejected("no window fits")
    source = g.new_input((batch, channels, height, width), g.main)
    taps = kernel[0] * kernel[1]
    operands: list[Value | None] = [
        source,
        g.weights([groups * g.integer(1, 2), channels // groups, *kernel]),
        g.new_input((batch, offsets * taps * 2, *out), g.main),
    ]
    filters = operands[1].shape[0] if operands[1] is not None else 0
    operands.append(g.weights([filters]) if g.chance(0.5) else None)
    operands.append(g.new_input((batch, offsets * taps, *out), g.main) if g.chance(0.5) else None)
    g.emit("DeformConv", operands, group=groups, offset_group=offsets, strides=strides, dilations=dilations, pads=pads)


@form(0.4)
def turned(g: Builder) -> None:
    """RotaryEmbedding of both ranks, of a part of the numbers, interleaved, with positions."""
    batch, heads, steps, size = g.integer(1, 2), g.integer(1, 3), g.integer(1, 5), g.one(2, 4, 8)
    part = g.one(None, size, size // 2 if size > 2 else size)
    half = (part or size) // 2
    flat = g.chance(0.4)
    source = g.new_input((batch, steps, heads * size) if flat else (batch, heads, steps, size), g.main)
    positions = g.const(g.numbers.integers(0, 7, (batch, steps)).astype(np.int64)) if g.chance(0.6) else None
    shape = (batch, steps, half) if positions is None else (7, half)
    caches = [g.weights(shape), g.weights(shape)]
    count = heads if flat else g.one(None, heads)
    g.emit(
        "RotaryEmbedding",
        [source, *caches, positions],
        interleaved=g.one(None, 0, 1),
        num_heads=count,
        rotary_embedding_dim=part,
    )


@form(0.3)
def cache_update(g: Builder) -> None:
    """TensorScatter into a cache, linear and in a ring."""
    batch, size, steps, width = g.integer(1, 3), g.integer(2, 6), g.integer(1, 3), g.integer(1, 4)
    if steps > size:
        raise Rejected("more than the cache holds")
    middle = [g.integer(1, 2)] if g.chance(0.5) else []
    cache = g.new_input((batch, *middle, size, width), g.main)
    update = g.new_input((batch, *middle, steps, width), g.main)
    mode = g.one(None, "linear", "circular")
    bound = size if mode == "circular" else size - steps + 1
    places = g.const(g.numbers.integers(0, bound, batch).astype(np.int64)) if g.chance(0.8) else None
    g.emit("TensorScatter", [cache, update, places], mode=mode, axis=g.one(None, -2, len(middle) + 1))


@form(0.6)
def types_and_products(g: Builder) -> None:
    """CastLike, BitCast, CumProd and Det."""
    kind = g.one("like", "bits", "product", "determinant")
    if kind == "like":
        g.emit("CastLike", [g.data(), g.const(np.zeros(1), g.one(*FLOATS))])
    elif kind == "bits":
        source = g.data(dtypes=(g.one("float32", "int32", "uint8"),))
        target = {"float32": "int32", "int32": "float32", "uint8": "int8"}[source.dtype]
        g.emit("BitCast", [source], to=int(ONNX_TYPES[target]))
    elif kind == "product":
        source = g.data(least=1)
        axis = g.const(np.array(g.axis(source.rank), g.one(np.int64, np.int32)))
        g.emit("CumProd", [source, axis], exclusive=g.one(None, 0, 1), reverse=g.one(None, 0, 1))
    else:
        side = g.integer(0 if g.chance(0.1) else 1, 4)
        g.emit("Det", [g.new_input([*[g.integer(1, 3) for _ in range(g.integer(0, 2))], side, side], g.main)])


@form(0.2)
def grams(g: Builder) -> None:
    """TfIdfVectorizer of integers."""
    source = g.new_input(
        [g.integer(1, 3), g.integer(1, 8)] if g.chance(0.5) else [g.integer(1, 8)], g.one("int64", "int32")
    )
    g.emit(
        "TfIdfVectorizer",
        [source],
        mode=g.one("TF", "IDF", "TFIDF"),
        min_gram_length=g.one(1, 2),
        max_gram_length=2,
        max_skip_count=g.integer(0, 2),
        ngram_counts=[0, 3],
        ngram_indexes=[0, 1, 2, 3, 4],
        pool_int64s=[1, 2, -1, 1, 2, 3, 3],
        weights=g.one(None, [0.5, 1.0, 2.0, -1.0, 3.0]),
        shapes=[(*source.shape[:-1], 5)],
    )
