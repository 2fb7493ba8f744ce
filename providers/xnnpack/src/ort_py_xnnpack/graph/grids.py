"""The numbers that integers of 8 bits stand for: a scale and a zero point for each value of a graph.

XNNPACK knows them for each value. In ONNX the nodes on both sides of a value name them, and nodes that only move
elements do not care. So values that are moved to each other have one grid, and a conversion that names another one is
left to other providers. Bytes without a sign are held as bytes with one: 128 less, and so is their zero point.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass
from ort_py_xnnpack.graph.flat_graph import FlatGraph

__all__ = ["BYTES", "MOVES", "ONE", "Grid", "Grids", "grid_of"]

BYTES = frozenset({DataType.INT8, DataType.UINT8})
MOVES = frozenset(
    [
        "Concat", "DepthToSpace", "Flatten", "Identity", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split",
        "Squeeze", "Transpose", "Unsqueeze",
    ]
)  # fmt: skip
"""Operators whose results have no other elements than their data."""

_SMALLEST, _LARGEST = 1e-30, 1e30
"""Scales between which neither reciprocals nor the numbers themselves are infinite or subnormal."""
_HALF = 128


@dataclass(frozen=True, slots=True)
class Grid:
    """What the integers of a value stand for.

    Attributes:
        scale: The distance between two of them, a float32 number.
        zero: The integer with a sign that stands for 0.
    """

    scale: float
    zero: int

    @property
    def bound(self) -> float:
        """The largest magnitude."""
        return 256 * self.scale


ONE = Grid(1.0, 0)
"""The grid of integers that nothing converts."""


def grid_of(node: NodeSpec, graph: FlatGraph) -> Grid | str:
    """The grid that a QuantizeLinear or DequantizeLinear names, or why it names none that XNNPACK has."""
    whole = node.inputs[0] if node.op_type == "DequantizeLinear" else node.outputs[0]
    kind = None if whole is None else whole.data_type
    if kind not in BYTES:
        return f"it converts {'an unknown type' if kind is None else kind.onnx_name}; int8 and uint8 are supported"
    given = node.inputs[2] if len(node.inputs) > 2 else None
    scale, zero = graph.value(node.inputs[1]), graph.value(given)
    if scale is None or (given is not None and zero is None):
        return "its scale or its zero point is not a constant"
    if scale.size != 1 or (zero is not None and zero.size != 1):
        return "it has a scale for each entry of an axis, which XNNPACK has for weights only"
    number = float(scale.reshape(-1)[0])
    if scale.dtype != np.float32 or not _SMALLEST <= number <= _LARGEST:
        return f"its scale is {number:g} of {scale.dtype}; float32 from {_SMALLEST:g} to {_LARGEST:g} is supported"
    less = _HALF if kind is DataType.UINT8 else 0
    return Grid(number, (0 if zero is None else int(zero.reshape(-1)[0])) - less)


class Grids:
    """The grids of a graph.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: FlatGraph) -> None:
        self._above: dict[str, str] = {}
        self._found: dict[str, Grid] = {}
        self._others: set[int] = set()
        for node in graph.nodes:
            if node.op_type not in MOVES or node.domain:
                continue
            near = [one.name for one in (*node.inputs, *node.outputs) if one is not None and one.data_type in BYTES]
            for name in near[1:]:
                self._above[self._root(name)] = self._root(near[0])
        for wanted in ("QuantizeLinear", "DequantizeLinear"):
            for place, node in enumerate(graph.nodes):
                if node.op_type != wanted or node.domain:
                    continue
                grid = grid_of(node, graph)
                whole = node.inputs[0] if wanted == "DequantizeLinear" else node.outputs[0]
                if isinstance(grid, str) or whole is None:
                    continue
                if self._found.setdefault(self._root(whole.name), grid) != grid:
                    self._others.add(place)

    def of(self, value: ValueSpec) -> Grid | None:
        """The grid of a value; None where it is no integer of 8 bits."""
        return self._found.get(self._root(value.name), ONE) if value.data_type in BYTES else None

    def differs(self, place: int) -> bool:
        """Return whether a conversion names another grid than those before it."""
        return place in self._others

    def _root(self, name: str) -> str:
        while name in self._above and self._above[name] != name:
            name = self._above[name]
        return name
