"""What onnx's inference must not be given: it is C++ that a hostile model can crash, or make eat all memory.

Used by `inference`. Two dangers were found by fuzzing onnx 1.23: single nodes whose attributes it indexes with before
looking at them, and data propagation, which keeps an entry for each element of each one-dimensional tensor that an
arithmetic node reads, 140 bytes apiece, whatever the tensor is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx

from ort_py.dtypes import TensorType, ValueType
from ort_py.graph.ir import Graph, Model, Node, Value, walk

__all__ = ["node_fault", "propagates", "worth_propagating"]

_MOST_ENTRIES = 1 << 19
"""Entries that data propagation may make: about 70 MB and a fifth of a second."""

_MOST_AXES = 1 << 16
"""No tensor has so many axes; onnx cuts larger numbers to 32 bits without looking."""

_CEILING = 1 << 62

_SUMS = frozenset({"Add", "Sub"})


def node_fault(node: Node) -> str | None:
    """Why a node contradicts its operator in a way that inference would not survive; None where it does not."""
    if node.domain:
        return None
    axis = node.attributes.get("axis")
    if isinstance(axis, int) and not -_MOST_AXES <= axis <= _MOST_AXES:
        return f"its axis is {axis}"
    count = node.attributes.get("num_outputs") if node.op_type == "Split" else None
    if isinstance(count, int) and count != len(node.outputs):
        return f"it says that it has {count} outputs, and has {len(node.outputs)}"
    return None


@cache
def propagates(op_type: str, domain: str, opset: int) -> bool:
    """Whether data propagation follows the operator."""
    if domain or not onnx.defs.has(op_type, opset, domain):
        return False
    return bool(getattr(onnx.defs.get_schema(op_type, opset, domain), "has_data_propagation_function", False))


def worth_propagating(model: Model, types: Mapping[Value, ValueType]) -> bool:
    """Whether shapes depend on computed numbers, and following those stays cheap.

    Args:
        model: The model.
        types: What inference found without data propagation.
    """
    graphs = list(walk(model.graph))
    if not any(_computes_shapes(graph) for graph in graphs):
        return False
    # Twice, because what a nested graph makes may be read in front of it in this order.
    bounds = _Bounds(types)
    for _ in range(2):
        bounds.entries = 0
        for graph in graphs:
            bounds.read(graph)
    return bounds.entries <= _MOST_ENTRIES


def _computes_shapes(graph: Graph) -> bool:
    return any(
        node.op_type in ("Shape", "Size")
        or (
            propagates(node.op_type, node.domain, node.opset_version)
            and all(value is None or value.constant for value in node.inputs)
        )
        for node in graph.nodes
    )


class _Bounds:
    """How large computed sizes can become, and how many entries following them makes.

    Attributes:
        entries: Entries so far.
    """

    def __init__(self, types: Mapping[Value, ValueType]) -> None:
        self.entries = 0
        self._types = types
        self._largest: dict[Value, int] = {}
        # Largest size that propagation may give to a dimension that is unknown without it.
        self._grown = 1

    def read(self, graph: Graph) -> None:
        """Count the nodes of one graph."""
        for node in graph.nodes:
            if propagates(node.op_type, node.domain, node.opset_version):
                self._propagated(node)
                continue
            fed = [self._bound(value) for value in node.inputs if value is not None]
            sizes = max((size for size in fed if size is not None), default=0)
            if sizes:
                # A Reshape's target, a Tile's repeats, …: at most the numbers times what is there already.
                there = max((self._widest(value) for value in node.inputs if value is not None), default=1)
                factor = 1 if node.op_type in ("Reshape", "Expand", "ConstantOfShape", "Slice") else there
                self._grown = min(max(self._grown, sizes * factor), _CEILING)

    def _propagated(self, node: Node) -> None:
        inputs = [value for value in node.inputs if value is not None]
        self.entries += sum(self._count(value) for value in inputs)
        if node.op_type == "Shape":
            bound: int | None = max(map(self._widest, inputs), default=1)
        elif node.op_type == "Size":
            bound = max(map(self._elements, inputs), default=1)
        else:
            known = [found for found in map(self._bound, inputs) if found is not None]
            if not known:
                return
            bound = sum(known) if node.op_type in _SUMS else max(known)
            if node.op_type == "Mul":
                bound = int(np.prod(known, dtype=object))
        for value in node.outputs:
            if value is not None:
                self._largest[value] = min(bound or 1, _CEILING)

    def _bound(self, value: Value) -> int | None:
        """Largest number the value can hold; None where propagation knows nothing of it."""
        if value in self._largest:
            return self._largest[value]
        weight = value.weight
        if weight is None or not value.constant or len(weight.shape) > 1 or weight.nbytes > 1024:
            return None
        array = weight.array()
        if array.dtype.kind not in "iu" or not array.size:
            return None
        self._largest[value] = int(np.abs(array.astype(np.float64)).max())
        return self._largest[value]

    def _dims(self, value: Value) -> list[int] | None:
        known = self._types.get(value, value.type)
        if not isinstance(known, TensorType) or known.shape is None:
            return None
        return [dim if isinstance(dim, int) else self._grown for dim in known.shape]

    def _widest(self, value: Value) -> int:
        dims = self._dims(value)
        return self._grown if dims is None else max(dims, default=1)

    def _elements(self, value: Value) -> int:
        dims = self._dims(value)
        return _CEILING if dims is None else min(int(np.prod(dims, dtype=object)), _CEILING)

    def _count(self, value: Value) -> int:
        """Entries made for reading the value: its elements where it is one-dimensional."""
        dims = self._dims(value)
        if dims is None:
            return self._grown
        return dims[0] if len(dims) == 1 else 1
