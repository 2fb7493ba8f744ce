"""Patterns that describe the nodes a rule looks for. They are matched from the last node upwards, and a near miss gives
a reason.

    x, bias = Var("x"), Const("bias")
    pattern = Op("Add", Op("MatMul", x, Const("weight")), bias)

An `Op` is a node, its inputs are patterns of the values it reads: another `Op`, `Var` (any value), `Const` (a constant
that satisfies a condition), a number (a constant of that one value), `OneOf` (alternatives), `Maybe` (a node that may
be missing), or None (no input there). The same `Op` object, or two of one name, stand for the same node; two `Var` of
one name for the same value. Operators that do not care about the order of their inputs match in both.

All nodes but the last, the *anchor*, must be read inside the pattern only, since they go; `exposed=True` lifts that.

Comes before `pattern_match`, which finds patterns, and `pattern_rule`, which makes rules of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array, NodeSpec, ValueSpec

_COMMUTATIVE = frozenset({"Add", "And", "BitwiseAnd", "BitwiseOr", "Equal", "Max", "Min", "Mul", "Or", "Sum", "Xor"})


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """Any value.

    Attributes:
        name: Name under which the match stores the value; ``""`` if it is not needed.
        optional: Also matches an input that is absent.
        where: Predicate on the value: True if it fits, else False or a reason.
    """

    name: str = ""
    optional: bool = False
    where: Callable[[ValueSpec], bool | str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A constant.

    Attributes:
        name: Name under which the match stores the constant; ``""`` if it is not needed.
        value: Value of its single element, within exporters' rounding; None matches any constant.
        where: Predicate on its content: True if it fits, else False or a reason.
        optional: Also matches an input that is absent.
    """

    name: str = ""
    value: float | None = None
    where: Callable[[Array], bool | str] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OneOf:
    """The first alternative that fits, with the rest of the pattern."""

    alternatives: tuple[Pattern, ...]

    def __init__(self, *alternatives: Pattern) -> None:
        object.__setattr__(self, "alternatives", alternatives)


@dataclass(frozen=True, slots=True, eq=False)
class Maybe:
    """A node that may be missing; its input is then in its place.

    Attributes:
        op: The node.
    """

    op: Op


@dataclass(frozen=True, slots=True, eq=False, init=False)
class Op:
    """A node.

    Attributes:
        op_types: Operator types that match.
        inputs: Patterns of its inputs. Further inputs match only if `rest` is set.
        name: Name under which the match stores the node.
        domain: Domain of the operator.
        attributes: Attributes it must have set to these values.
        where: Predicate on the node: True if it fits, else False or a reason.
        output: Index of the output that is read here.
        commutative: Whether its two inputs may be swapped; None follows the ONNX operator.
        exposed: Its outputs may be read outside the pattern too: the new node writes them, or it is kept.
        rest: More inputs than `inputs` may follow.
        producers: For each input, type and domain of the operators that may compute it; None where that is open.
    """

    op_types: tuple[str, ...]
    inputs: tuple[Pattern, ...]
    name: str = ""
    domain: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    where: Callable[[NodeSpec], bool | str] | None = None
    output: int = 0
    commutative: bool = False
    exposed: bool = False
    rest: bool = False
    producers: tuple[frozenset[tuple[str, str]] | None, ...] = ()
    _size: int = 0

    def __init__(
        self,
        op_type: str | Sequence[str],
        *inputs: Pattern | str,
        name: str = "",
        domain: str = "",
        attributes: Mapping[str, Any] | None = None,
        where: Callable[[NodeSpec], bool | str] | None = None,
        output: int = 0,
        commutative: bool | None = None,
        exposed: bool = False,
        rest: bool = False,
    ) -> None:
        types = (op_type,) if isinstance(op_type, str) else tuple(op_type)
        if commutative is None:
            commutative = len(inputs) == 2 and not domain and _COMMUTATIVE.issuperset(types)
        settings: dict[str, Any] = {
            "op_types": types,
            "inputs": tuple([Var(one) if isinstance(one, str) else one for one in inputs]),
            "producers": tuple(map(_producers, inputs)),
            "name": name,
            "domain": domain,
            "attributes": attributes or {},
            "where": where,
            "output": output,
            "commutative": commutative,
            "exposed": exposed,
            "rest": rest,
            "_size": 0,
        }
        for key, value in settings.items():
            object.__setattr__(self, key, value)

    @property
    def title(self) -> str:
        """Describe the pattern in words."""
        return " or ".join(f"{self.domain}.{one}" if self.domain else one for one in self.op_types)

    def size(self) -> int:
        """Number of nodes in the pattern, without those that may be missing."""
        if self._size:  # counted before
            return self._size
        seen: dict[object, None] = {}
        pending: list[Pattern] = [self]
        while pending:
            one = pending.pop()
            if isinstance(one, Op):
                if one.key not in seen:
                    seen[one.key] = None
                    pending.extend(one.inputs)
            elif isinstance(one, OneOf):
                pending.extend(one.alternatives[:1])
            elif isinstance(one, Maybe):
                pending.extend(one.op.inputs[:1])
        object.__setattr__(self, "_size", len(seen))
        return len(seen)

    def possible(self, present: Collection[str]) -> bool:
        """Return whether a model that has only the operators `present`, of any domain, can contain the pattern."""
        pending: list[Pattern] = [self]
        while pending:
            one = pending.pop()
            if isinstance(one, Op):
                if not any(op_type in present for op_type in one.op_types):
                    return False
                pending.extend(one.inputs)
            elif isinstance(one, OneOf):
                if not any(not isinstance(other, Op) or other.possible(present) for other in one.alternatives):
                    return False
            elif isinstance(one, Maybe):
                pending.extend(one.op.inputs[:1])
        return True

    @property
    def key(self) -> object:
        """Equal for patterns of one node."""
        return self.name or id(self)


def _producers(pattern: Pattern | str) -> frozenset[tuple[str, str]] | None:
    if isinstance(pattern, Op):
        return frozenset((op_type, pattern.domain) for op_type in pattern.op_types)
    if not isinstance(pattern, OneOf):
        return None
    found = [_producers(one) for one in pattern.alternatives]
    return None if None in found else frozenset().union(*filter(None, found))


Pattern: TypeAlias = Op | Var | Const | OneOf | Maybe | float | None
