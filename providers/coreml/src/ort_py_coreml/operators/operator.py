"""The record of one operator: which of its nodes Core ML can compute, and how a node is written in MIL.

Both stand side by side in the module of the operator's family, so that they cannot disagree. This module does not know
the families, and does not import coremltools.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = [
    "ALL",
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "Check",
    "Constants",
    "Lower",
    "Operator",
    "Var",
    "attribute",
    "both",
    "constant",
    "has",
    "integers",
    "kind_of",
    "shape_of",
    "sizes",
]

FLOATS = frozenset({DataType.FLOAT})
INTEGERS = frozenset({DataType.INT32, DataType.INT64})
"""Both are int32 in MIL."""

NUMBERS = FLOATS | INTEGERS
ALL = NUMBERS | {DataType.BOOL}

Var: TypeAlias = Any
"""A value of MIL. coremltools has no types."""


class Constants(Protocol):
    """A graph, of which only the constants are read."""

    def constant(self, name: str, /) -> np.ndarray[Any, Any] | None:
        """Return a constant, or None if the value is not constant."""


Check: TypeAlias = "Callable[[NodeSpec, Constants], str | None]"
Lower: TypeAlias = "Callable[[Lowering, NodeSpec], Var | list[Var]]"


def _always(node: NodeSpec, graph: Constants) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        lower: Writes a node in MIL. Returns its output, or a list of its outputs.
        check: Returns the reason why a node cannot be written in MIL, or None.
        constants: Places of the inputs that must be constants.
        dequantized: Those of them that may also be made of constants by a DequantizeLinear of the same region.
        heavy: Whether one such node is enough work for a region.
        since: The first version of the operator whose form is understood.
        kinds: Types of the inputs that need not be constant, and of the outputs.
        later: Returns the reason why a node that can be written needs later systems than the oldest ones that programs
            are written for, or None.
        few_axes: Whether results have no more axes than Core ML supports, also where shape inference does not know any.
    """

    lower: Lower
    check: Check = _always
    constants: frozenset[int] = frozenset()
    dequantized: frozenset[int] = frozenset()
    heavy: bool = False
    since: int = 1
    kinds: frozenset[DataType] = FLOATS
    later: Check = _always
    few_axes: bool = False


def attribute(node: NodeSpec, name: str, default: Any) -> Any:
    """Return an attribute, or its default."""
    return node.attributes.get(name, default)


def shape_of(node: NodeSpec, place: int = 0) -> tuple[Any, ...]:
    """Return the dimensions of an input; an unknown one is not an integer."""
    value = node.inputs[place] if place < len(node.inputs) else None
    return () if value is None or value.shape is None else tuple(value.shape)


def has(node: NodeSpec, place: int) -> bool:
    """Return whether an optional input is there."""
    return place < len(node.inputs) and node.inputs[place] is not None


def kind_of(node: NodeSpec, place: int = 0) -> DataType | None:
    """Return the type of an input."""
    value = node.inputs[place] if place < len(node.inputs) else None
    return None if value is None else value.data_type


def sizes(node: NodeSpec, place: int = 0) -> tuple[int, ...] | None:
    """Return the dimensions of an input, or None if one of them is unknown."""
    shape = shape_of(node, place)
    return shape if all(isinstance(dim, int) for dim in shape) else None


def constant(node: NodeSpec, graph: Constants, place: int) -> np.ndarray[Any, Any] | None:
    """Return an input that is constant; None if it is absent or is not constant."""
    value = node.inputs[place] if place < len(node.inputs) else None
    return None if value is None else graph.constant(value.name)


def integers(node: NodeSpec, graph: Constants, place: int, name: str) -> list[int] | None:
    """Return integers that newer versions take as an input and older ones as an attribute; None if they are absent."""
    found = constant(node, graph, place)
    if found is not None:
        return [int(one) for one in np.asarray(found).reshape(-1)]
    given = node.attributes.get(name)
    return None if given is None else [int(one) for one in given]


def both(name: str) -> Lower:
    """Return the lowering to a function of MIL of two operands, applied from the left to more of them."""

    def lower(lowering: Lowering, node: NodeSpec) -> Var:
        values = [lowering.read(value) for value in node.inputs]
        function = getattr(lowering.mb, name)
        return values[0] if len(values) == 1 else reduce(lambda x, y: function(x=x, y=y), values)

    return lower
