"""Walking a region through its constraints: once over symbolic sizes, or over the numbers of one run.

Comes between `table` and `gate`. It does not depend on providers; of the graph it sees the records that providers see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ort_py.constraints.scope import MALFORMED, Dims, NodeScope, Tensor, Unchecked, Violation
from ort_py.constraints.sizes import UNKNOWN, Amount, Condition, Unknown, is_known, product
from ort_py.constraints.table import constraint_of
from ort_py.contracts.graph_view import NodeSpec, ValueSpec
from ort_py.dtypes import DataType, TensorType
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ConstraintFinding:
    """A node that breaks a constraint, or cannot be checked.

    Attributes:
        node: Its number among the region's nodes.
    """

    node: int
    text: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition that each run has to meet.

    Attributes:
        text: Message for a run where it does not hold: a format string.
        numbers: Arguments of the format string.
    """

    node: int
    condition: Condition
    text: str
    numbers: tuple[Amount, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Numbers between which all elements of one of the region's inputs must lie in each run."""

    node: int
    border: int
    low: Amount
    high: Amount
    text: str


@dataclass(slots=True)
class Trace:
    """The result of a walk.

    Attributes:
        unchecked: Nodes that cannot be checked before they run.
        unsized: Nodes that make a value whose size depends on the data of a run.
        late: As `NodeScope.note_late`: number of the node, and condition.
        values: Elements and type of what the nodes make, for limits of memory.
        work: Multiplications of a run; `UNKNOWN` if they cannot be computed.
    """

    violations: list[ConstraintFinding] = field(default_factory=list)
    unchecked: list[ConstraintFinding] = field(default_factory=list)
    unsized: list[ConstraintFinding] = field(default_factory=list)
    late: list[tuple[int, Condition]] = field(default_factory=list)
    requirements: list[Requirement] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)
    outputs: list[Dims | None] = field(default_factory=list)
    values: list[tuple[Amount, DataType, str]] = field(default_factory=list)
    work: Amount = 0


class _Ledger:
    """Notes what the constraint of one node leaves to the run."""

    def __init__(self, into: Trace, node: int) -> None:
        self._into = into
        self._node = node

    def require(self, condition: Condition, text: str, numbers: Sequence[Amount]) -> None:
        if isinstance(condition, Unknown):
            self._into.unchecked.append(
                ConstraintFinding(self._node, "it depends on sizes that are known only while it runs")
            )
        else:
            self._into.requirements.append(Requirement(self._node, condition, text, tuple(numbers)))

    def require_elements(self, border: int, low: Amount, high: Amount, text: str) -> None:
        if is_known(low) and is_known(high):
            self._into.bounds.append(Bound(self._node, border, low, high, text))
        else:
            self._into.unchecked.append(
                ConstraintFinding(self._node, "its indices point into an axis of unknown length")
            )

    def note_late(self, condition: Condition) -> None:
        self._into.late.append((self._node, condition))

    def spend(self, work: Amount) -> None:
        self._into.work = work + self._into.work


def trace(
    nodes: Sequence[NodeSpec],
    inputs: Sequence[Tensor],
    names: Sequence[str],
    outputs: Sequence[ValueSpec],
    constant: Callable[[str], np.ndarray[Any, Any] | None],
    unknown: Callable[[], Amount] | None = None,
) -> Trace:
    """Walk the nodes of a region in order.

    Args:
        constant: The array of a constant, None for other values.
        unknown: Makes what stands for a size that depends on the data of a run, so that `Trace.unsized` has the nodes
            that make such a size, without those behind them. Such sizes remain `UNKNOWN` where it is None.
    """
    found = Trace()
    tensors: dict[str, Tensor] = dict(zip(names, inputs, strict=True))

    def tensor(value: ValueSpec | None) -> Tensor | None:
        if value is None:
            return None
        known = tensors.get(value.name)
        if known is None:
            known = tensors[value.name] = _constant(value, constant)
        return known

    for number, node in enumerate(nodes):
        made = constrained(node, number, [tensor(value) for value in node.inputs], found)
        for place, value in enumerate(node.outputs):
            if value is None:
                continue
            one = made[place] if place < len(made) else None
            result = result_of(one, value)
            if not _is_sized(result):
                found.unsized.append(
                    ConstraintFinding(number, f"the size of '{value.name}' depends on the data of a run")
                )
                if unknown is not None:
                    result = _sized(result, unknown)
            tensors[value.name] = result
            if result.shape is not None and value.data_type is not None:
                found.values.append((product(result.shape), value.data_type, value.name))
    found.outputs = [tensors[value.name].shape if value.name in tensors else None for value in outputs]
    return found


def examine(
    node: NodeSpec, constant: Callable[[str], np.ndarray[Any, Any] | None], unknown: Callable[[], Amount] | None = None
) -> Trace:
    """Walk one node alone: what contradicts its operator, and what its inputs leave open; see `trace`."""
    found = Trace()
    inputs = [None if value is None else _constant(value, constant) for value in node.inputs]
    if unknown is not None:
        inputs = [one if one is None or _is_sized(one) else _sized(one, unknown) for one in inputs]
    constrained(node, 0, inputs, found)
    return found


def constrained(
    node: NodeSpec, number: int, inputs: list[Tensor | None], found: Trace
) -> Sequence[Tensor | Dims | None]:
    """Walk one node of several: add to a trace what it demands, and return what is known of its outputs."""
    constraint = constraint_of(node.domain, node.op_type)
    if constraint is None:
        found.unchecked.append(ConstraintFinding(number, "the table of constraints lacks its operator"))
        return ()
    scope = NodeScope(
        node.op_type, node.since_version, node.attributes, inputs, len(node.outputs), _Ledger(found, number)
    )
    try:
        return constraint(scope)
    except Violation as violation:
        found.violations.append(ConstraintFinding(number, str(violation)))
    except Unchecked as reason:
        found.unchecked.append(ConstraintFinding(number, str(reason)))
    except MALFORMED as error:
        found.violations.append(ConstraintFinding(number, f"its attributes do not match the operator: {error!r}"))
    return ()


def result_of(made: Tensor | Dims | None, value: ValueSpec) -> Tensor:
    """A tensor of the declared type with what a constraint knows of it."""
    if made is None:
        kind = value.type
        rank = len(kind.shape) if isinstance(kind, TensorType) and kind.shape is not None else None
        return Tensor(None if rank is None else (UNKNOWN,) * rank, value.data_type)
    if isinstance(made, Tensor):
        return Tensor(made.shape, value.data_type, made.content, made.constant, made.border, made.elements, made.bounds)
    return Tensor(tuple(made), value.data_type)


def _is_sized(tensor: Tensor) -> bool:
    return tensor.shape is not None and all(is_known(dim) for dim in tensor.shape)


def _sized(tensor: Tensor, unknown: Callable[[], Amount]) -> Tensor:
    if tensor.shape is None:
        return tensor
    return Tensor(tuple(dim if is_known(dim) else unknown() for dim in tensor.shape), tensor.data_type)


def _constant(value: ValueSpec, constant: Callable[[str], np.ndarray[Any, Any] | None]) -> Tensor:
    """A constant; its array is only read where a constraint asks for its elements."""
    kind = value.type
    if not isinstance(kind, TensorType) or kind.shape is None:
        return Tensor(None, value.data_type)
    shape = tuple(dim if isinstance(dim, int) else UNKNOWN for dim in kind.shape)
    return Tensor(shape, kind.data_type, constant=lambda: constant(value.name))
