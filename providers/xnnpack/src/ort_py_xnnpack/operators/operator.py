"""The description of one operator: which of its nodes XNNPACK computes as ONNX says, and how a node is described to it.

Both stand side by side for each operator, in the module of its family, so that they cannot disagree. It does not know
the families.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = [
    "FLOATS",
    "HALVES",
    "Check",
    "Constants",
    "Lower",
    "Operator",
    "always",
    "attribute",
    "constant",
    "known_sizes",
    "rank",
    "shape_of",
]


FLOATS = frozenset({DataType.FLOAT})
HALVES = frozenset({DataType.FLOAT16})


class Constants(Protocol):
    """An object that knows the constants of a graph."""

    def constant(self, name: str, /) -> np.ndarray[Any, Any] | None:
        """A constant; None where the value is none."""

    def is_known(self, name: str) -> bool:
        """Return whether a value is a constant."""


Check: TypeAlias = "Callable[[NodeSpec, Constants], str | None]"
Lower: TypeAlias = "Callable[[Builder, NodeSpec], None]"


def always(node: NodeSpec, graph: Constants) -> str | None:
    """The check of an operator whose types say everything."""
    return None


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        lower: Describes a node.
        check: Says why a node cannot be described.
        looked_at: Inputs that must be constants, and are read when the node is described.
        heavy: Whether its work pays for a region by itself.
        since: The first version of the operator whose form is read.
        takes, gives: Element types of its inputs, those aside that are looked at, and of its outputs.
        half: Whether its results of float16 are as exact as the type lets them be. Where they are not, `widening` has
            the operator, or it is not taken.
    """

    lower: Lower
    check: Check = always
    looked_at: frozenset[int] = frozenset()
    heavy: bool = False
    since: int = 1
    takes: frozenset[DataType] = FLOATS
    gives: frozenset[DataType] = FLOATS
    half: bool = False


def attribute(node: NodeSpec, name: str, default: Any) -> Any:
    """An attribute, or its default."""
    return node.attributes.get(name, default)


def shape_of(node: NodeSpec, place: int = 0) -> tuple[Any, ...]:
    """Dimensions of an input; none where it is absent."""
    value = node.inputs[place] if place < len(node.inputs) else None
    return () if value is None or value.shape is None else tuple(value.shape)


def rank(node: NodeSpec, place: int = 0) -> int:
    """Number of dimensions of an input."""
    return len(shape_of(node, place))


def constant(node: NodeSpec, graph: Constants, place: int) -> np.ndarray[Any, Any] | None:
    """An input that is a constant; None where it is absent or is not."""
    value = node.inputs[place] if place < len(node.inputs) else None
    return None if value is None else graph.constant(value.name)


def known_sizes(node: NodeSpec, place: int = 0) -> bool:
    """Return whether all sizes of an input are known."""
    return all(isinstance(dim, int) for dim in shape_of(node, place))
