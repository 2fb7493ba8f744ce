"""Whether a group of nodes is worth a call to oneDNN: what NumPy takes for them against what the region takes.

    NumPy    = Σ over nodes: call(operator) + elements · rate(operator)
    a region = entry + array · (inputs + outputs) + primitives · (primitive + elements · rate)

A group pays where NumPy takes a fifth more than the region: compiling it costs a millisecond too. Views and functions
of what was just computed are not primitives; what follows from shapes costs a region nothing.

All constants are measured times of one thread and stand here, nowhere else: `CALLS` and `RATES` with single nodes of
256 and of 4,096 elements in sessions, less a session's own 1.4 µs; the others with the same nodes in regions. They were
taken on one machine (5th generation of Epyc); what counts are their ratios, and where these are near one, nothing is
lost either way. Operators whose work is a product are not asked about: see `Rule.heavy`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType

__all__ = ["numpy_us", "pays", "region_us"]

ENTRY_US = 1.6
"""Checking shapes, the call, the thread count."""

ARRAY_US = 0.3
"""Binding one array; the region makes the array of an output too."""

PRIMITIVE_US = 0.2
ELEMENT_US = 0.1e-3
MARGIN = 1.2

_CALL_US = 0.6
_RATE_US = 0.3e-3
_HALF_RATE_US = 2.0e-3
"""Microseconds an element of a Cast from or to float16 in NumPy."""

CALLS: Mapping[str, float] = {
    **dict.fromkeys(("Resize", "Upsample"), 22.0),
    **dict.fromkeys(("BiasGelu", "FastGelu", "Gelu", "QuickGelu"), 18.0),
    **dict.fromkeys(("AveragePool", "GroupNormalization", "InstanceNormalization", "LayerNormalization"), 13.0),
    **dict.fromkeys(("MaxPool", "RotaryEmbedding", "SkipLayerNormalization"), 13.0),
    **dict.fromkeys(("LogSoftmax", "RMSNormalization", "SimplifiedLayerNormalization", "Softmax"), 8.0),
    **dict.fromkeys(("BatchNormalization", "GlobalAveragePool", "GlobalMaxPool", "HardSwish", "LRN", "PRelu"), 6.5),
    **dict.fromkeys(("Celu", "Elu", "Pad", "Selu"), 5.0),
    **dict.fromkeys(("HardSigmoid", "Swish"), 2.8),
    **dict.fromkeys(("Clip", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Sigmoid"), 1.5),
}
"""Microseconds of NumPy's calls for a node, but for its elements."""

RATES: Mapping[str, float] = {
    "Erf": 3.2e-3,
    **dict.fromkeys(("LayerNormalization", "LogSoftmax", "Softmax", "SimplifiedLayerNormalization"), 4.0e-3),
    **dict.fromkeys(("BiasGelu", "FastGelu", "Gelu", "QuickGelu"), 2.7e-3),
    **dict.fromkeys(("Celu", "Elu", "PRelu", "Selu", "ReduceMean"), 1.2e-3),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), 0.8e-3),
    **dict.fromkeys(("HardSwish", "Sigmoid", "Swish"), 0.5e-3),
    "Tanh": 0.2e-3,
}
"""Microseconds an element in NumPy."""

_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})
"""Neither NumPy nor a region moves an element for these by itself, but a region copies what it returns of them."""

_FOLLOWS = frozenset(
    {"Abs", "Add", "Clip", "Div", "Exp", "HardSigmoid", "HardSwish", "LeakyRelu", "Mul", "Neg", "Relu", "Sqrt", "Sub"}
)
"""Mostly done by the primitive before."""

_UNKNOWN = 16
"""Size taken for a dimension that is not known before a run."""


def pays(graph: GraphView, nodes: Sequence[NodeSpec]) -> bool:
    """Return whether a region of nodes is faster than what it replaces."""
    return any(_computes(node) for node in nodes) and numpy_us(nodes) >= MARGIN * region_us(graph, nodes)


def numpy_us(nodes: Sequence[NodeSpec]) -> float:
    """Microseconds that the provider which completes takes for nodes."""
    return sum(
        CALLS.get(node.op_type, _CALL_US) + (_largest(node) * _rate(node) if _computes(node) else 0.0) for node in nodes
    )


def _rate(node: NodeSpec) -> float:
    kinds = {value.data_type for value in (*node.inputs, *node.outputs) if value is not None}
    halves = node.op_type == "Cast" and DataType.FLOAT16 in kinds
    return _HALF_RATE_US if halves else RATES.get(node.op_type, _RATE_US)


_RETURNED: WeakKeyDictionary[GraphView, frozenset[str]] = WeakKeyDictionary()
"""Names of the outputs of graphs, which may be as many as the groups that are asked about."""


def region_us(graph: GraphView, nodes: Sequence[NodeSpec]) -> float:
    """Microseconds that a region of nodes takes."""
    members = {node.index for node in nodes}
    returned = _RETURNED.get(graph)
    if returned is None:
        returned = _RETURNED[graph] = frozenset([value.name for value in graph.outputs])
    read: set[str] = set()
    written: set[str] = set()
    for node in nodes:
        for value in node.inputs:
            if value is not None and not value.constant and graph.producer(value.name) not in members:
                read.add(value.name)
        for value in node.outputs:
            if value is not None and (not members.issuperset(graph.consumers(value.name)) or value.name in returned):
                written.add(value.name)
    work = [node for node in nodes if _computes(node)]
    primitives = [_largest(node) for node in work if node.op_type not in _FOLLOWS]
    if not primitives:
        primitives = [max([_largest(node) for node in work], default=0)]
    arrays = ARRAY_US * (len(read) + len(written))
    return ENTRY_US + arrays + sum(PRIMITIVE_US + ELEMENT_US * elements for elements in primitives)


def _computes(node: NodeSpec) -> bool:
    """Return whether a region does something at a run for a node."""
    output = node.outputs[0] if node.outputs else None
    return node.op_type not in _VIEWS and (output is None or output.data_type is not DataType.INT64)


def _largest(node: NodeSpec) -> int:
    return max((_elements(value) for value in (*node.inputs, *node.outputs)), default=0)


def _elements(value: ValueSpec | None) -> int:
    shape = None if value is None else value.shape
    return 0 if shape is None else math.prod(dim if isinstance(dim, int) else _UNKNOWN for dim in shape)
