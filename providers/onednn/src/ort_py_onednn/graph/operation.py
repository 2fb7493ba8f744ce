"""Fused operations: an ONNX operator and what is done with its result while that is still in registers.

Made by `fusion`, read by `lowering`. Nothing here knows a shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeAlias

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import Element
from ort_py_onednn.binding.primitive import Function

__all__ = ["Chain", "Combine", "Operation", "Post", "Result"]


@dataclass(frozen=True, slots=True)
class Combine:
    """A function of the result and another value.

    Attributes:
        algorithm: One of `Binary`.
        value: The other value.
    """

    algorithm: int
    value: str


@dataclass(frozen=True, slots=True)
class Result:
    """The treatment of the final number: it is rounded to an integer, half to even, and saturated.

    Attributes:
        element: Type of the integer.
        zero: Added after rounding.
    """

    element: Element
    zero: int = 0


Post: TypeAlias = Function | Combine
Chain: TypeAlias = list[Post]


@dataclass(slots=True, eq=False)
class Operation:
    """One operation of a region, which equals no other: a list of them is searched for this one.

    Attributes:
        kind: The ONNX operator, or ``"eltwise"`` (no work of its own, `posts` say what) or ``"binary"``.
        name: Node's name, for errors.
        inputs: Values read, None where absent. What `posts` read is not among them.
        outputs: Values made.
        attributes: As in the model.
        since: Schema version.
        posts: Applied to the first output, in order.
        result: The integer that the outcome of `posts` becomes; None for a floating number, and for an operation that
            moves its input.
    """

    kind: str
    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    since: int = 1
    posts: Chain = field(default_factory=list)
    result: Result | None = None

    def reads(self) -> list[str]:
        """Every value it reads, as often as it does."""
        found = [name for name in self.inputs if name is not None]
        found += [post.value for post in self.posts if isinstance(post, Combine)]
        return found

    def posts_read(self) -> bool:
        """Return whether what follows reads other values."""
        return any(isinstance(post, Combine) for post in self.posts)
