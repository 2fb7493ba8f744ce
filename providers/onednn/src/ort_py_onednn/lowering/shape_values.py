"""Values that follow from shapes, evaluated while a plan is made.

An operator here is a function of arrays and attributes, as ONNX defines it, for vectors and scalars. Nothing of it is
left at a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner

__all__ = ["EVALUATED", "evaluate"]

Array = np.ndarray[Any, Any]
Evaluate = Callable[[Sequence[Array | None], Mapping[str, Any], int], Any]

_CAST = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_}
"""ONNX's numbers of the types that lists of sizes have."""


def evaluate(planner: Planner, operation: Operation) -> None:
    """Find an operation's result, known from now on."""
    kind = operation.kind.removeprefix("shape:")
    attributes = operation.attributes
    found: Any
    if kind in {"Shape", "Size"}:
        shape = planner.shape(operation.inputs[0])
        if kind == "Shape":
            found = np.array(shape[attributes.get("start", 0) : attributes.get("end", len(shape))], np.int64)
        else:
            found = np.array(int(np.prod(shape, dtype=np.int64)), np.int64)
    else:
        given = [planner.known(name) if name else None for name in operation.inputs]
        with np.errstate(all="ignore"):  # as NumPy's kernels would do during a run
            found = EVALUATED[kind](given, attributes, operation.since)
    planner.know(operation.outputs[0], np.asarray(found))


def _cast(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    return given[0].astype(_CAST[int(attributes["to"])])


def _divide(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    left, right = given
    if left.dtype.kind == "f":
        return left / right
    return (np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))).astype(left.dtype)


def _remainder(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    return (np.fmod if attributes.get("fmod", 0) else np.mod)(*given)


def _constant_of_shape(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    value = attributes.get("value")
    number = np.zeros((), np.float32) if value is None else np.asarray(value).reshape(())
    return np.full(given[0], number, number.dtype)


def _concatenated(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    return np.concatenate(given, attributes["axis"])


def _expanded(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    return np.broadcast_to(given[0], np.broadcast_shapes(given[0].shape, tuple(int(dim) for dim in given[1])))


def _gathered(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    return np.take(given[0], given[1], attributes.get("axis", 0))


def _axes(given: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[int, ...] | None:
    axes = given[1] if len(given) > 1 and given[1] is not None else attributes.get("axes")
    return None if axes is None else tuple(int(axis) for axis in np.reshape(axes, -1))


def _product(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    axes = _axes(given, attributes)
    if axes is None and attributes.get("noop_with_empty_axes", 0):
        return given[0]
    keep = attributes.get("keepdims", 1) == 1
    return np.prod(given[0], axis=axes or None, keepdims=keep, dtype=given[0].dtype)


def _reshape(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    shape = [int(dim) for dim in given[1]]
    if not attributes.get("allowzero", 0):
        shape = [given[0].shape[place] if dim == 0 else dim for place, dim in enumerate(shape)]
    return given[0].reshape(shape)


def _slice(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    if since < 10:
        starts, ends = attributes["starts"], attributes["ends"]
        axes, steps = attributes.get("axes"), None
    else:
        starts, ends = given[1], given[2]
        axes = given[3] if len(given) > 3 else None
        steps = given[4] if len(given) > 4 else None
    places = range(len(starts)) if axes is None else axes
    cuts = [slice(None)] * given[0].ndim
    for index, axis in enumerate(places):
        step = 1 if steps is None else int(steps[index])
        end: int | None = int(ends[index])
        if step < 0 and end is not None and end < -given[0].shape[int(axis)]:
            end = None
        cuts[int(axis)] = slice(int(starts[index]), end, step)
    return given[0][tuple(cuts)]


def _squeeze(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    return np.squeeze(given[0], _axes(given, attributes))


def _unsqueeze(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
    return np.expand_dims(given[0], _axes(given, attributes) or ())


def _many(function: Callable[[Any, Any], Any]) -> Evaluate:
    def apply(given: Sequence[Any], attributes: Mapping[str, Any], since: int) -> Any:
        found = given[0]
        for other in given[1:]:
            found = function(found, other)
        return found

    return apply


def _plain(function: Callable[..., Any]) -> Evaluate:
    return lambda given, attributes, since: function(*given)


EVALUATED: Mapping[str, Evaluate] = {
    "Abs": _plain(np.abs),
    "Add": _plain(np.add),
    "Cast": _cast,
    "Ceil": _plain(np.ceil),
    "Concat": _concatenated,
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Equal": _plain(np.equal),
    "Expand": _expanded,
    "Floor": _plain(np.floor),
    "Gather": _gathered,
    "Identity": lambda given, attributes, since: given[0],
    "Max": _many(np.maximum),
    "Min": _many(np.minimum),
    "Mod": _remainder,
    "Mul": _plain(np.multiply),
    "Neg": _plain(np.negative),
    "ReduceProd": _product,
    "Reshape": _reshape,
    "Round": _plain(np.rint),
    "Slice": _slice,
    "Sqrt": _plain(np.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(np.subtract),
    "Unsqueeze": _unsqueeze,
    "Where": _plain(np.where),
}
"""Functions of the inputs, the attributes and the schema version; Shape and Size look at no array."""
