"""Values that follow from shapes: what exporters compute with Shape, Gather and Concat to say how to reshape a tensor.

Once the shapes of a region's inputs are known, so are they: they are evaluated while a plan is made, and at a run cost
nothing. What reads them as sizes, bounds or axes is claimed like a reader of constants. It does not depend on how they
are evaluated; `lowering.shape_values` does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType

__all__ = ["SHAPE_OPERATORS", "WHOLE", "broken", "follow_from_shapes", "is_shape_operator", "worth_claiming"]

SHAPE_OPERATORS = frozenset(
    {
        "Abs",
        "Add",
        "Cast",
        "Ceil",
        "Concat",
        "ConstantOfShape",
        "Div",
        "Equal",
        "Expand",
        "Floor",
        "Gather",
        "Identity",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "ReduceProd",
        "Reshape",
        "Round",
        "Shape",
        "Size",
        "Slice",
        "Sqrt",
        "Squeeze",
        "Sub",
        "Unsqueeze",
        "Where",
    }
)
"""Operators that `lowering.shape_values` evaluates."""

_SOURCES = frozenset({"Shape", "Size"})
WHOLE = frozenset({DataType.INT64, DataType.INT32, DataType.BOOL})
"""Types of lists of sizes; a region looks at short vectors of these and does not compute with them."""

_TYPES = WHOLE | {DataType.FLOAT}
_LONGEST = 64
"""Elements up to which a vector is a list of sizes, not data."""


def _is_small(value: ValueSpec) -> bool:
    shape = value.shape
    if value.data_type not in _TYPES or shape is None or len(shape) > 1:
        return False
    return all(isinstance(dim, int) and dim <= _LONGEST for dim in shape)


def is_shape_operator(node: NodeSpec, known: Container[str], constant: Callable[[str], object]) -> bool:
    """Return whether a node's result follows from shapes.

    Args:
        node: The node.
        known: Values that do; one of them at least must be among the inputs, but for Shape and Size.
        constant: Array of a constant, None for other values: what else the inputs may be.
    """
    if node.domain or node.op_type not in SHAPE_OPERATORS or len(node.outputs) != 1:
        return False
    output = node.outputs[0]
    if output is None or not _is_small(output):
        return False
    if node.op_type in _SOURCES:
        value = node.inputs[0]
        return value is not None and value.shape is not None
    given = [value for value in node.inputs if value is not None]
    if not all(_is_small(value) and (value.name in known or constant(value.name) is not None) for value in given):
        return False
    return any(value.name in known for value in given)


def follow_from_shapes(graph: GraphView) -> dict[str, int]:
    """Values that follow from shapes and are not constants, with the index of the node that makes them."""
    found: dict[str, int] = {}

    for node in graph.nodes:
        if is_shape_operator(node, found, graph.constant):
            output = node.outputs[0]
            assert output is not None
            found[output.name] = node.index
    return found


def worth_claiming(graph: GraphView, able: set[int], found: dict[str, int], readers: Iterable[int]) -> set[int]:
    """Nodes of `found` that look at claimed values' shapes and that claimed nodes read: outside they would cut.

    What follows from the shapes of the model's inputs alone is left outside: there it cuts nothing.

    Args:
        graph: The graph.
        able: Nodes that can be run.
        found: From `follow_from_shapes`.
        readers: Those of `able` that look at such a value.
    """
    inner: set[int] = set()
    for index in sorted(found.values()):
        node = graph.nodes[index]
        makers = {graph.producer(value.name) for value in node.inputs if value is not None}
        if node.op_type in _SOURCES:
            if makers & able or makers & inner:
                inner.add(index)
        elif makers & inner and not any(_is_foreign_number(graph, value, found, inner) for value in node.inputs):
            inner.add(index)
    wanted: set[int] = set()
    pending = list(readers)
    while pending:
        for value in graph.nodes[pending.pop()].inputs:
            maker = None if value is None else found.get(value.name)
            if maker is not None and maker in inner and maker not in wanted:
                wanted.add(maker)
                pending.append(maker)
    return wanted


def broken(graph: GraphView, group: Iterable[int], found: dict[str, int]) -> bool:
    """Return whether a shape operator of a group reads a floating number that another group found: it would be data
    here.
    """
    members = set(group)
    made = members & set(found.values())
    return any(
        value is not None and value.data_type is DataType.FLOAT and found.get(value.name, index) not in members
        for index in made
        if graph.nodes[index].op_type not in _SOURCES
        for value in graph.nodes[index].inputs
    )


def _is_foreign_number(graph: GraphView, value: ValueSpec | None, found: dict[str, int], inner: set[int]) -> bool:
    """Return whether a floating value comes from outside the region, where it cannot be distinguished from data."""
    if value is None or value.data_type is not DataType.FLOAT or value.constant:
        return False
    return found.get(value.name) not in inner
