"""The facts that a family of operators declares about each member, and the helpers by which a check reads a node.

A `Rule` holds everything that claiming has to know of one operator; families are modules with a table of rules, which
`table` joins. It does not depend on operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType, Shape
from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.graph.integers import BYTES

__all__ = [
    "FLOATING",
    "Check",
    "Rule",
    "Rules",
    "always",
    "only_float",
    "only_moved",
    "shape_of",
    "used_outputs",
    "value_name",
]

Check: TypeAlias = Callable[[NodeSpec, GraphView], str | None]
"""Why a node cannot be run, None where it can. Attributes and shapes are looked at; types were before."""

TypeRule: TypeAlias = Callable[[ValueSpec, int, bool], str | None]
"""``f(value, place, is input)``: why a value's type cannot be taken there, None where it can."""


FLOATING = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16})


def only_float(value: ValueSpec, place: int, is_input: bool) -> str | None:
    """float32, and the types of half its bits that a model may be stored in."""
    if value.data_type in FLOATING:
        return None
    kind = "unknown" if value.data_type is None else value.data_type.onnx_name
    return f"'{value.name}' is {kind}; only float32, float16 and bfloat16 are computed"


def only_moved(value: ValueSpec, place: int, is_input: bool) -> str | None:
    """Check types of operators that only move elements: floating types, and integers of 8 bits."""
    if value.data_type in FLOATING or value.data_type in BYTES:
        return None
    kind = "unknown" if value.data_type is None else value.data_type.onnx_name
    return f"'{value.name}' is {kind}; floating types and integers of 8 bits are moved"


def always(node: NodeSpec, graph: GraphView) -> str | None:
    """The check of an operator whose types say everything."""
    return None


@dataclass(frozen=True, slots=True)
class Rule:
    """One operator.

    Attributes:
        check: What its attributes and shapes must be like.
        looked_at: Inputs that must be known while planning: shapes, axes, bounds.
        shaped: Those of them that may follow from shapes; the others must be constants.
        ranked: Inputs of one rank whatever the model is like: inference need not know it.
        types: Of which type its other inputs and its outputs may be.
        heavy: Whether its work pays for a region by itself.
        since: The first version of the operator whose form is read: inputs that were attributes before, and so on.
    """

    check: Check = always
    looked_at: frozenset[int] = frozenset()
    shaped: frozenset[int] = frozenset()
    ranked: frozenset[int] = frozenset()
    types: TypeRule = only_float
    heavy: bool = False
    since: int = 1


Rules: TypeAlias = Mapping[tuple[str, str], Rule]
"""By domain, ``""`` for ai.onnx, and operator."""


def shape_of(node: NodeSpec, place: int) -> Shape:
    """Dimensions of an input; none where it is absent or its rank unknown."""
    value = node.inputs[place] if place < len(node.inputs) else None
    return () if value is None or value.shape is None else value.shape


def value_name(node: NodeSpec, place: int) -> str:
    """Name of an input, ``""`` where it is absent."""
    value = node.inputs[place] if place < len(node.inputs) else None
    return "" if value is None else value.name


def used_outputs(node: NodeSpec, first: int = 0) -> int:
    """Number of outputs that are used, from a place on."""
    return sum(value is not None for value in node.outputs[first:])
