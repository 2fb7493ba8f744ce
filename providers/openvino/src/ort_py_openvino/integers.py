"""Conditions under which integers may go to a device that computes them in fewer bits than they have.

OpenVINO's plug-ins keep int64 at the border of a model and compute in int32, saturating. That is right for shapes and
indices, which no tensor is large enough to take beyond 32 bits, and wrong for a caller's numbers.

Some operators compute integers in float32, which holds 24 bits. They are right for counts and places, and for integers
of 8 and 16 bits. Sums of products of bytes are right where the weights are known to give no larger sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType

__all__ = ["refusal_of_integers"]

_LIMIT = 2**31 - 1
_ENDS = (-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1)

_PLACES: dict[str, frozenset[int]] = {
    "Shape": frozenset({0}),
    "Size": frozenset({0}),
    "Gather": frozenset({1}),
    "GatherElements": frozenset({1}),
    "GatherND": frozenset({1}),
    "ScatterElements": frozenset({1}),
    "ScatterND": frozenset({1}),
    "Reshape": frozenset({1}),
    "Expand": frozenset({1}),
    "Slice": frozenset({1, 2, 3, 4}),
    "Split": frozenset({1}),
    "Squeeze": frozenset({1}),
    "Unsqueeze": frozenset({1}),
    "Pad": frozenset({1, 3}),
    "Resize": frozenset({3}),
    "TopK": frozenset({1}),
    "ReduceSum": frozenset({1}),
    "ReduceMean": frozenset({1}),
    "ReduceMax": frozenset({1}),
    "ReduceMin": frozenset({1}),
    "ReduceL1": frozenset({1}),
    "ReduceL2": frozenset({1}),
    "ReduceProd": frozenset({1}),
    "ReduceLogSum": frozenset({1}),
    "ReduceLogSumExp": frozenset({1}),
    "ReduceSumSquare": frozenset({1}),
    "ConstantOfShape": frozenset({0}),
    "Tile": frozenset({1}),
}
"""Inputs that are places, sizes or axes by what the operator means."""

_COUNTS = frozenset({"Shape", "Size", "ArgMax", "ArgMin", "TopK", "NonZero"})
"""Operators whose int64 outputs are counts or places."""

_CARRIED = frozenset(
    {
        *("Concat", "Gather", "Slice", "Squeeze", "Unsqueeze", "Reshape", "Identity", "Split", "Expand", "Transpose"),
        *(
            "Flatten",
            "Min",
            "Max",
            "Where",
            "Range",
            "Tile",
            "Add",
            "Sub",
            "Mul",
            "Div",
            "Mod",
            "ReduceProd",
            "ReduceMax",
        ),
    }
)
"""Operators that make sizes out of sizes: moved, chosen, or combined as shapes are."""

_IN_FLOAT32 = frozenset(
    {
        *("Div", "Einsum", "Equal", "Gemm", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul", "Mod"),
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
        *("ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu"),
    }
)
"""Operators that compute integers in float32."""

_SUMS = frozenset({"ConvInteger", "MatMulInteger"})
"""Operators that add up products of bytes in float32."""

_MOST_SUM = 2**24
"""All integers up to this are numbers of float32."""

_BYTE = 255
"""The largest difference of two bytes."""

_LONG = frozenset({DataType.INT32, DataType.UINT32, DataType.UINT64})


def refusal_of_integers(node: NodeSpec, graph: GraphView) -> str | None:
    """Explain why the integers of a node may have more bits than it is computed in, or return None if they cannot."""
    long = node.op_type in _IN_FLOAT32 and _first(node.inputs) in _LONG
    if (long or (node.op_type in _SUMS and not _has_small_sums(node, graph))) and not node.domain:
        return "it computes integers in float32, which holds 24 bits"
    if node.op_type == "Cast" and _first(node.outputs) is DataType.INT64 and _first(node.inputs) is not DataType.INT64:
        return None if _first(node.inputs) in _SHORT else "a cast to int64 whose results OpenVINO would keep in 32 bits"
    places = _PLACES.get(node.op_type, frozenset())
    for place, value in enumerate(node.inputs):
        if value is None or value.data_type is not DataType.INT64 or place in places:
            continue
        if not _is_bounded(value, graph, {}):
            return f"'{value.name}' is int64 of unknown size, which OpenVINO would compute in 32 bits"
    return None


def _has_small_sums(node: NodeSpec, graph: GraphView) -> bool:
    """Return whether no sum of products of bytes with constant weights is larger than float32 counts."""
    given = (*node.inputs, None, None)
    weights, zero = (None if value is None else graph.constant(value.name) for value in (given[1], given[3]))
    if weights is None or (zero is None and given[3] is not None):
        return False
    factors = weights.astype(np.int64)
    if node.op_type == "ConvInteger":
        factors = factors.reshape(len(weights), -1).T
    if zero is not None:
        factors = factors - zero
    return _BYTE * int(np.abs(factors).sum(-2 if factors.ndim > 1 else None).max(initial=0)) <= _MOST_SUM


_SHORT = frozenset({DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16, DataType.INT32, DataType.BOOL})


def _first(values: tuple[ValueSpec | None, ...]) -> DataType | None:
    return values[0].data_type if values and values[0] is not None else None


def _is_bounded(value: ValueSpec, graph: GraphView, known: dict[str, bool]) -> bool:
    """Return whether all elements are counts, places, or constants within 32 bits; follows producers without
    recursion.
    """
    pending = [value]
    while pending:
        current = pending.pop()
        if current.name in known or current.data_type is not DataType.INT64:
            continue
        known[current.name] = True
        constant = graph.constant(current.name)
        if constant is not None:
            if not _fits(constant):
                return False
            continue
        index = graph.producer(current.name)
        if index is None:
            return False
        node = graph.nodes[index]
        if node.op_type in _COUNTS or (node.op_type == "Cast" and _first(node.inputs) in _SHORT):
            continue
        if node.op_type not in _CARRIED or node.domain:
            return False
        places = _PLACES.get(node.op_type, frozenset())
        pending += [one for place, one in enumerate(node.inputs) if one is not None and place not in places]
    return True


def _fits(constant: np.ndarray[Any, Any]) -> bool:
    """Within 32 bits, or int64's own ends, which exporters write for 'to the end' and which saturate to that."""
    return bool((((constant >= -_LIMIT) & (constant <= _LIMIT)) | np.isin(constant, _ENDS)).all())
