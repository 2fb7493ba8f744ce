"""Reductions, searches, normalisations and running sums along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from providers.openvino.tests.differential.case import (
    FLOATS,
    Array,
    Case,
    axis_of,
    floats,
    integers,
    numbers,
    pick,
    shape_of,
)

__all__ = ["FAMILIES"]

Rng = np.random.Generator

_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")


def reduce(rng: Rng) -> Case:
    """All reductions, axes as attribute or input, missing or empty."""
    op_type = "Reduce" + str(rng.choice(_REDUCTIONS))
    dtype: Any = FLOATS[rng.integers(len(FLOATS))] if rng.random() < 0.8 else np.int32
    shape = shape_of(rng, 0 if rng.random() < 0.1 else 1)
    rank = len(shape)
    data = numbers(rng, shape, dtype, 0.1)
    if op_type in {"ReduceLogSum"} and np.dtype(dtype).kind != "i":
        data = np.abs(data)
    if np.dtype(dtype).kind == "i":
        data = integers(rng, shape, dtype, 1, 9) if "Log" not in op_type else integers(rng, shape, dtype, 1, 3)
    attributes: dict[str, Any] = {"keepdims": int(rng.integers(2))}
    style = rng.integers(4)
    count = int(rng.integers(1, rank + 1)) if rank else 0
    axes = rng.permutation(rank)[:count]
    axes = np.where(rng.random(count) < 0.5, axes, axes - rank).astype(np.int64)
    opset = 21 if rng.random() < 0.7 or op_type == "ReduceSum" else 11
    if opset == 11:
        if style and rank:
            attributes["axes"] = axes.tolist()
        return Case(op_type, [data], attributes, opset)
    if rng.random() < 0.4:
        attributes["noop_with_empty_axes"] = int(rng.integers(2))
    given = None if style == 0 else np.zeros((0,), np.int64) if style == 1 or not rank else axes
    constants = frozenset({1}) if rng.random() < 0.7 else frozenset[int]()
    return Case(op_type, [data, given], attributes, constants=constants, static=rng.random() < 0.6)


def arg(rng: Rng) -> Case:
    """ArgMax and ArgMin with ties, TopK with ties."""
    shape = shape_of(rng, 1)
    axis = axis_of(rng, len(shape))
    dtype: Any = pick(rng, [np.float32, np.float16, np.int32, np.int8, np.uint8])
    data = integers(rng, shape, np.int32, 0, 4).astype(dtype)
    if dtype == np.float32 and rng.random() < 0.3:
        data = floats(rng, shape, 0.15)
    if rng.random() < 0.4:
        count = np.array([rng.integers(1, shape[axis] + 1)], np.int64)
        attributes: dict[str, Any] = {"axis": axis, "largest": int(rng.integers(2)), "sorted": 1}
        constants = frozenset({1}) if rng.random() < 0.7 else frozenset[int]()
        return Case("TopK", [data, count], attributes, outputs=2, constants=constants)
    attributes = {"keepdims": int(rng.integers(2)), "axis": axis, "select_last_index": int(rng.integers(2))}
    return Case(str(rng.choice(["ArgMax", "ArgMin"])), [data], attributes, static=rng.random() < 0.5)


def softmax(rng: Rng) -> Case:
    """Softmax and its kin in their old and new versions."""
    shape = shape_of(rng, 1)
    dtype = FLOATS[rng.integers(len(FLOATS))]
    attributes: dict[str, Any] = {} if rng.random() < 0.3 else {"axis": axis_of(rng, len(shape))}
    opset = int(rng.choice([11, 13, 21]))
    op_type = str(rng.choice(["Softmax", "LogSoftmax", "Hardmax"]))
    data = floats(rng, shape, 0.15 if op_type != "Hardmax" else 0.0, dtype=dtype if opset > 11 else np.float32)
    return Case(op_type, [data], attributes, opset, static=rng.random() < 0.5)


def cumulative(rng: Rng) -> Case:
    """Running sums."""
    shape = shape_of(rng, 1)
    axis = np.array(axis_of(rng, len(shape)), pick(rng, [np.int32, np.int64]))
    dtype: Any = np.float32 if rng.random() < 0.6 else np.int32
    attributes = {"exclusive": int(rng.integers(2)), "reverse": int(rng.integers(2))}
    constants = frozenset({1}) if rng.random() < 0.7 else frozenset[int]()
    data = numbers(rng, shape, dtype, 0.05) if dtype == np.float32 else integers(rng, shape, dtype, -9, 9)
    return Case("CumSum", [data, axis], attributes, constants=constants, static=rng.random() < 0.5)


def normal(rng: Rng) -> Case:
    """Normalisations."""
    shape = (*shape_of(rng, 2, 2), *shape_of(rng, 1, 2))
    channels = shape[1]
    special = 0.05 if rng.random() < 0.2 else 0.0
    data = floats(rng, shape, special)
    constants = frozenset({1, 2, 3, 4}) if rng.random() < 0.6 else frozenset[int]()
    epsilon: dict[str, Any] = {"epsilon": float(rng.choice([1e-5, 1e-2, 1e-3]))}
    static = bool(rng.random() < 0.5)

    def weights(size: int = channels) -> Array:
        return floats(rng, (size,))

    match int(rng.integers(7)):
        case 0:
            variance = np.abs(weights())
            opset = int(rng.choice([9, 14, 15, 21]))
            given: list[Array | None] = [data, weights(), weights(), weights(), variance]
            return Case("BatchNormalization", given, epsilon, opset, constants=constants, static=static)
        case 1:
            given = [data, weights(), weights()]
            return Case("InstanceNormalization", given, epsilon, constants=constants, static=static)
        case 2:
            axis = axis_of(rng, len(shape))
            scale = floats(rng, shape[axis % len(shape) :])
            bias = None if rng.random() < 0.4 else floats(rng, shape[axis % len(shape) :])
            return Case("LayerNormalization", [data, scale, bias], {**epsilon, "axis": axis}, constants=constants)
        case 3:
            groups = int(rng.choice([size for size in range(1, channels + 1) if channels % size == 0]))
            opset = int(rng.choice([18, 21]))
            size = groups if opset == 18 else channels
            given = [data, weights(size), weights(size)]
            return Case("GroupNormalization", given, {**epsilon, "num_groups": groups}, opset, constants=constants)
        case 4:
            lrn: dict[str, Any] = {"size": int(rng.integers(1, 6)), "alpha": 0.1, "beta": 0.6, "bias": 1.5}
            return Case("LRN", [data], lrn, static=static)
        case 5:
            norm = {"axis": axis_of(rng, len(shape)), "p": int(rng.integers(1, 3))}
            return Case("LpNormalization", [data], norm, static=static)
        case _:
            axes = sorted(rng.permutation(len(shape))[: rng.integers(1, len(shape) + 1)].tolist())
            chosen: dict[str, Any] = {"axes": axes} if rng.random() < 0.8 or len(shape) != 4 else {}
            return Case("MeanVarianceNormalization", [data], chosen, static=static)


FAMILIES = {"reduce": reduce, "arg": arg, "softmax": softmax, "cumulative": cumulative, "normal": normal}
