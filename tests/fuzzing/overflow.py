"""Elements of sums that may overflow on their way, and the elements that depend on them.

Whether a sum of large terms passes through infinity depends on the order of its terms, which is not defined. A node
that adds up is therefore run with the magnitudes of its finite inputs, in float64: where that comes near the largest
number of its type, the element may as well be infinite or NaN. Such elements are then planted, and what changes behind
them is not held against anybody. This file knows nothing of the sessions that are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

import ort_py
from tests.fuzzing.cases import Feeds
from tests.fuzzing.runners import Variant, guarded, options_of

__all__ = ["READ", "SUMS", "magnitudes", "open_elements", "planted"]

_SUMS = """
AveragePool BatchNormalization Conv ConvTranspose Einsum Gemm GlobalAveragePool MatMul Mean ReduceL1 ReduceMean
ReduceSum Sum
"""
SUMS = frozenset(_SUMS.split())
"""Operators that add up products or inputs."""

RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
"""Operators that add up products before functions that make small numbers of them."""

NEAR = 0.001
"""Share of the largest number from which on a sum of magnitudes may overflow: nodes that are merged scale them."""
WAYS = (0.0, np.inf, -np.inf, np.nan)
"""Values that a sum that may overflow may have; 0 stands for a finite number."""

DRAWS = 6
ALONE = 6
"""Most sums that are planted alone."""

Array = np.ndarray[Any, Any]


def open_elements(model: onnx.ModelProto, values: Feeds) -> dict[str, Array]:
    """For each sum of the main graph that may overflow, which of its elements do.

    Args:
        model: The model.
        values: What is known: inputs, constants, and results of nodes.
    """
    found: dict[str, Array] = {}
    behind: set[str] = set()
    for node in model.graph.node:
        if not behind.isdisjoint(node.input):
            behind |= set(node.output)
        if node.op_type in RECURRENT and not node.domain:
            near_states = dict(_states(node, values))
            found |= near_states
            behind |= set(near_states)
            continue
        if node.domain or not node.output or node.output[0] not in values:
            continue
        result = values[node.output[0]]
        if result.dtype.kind not in "fV" or any(name and name not in values for name in node.input):
            continue
        if node.op_type not in SUMS:
            near = _OTHERS.get(node.op_type, _beyond_half)(node, values, result)
            if near is not None and near.any():
                found[node.output[0]] = near
                behind.add(node.output[0])
            continue
        terms = magnitudes(model, node, values, behind)
        if terms is None or terms.shape != result.shape:
            continue
        near = terms > NEAR * float(ml_dtypes.finfo(result.dtype).max)  # type: ignore[no-untyped-call]
        if _weighs_padding(node, values):
            near |= ~np.isfinite(result.astype(np.float64))
        if near.any():
            found[node.output[0]] = near
            behind.add(node.output[0])
    return found


def planted(model: onnx.ModelProto, values: Feeds, feeds: Feeds, seed: int) -> list[list[Any]]:
    """Results of the NumPy provider if elements that may overflow did; one list of outputs per draw.

    Args:
        model: The model.
        values: As for `open_elements`.
        feeds: What the model is fed.
        seed: Decides which elements become what.
    """
    opened = open_elements(model, values)
    numbers = np.random.default_rng(seed)
    outputs = {one.name for one in model.graph.output}
    found = []
    shapes = {name: values[name].shape for name in sorted(opened)}
    for ways in _draws(shapes, numbers) if opened else ():
        cut = _without(model, set(ways), values)
        fed = {name: _overflowed(values[name], opened[name], way) for name, way in ways.items()}
        ran = guarded(lambda cut=cut, fed=fed: _run(cut, {**feeds, **fed}))  # type: ignore[misc]
        if ran.outputs is not None:
            left = [one.name for one in cut.graph.output]
            known = {
                **dict(zip(left, ran.outputs, strict=True)),
                **{name: fed[name] for name in fed if name in outputs},
            }
            found.append([known[one.name] for one in model.graph.output])
    return found


def _draws(shapes: dict[str, tuple[int, ...]], numbers: np.random.Generator) -> Iterator[dict[str, Array]]:
    """For some of the sums, which of `WAYS` each element becomes."""
    names = list(shapes)
    starts = {name: numbers.integers(0, len(WAYS), shape) for name, shape in shapes.items()}
    # One sum alone as well: a sum behind it that is planted, too, would hide what becomes of its elements.
    for chosen in [names, *([name] for name in names[:ALONE] if len(names) > 1)]:
        # Who scales before adding up gets finite sums, in all nodes or in one of them: nothing overflows in this draw.
        yield {name: np.zeros(shapes[name], int) for name in chosen}
        # Every element becomes each of the ways once, and its neighbours other ones meanwhile.
        for turn in range(len(WAYS)):
            yield {name: (starts[name] + turn) % len(WAYS) for name in chosen}
    for _ in range(DRAWS):
        chosen = [name for name in names if len(names) == 1 or numbers.random() < 0.6]
        yield {name: numbers.integers(0, len(WAYS), shapes[name]) for name in chosen or names[:1]}


def _overflowed(array: Array, near: Array, ways: Array) -> Array:
    """An array whose open elements are what `ways` counts among `WAYS`."""
    drawn = np.array(WAYS)[ways]
    return np.where(near & ((drawn != 0) | ~np.isfinite(array.astype(np.float64))), drawn, array).astype(array.dtype)


def _doubled(node: onnx.NodeProto, values: Feeds, result: Array) -> Array:
    """Elements that are more than half of the largest number: regions double them, as the page on semantics says."""
    return np.asarray(values[node.input[0]] > ml_dtypes.finfo(result.dtype).max / 2)  # type: ignore[no-untyped-call]


def _rows(node: onnx.NodeProto, values: Feeds, result: Array) -> Array:
    """Elements of rows whose sum may overflow, so that their mean does."""
    x = np.nan_to_num(np.abs(values[node.input[0]].astype(np.float64)), posinf=0.0)
    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    first = given.get("axis", -1) % x.ndim if node.op_type == "LayerNormalization" else 2
    axes = tuple(given.get("axes", (0, 2, 3)) if node.op_type == "MeanVarianceNormalization" else range(first, x.ndim))
    near = x.sum(axes, keepdims=True) > NEAR * float(ml_dtypes.finfo(result.dtype).max)  # type: ignore[no-untyped-call]
    return np.broadcast_to(near, result.shape)


def _scored(node: onnx.NodeProto, values: Feeds, result: Array) -> Array:
    """Rows of an attention with a score that may overflow on its way, bounded by the largest key of the batch."""
    queries, keys = (
        np.nan_to_num(np.abs(values[name].astype(np.float64)), posinf=0.0) for name in (node.input[0], node.input[1])
    )
    largest = keys.max(axis=tuple(range(1, keys.ndim)), initial=0.0).reshape(-1, *(1,) * (queries.ndim - 1))
    scores = queries.sum(-1, keepdims=True) * largest
    near = scores > NEAR * float(ml_dtypes.finfo(result.dtype).max)  # type: ignore[no-untyped-call]
    return np.broadcast_to(near, result.shape)


_OTHERS: dict[str, Callable[[onnx.NodeProto, Feeds, Array], Array | None]] = {
    "Attention": _scored,
    "Gelu": _doubled,
    **dict.fromkeys(("InstanceNormalization", "LayerNormalization", "MeanVarianceNormalization"), _rows),
}
READ = SUMS | frozenset(_OTHERS)
"""Operators whose operands `open_elements` reads."""


def _beyond_half(node: onnx.NodeProto, values: Feeds, result: Array) -> Array | None:
    """Elements of a float16 that are no longer finite: regions compute in float32, where they may be."""
    if result.dtype != np.float16:
        return None
    near: Array = ~np.isfinite(result)
    for name in filter(None, node.input):
        if values[name].dtype.kind not in "fV":
            continue
        finite = np.isfinite(values[name].astype(np.float64))
        try:
            near = np.logical_and(near, np.broadcast_to(finite, result.shape))
        except ValueError:
            near = np.logical_and(near, bool(finite.all()))
    return np.asarray(near)


def _states(node: onnx.NodeProto, values: Feeds) -> Iterator[tuple[str, Array]]:
    """For each output of a recurrent layer, the rows from the step on at which a product of the sequence may overflow.

    Whether a gate is closed or not a number then depends on the order of the terms.
    """
    if any(name not in values for name in node.input[:2]):
        return
    attributes = {one.name: one.s or one.i for one in node.attribute if one.name in {"direction", "layout"}}
    by_batch = bool(attributes.get("layout", 0))
    x, w = (np.abs(values[name].astype(np.float64)) for name in node.input[:2])
    if x.ndim != 3 or w.ndim != 3 or x.shape[2] != w.shape[2] or values[node.input[0]].dtype.kind not in "fV":
        return
    x, w = (np.where(np.isfinite(one), one, 0.0) for one in (x.swapaxes(0, 1) if by_batch else x, w))
    largest = float(ml_dtypes.finfo(values[node.input[0]].dtype).max)  # type: ignore[no-untyped-call]
    near = (np.einsum("tbi,dgi->tdbg", x, w) > NEAR * largest).any(-1, keepdims=True)
    for direction in range(near.shape[1]):
        backwards = direction == 1 or attributes.get("direction") == b"reverse"
        part = near[::-1, direction] if backwards else near[:, direction]
        part[:] = np.logical_or.accumulate(part, axis=0)
    for place, name in enumerate(node.output):
        whole = near if place == 0 else near.any(0)
        if by_batch:
            whole = np.moveaxis(whole, -2, 0)
        if name in values and near.any():
            yield name, np.broadcast_to(whole, values[name].shape)


def _weighs_padding(node: onnx.NodeProto, values: Feeds) -> bool:
    """Whether a weight that is not finite may meet padding: who skips the padding gets no NaN from the product."""
    if node.op_type not in {"Conv", "ConvTranspose"}:
        return False
    return not np.isfinite(values[node.input[1]].astype(np.float64)).all()


def magnitudes(model: onnx.ModelProto, node: onnx.NodeProto, values: Feeds, behind: set[str]) -> Array | None:
    """What a sum of the magnitudes of finite terms is. Behind sums that may overflow, infinities are such terms, too:
    their signs are as open, and so is what they add up to."""
    fed, given = {}, []
    for name in dict.fromkeys(filter(None, node.input)):
        array = values[name]
        if array.dtype.kind in "fV":
            wide = np.abs(array.astype(np.float64))
            array = np.where(np.isfinite(wide), wide, np.inf if name in behind else 0.0)
        fed[name] = array
        given.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape))
    if node.op_type == "BatchNormalization":
        fed[node.input[3]] = -fed[node.input[3]]  # the mean is subtracted
        fed[node.input[4]] = values[node.input[4]].astype(np.float64)
    graph = helper.make_graph([node], "one", given, [helper.make_empty_tensor_value_info(node.output[0])])
    alone = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    ran = guarded(lambda: _run(alone, fed))
    if ran.outputs is None:
        return None
    result: np.ndarray[Any, Any] = np.nan_to_num(np.asarray(ran.outputs[0]), nan=np.inf)
    return result


def _without(model: onnx.ModelProto, cut: set[str], values: Feeds) -> onnx.ModelProto:
    """The model in which some results are fed instead of computed."""
    left = onnx.ModelProto()
    left.CopyFrom(model)
    del left.graph.node[:]
    for node in model.graph.node:
        if node.output and not cut.issuperset(filter(None, node.output)):
            kept = left.graph.node.add()
            kept.CopyFrom(node)
            kept.output[:] = [f"{name}_computed" if name in cut else name for name in node.output]
    for name in sorted(cut):
        array = values[name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        left.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    del left.graph.output[:]
    left.graph.output.extend([one for one in model.graph.output if one.name not in cut])
    return left


def _run(model: onnx.ModelProto, feeds: Feeds) -> list[Any]:
    if not model.graph.output:
        return []
    plain = Variant("numpy", "ORT_DISABLE_ALL", ("CPUExecutionProvider",), plain=True)
    names = ["CPUExecutionProvider"]
    with ort_py.InferenceSession(model.SerializeToString(), options_of(plain), providers=names) as session:
        return list(session.run(None, feeds))
