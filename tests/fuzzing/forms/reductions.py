"""Reductions with every form of axes, normalisations, softmax, and what picks the largest."""

from __future__ import annotations

import numpy as np

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.registry import form
from tests.fuzzing.schemas import Rejected, Value

__all__ = ["reduced"]

PLAIN = ("ReduceSum", "ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceL1", "ReduceSumSquare")
OTHERS = ("ReduceProd", "ReduceLogSum", "ReduceLogSumExp")


def reduced(g: Builder, source: Value, op_type: str) -> Value:
    """A reduction along some axes, all, or none."""
    keep = g.one(None, 0, 1)
    as_input = g.opset >= (13 if op_type == "ReduceSum" else 18)
    axes = None
    if source.rank and g.chance(0.8):
        axes = g.rng.sample(range(source.rank), g.integer(1, source.rank))
        if g.opset >= 11 and g.chance(0.4):
            axes = [axis - source.rank for axis in axes]
    if not as_input:
        return g.emit(op_type, [source], axes=axes, keepdims=keep)[0]
    empty = g.one(None, 0, 1) if axes is None else g.one(None, 0)
    operands: list[Value | None] = [source]
    if axes is not None:
        operands.append(g.ints(*axes))
    elif g.chance(0.3):
        operands.append(g.const(np.zeros(0, np.int64)))
    return g.emit(op_type, operands, keepdims=keep, noop_with_empty_axes=empty)[0]


@form(4)
def reduction(g: Builder) -> None:
    """A reduction of floats, and of integers sometimes."""
    op_type = g.one(*PLAIN) if g.chance(0.85) else g.one(*OTHERS)
    source = g.data(dtypes=(g.main,) if g.chance(0.9) else (g.one("int32", "int64", "uint8", "int8"),))
    if 0 in source.shape and g.chance(0.8):
        raise Rejected("mostly not of nothing")
    if op_type == "ReduceLogSum":
        source = g.emit("Exp", [g.emit("Tanh", [source])[0]])[0]
    reduced(g, source, op_type)


@form(1)
def written_out_normalisation(g: Builder) -> None:
    """LayerNormalization as older exporters wrote it: mean, difference, square, mean, root, quotient."""
    source = g.data(least=1)
    axes = [source.rank - 1 if g.opset < 11 else -1]

    def mean(value: Value) -> Value:
        if g.opset >= 18:
            return g.emit("ReduceMean", [value, g.ints(*axes)])[0]
        return g.emit("ReduceMean", [value], axes=axes)[0]

    centred = g.emit("Sub", [source, mean(source)])[0]
    if g.chance(0.5):
        square = g.emit("Pow", [centred, g.const(np.array(2.0), source.dtype)])[0]
    else:
        square = g.emit("Mul", [centred, centred])[0]
    wide = g.emit("Add", [mean(square), g.const(np.array(g.one(1e-5, 1e-2)), source.dtype)])[0]
    made = g.emit("Div", [centred, g.emit("Sqrt", [wide])[0]])[0]
    if g.chance(0.6):
        made = g.emit("Mul", [made, g.weights([source.shape[-1]])])[0]
        g.emit("Add", [made, g.weights([source.shape[-1]])])


@form(2.5)
def normalisation(g: Builder) -> None:
    """LayerNormalization, GroupNormalization, InstanceNormalization, RMSNormalization and others."""
    kind = g.one("Layer", "Layer", "Instance", "Group", "RMS", "Lp", "MeanVariance")
    if kind in {"Layer", "RMS"}:
        source = g.data(least=1)
        axis = g.axis(source.rank)
        shape = source.shape[axis:]
        operands: list[Value | None] = [source, g.weights(shape)]
        if kind == "Layer" and g.chance(0.6):
            operands.append(g.weights(shape))
        g.emit(
            f"{kind}Normalization",
            operands,
            axis=axis if axis != -1 or g.chance(0.5) else None,
            epsilon=g.one(None, 1e-3),
        )
    elif kind == "Instance":
        source = g.data(g.one(3, 4))
        g.emit(
            "InstanceNormalization",
            [source, g.weights([source.shape[1]]), g.weights([source.shape[1]])],
            epsilon=g.one(None, 1e-2),
        )
    elif kind == "Group":
        source = g.data(g.one(3, 4))
        channels = source.shape[1]
        groups = g.rng.choice([one for one in range(1, channels + 1) if channels % one == 0])
        size = channels if g.opset >= 21 else groups
        g.emit("GroupNormalization", [source, g.weights([size]), g.weights([size])], num_groups=groups)
    elif kind == "Lp":
        source = g.data(least=1)
        g.emit("LpNormalization", [source], axis=g.axis(source.rank), p=g.one(1, 2))
    else:
        source = g.data(4)
        g.emit("MeanVarianceNormalization", [source], axes=g.one(None, [0, 2, 3], [1], [2, 3]))


@form(3)
def softmax(g: Builder) -> None:
    """Softmax, LogSoftmax and Hardmax along every axis."""
    source = g.data(least=1)
    axis = None if g.chance(0.25) and (source.rank > 1 or g.opset >= 13) else g.axis(source.rank)
    g.emit(g.one("Softmax", "Softmax", "LogSoftmax", "Hardmax"), [source], axis=axis)


@form(1)
def largest(g: Builder) -> None:
    """ArgMax, ArgMin and TopK."""
    source = g.data(least=1)
    axis = g.axis(source.rank)
    if not source.shape[axis]:
        raise Rejected("nothing to choose from")
    if g.chance(0.5):
        last = g.one(None, 0, 1) if g.opset >= 12 else None
        g.emit(g.one("ArgMax", "ArgMin"), [source], axis=axis, keepdims=g.one(None, 0, 1), select_last_index=last)
        return
    count = g.integer(0 if g.chance(0.05) else 1, source.shape[axis])
    if g.opset < 10:
        g.emit("TopK", [source], 2, axis=axis, k=count, keep=g.one(1, 2))
    else:
        largest_ = g.one(None, 0, 1) if g.opset >= 11 else None
        g.emit("TopK", [source, g.ints(count)], 2, axis=axis, largest=largest_, keep=g.one(1, 2))


@form(0.8)
def running(g: Builder) -> None:
    """CumSum in both directions, with and without the own element."""
    source = g.data(least=1, dtypes=(g.main,) if g.chance(0.8) else ("int32", "int64"))
    axis = g.const(np.array(g.axis(source.rank), g.one(np.int64, np.int32)))
    g.emit("CumSum", [source, axis], exclusive=g.one(None, 0, 1), reverse=g.one(None, 0, 1))
