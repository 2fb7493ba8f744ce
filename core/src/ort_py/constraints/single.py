"""The constraints of one node over the arrays of a run: the shapes that its kernel must return, and the reasons for a
failure.

Kernels check their inputs in their own words. This module uses the table that regions are checked with. From it come
the required shapes of the results of a plug-in's kernel, and the violated constraint after a kernel failed. Does not
depend on kernels or steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_py.constraints.scope import MALFORMED, Ledger, NodeScope, Outputs, Tensor, Unchecked, Violation
from ort_py.constraints.sizes import Amount, Condition, ProgramRecorder, Size
from ort_py.constraints.table import constraint_of
from ort_py.contracts.graph_view import NodeSpec
from ort_py.dtypes import Dim, Shape, TensorType


class _NoLedger:
    """Takes what a walk over numbers leaves open: it depends on what the node computes."""

    def require(self, condition: Condition, text: str, numbers: Sequence[Amount]) -> None:
        """Ignore the requirement: it is already decided."""

    def require_elements(self, border: int, low: Amount, high: Amount, text: str) -> None:
        """Ignore the requirement: it is already decided."""

    def note_late(self, condition: Condition) -> None:
        """Ignore the condition: kernels compute with the sizes of a run."""

    def spend(self, work: Amount) -> None:
        """Ignore the work."""


class _Spending(_NoLedger):
    """Adds up the multiplications."""

    def __init__(self) -> None:
        self.work = 0.0

    def spend(self, work: Amount) -> None:
        if isinstance(work, int):
            self.work += work


def violated(node: NodeSpec, inputs: Sequence[Any]) -> str:
    """The constraint that a node's inputs or attributes break, in words; ``""`` where the table knows of none."""
    try:
        _evaluated(node, inputs)
    except Violation as violation:
        return str(violation)
    except (Unchecked, *MALFORMED):
        return ""
    return ""


def work_of(node: NodeSpec, inputs: Sequence[Any]) -> float:
    """Multiplications of a node in a run; 0 where the table does not tell, or a constraint is broken."""
    ledger = _Spending()
    try:
        _evaluated(node, inputs, ledger)
    except (Violation, Unchecked, *MALFORMED):
        return 0.0
    return ledger.work


def output_shapes(node: NodeSpec, inputs: Sequence[Any]) -> list[tuple[int | None, ...] | None] | None:
    """The shape of each output of a node, None for sizes and ranks that the table cannot tell.

    Returns:
        One shape an output; None where the table lacks the operator, or the inputs break a constraint.
    """
    try:
        made = _evaluated(node, inputs)
    except (Violation, Unchecked, *MALFORMED):
        return None
    if made is None:
        return None
    shapes = [one.shape if isinstance(one, Tensor) else one for one in made]
    shapes += [None] * (len(node.outputs) - len(shapes))
    return [
        None if shape is None else tuple(size if isinstance(size, int) else None for size in shape) for shape in shapes
    ]


def symbolic_shape(node: Any) -> Shape | None:
    """The shape of a node's first output, with the names of sizes that are those of its inputs.

    Args:
        node: The node or its record.

    Returns:
        The shape; None where the table cannot tell, or a constraint is broken.
    """
    recorder, names = ProgramRecorder(), dict[int, Dim]()

    def tensor(value: Any) -> Tensor | None:
        kind = None if value is None else value.type
        if not isinstance(kind, TensorType) or kind.shape is None:
            return None if value is None else Tensor()
        sizes = [dim if isinstance(dim, int) else recorder.input(natural=True) for dim in kind.shape]
        names.update(
            {size.register: dim for size, dim in zip(sizes, kind.shape, strict=True) if isinstance(size, Size)}
        )
        return Tensor(tuple(sizes), kind.data_type)

    inputs = [tensor(value) for value in node.inputs]
    scope = NodeScope(node.op_type, node.since_version, node.attributes, inputs, len(node.outputs), _NoLedger())
    constraint = constraint_of(node.domain, node.op_type)
    if constraint is None:
        return None
    try:
        made = constraint(scope)[0]
    except (Violation, Unchecked, *MALFORMED):
        return None
    shape = made.shape if isinstance(made, Tensor) else made
    sizes = [names.get(one.register) if isinstance(one, Size) else one for one in shape or ()]
    return None if shape is None else tuple([one if isinstance(one, int | str) else None for one in sizes])


def _evaluated(node: NodeSpec, inputs: Sequence[Any], ledger: Ledger | None = None) -> Outputs | None:
    constraint = constraint_of(node.domain, node.op_type)
    if constraint is None or any(value is not None and not hasattr(value, "shape") for value in inputs):
        return None
    tensors = [None if value is None else _tensor(node, place, value) for place, value in enumerate(inputs)]
    return constraint(
        NodeScope(node.op_type, node.since_version, node.attributes, tensors, len(node.outputs), ledger or _NoLedger())
    )


def _tensor(node: NodeSpec, place: int, value: Any) -> Tensor:
    spec = node.inputs[place] if place < len(node.inputs) else None
    kind = None if spec is None else spec.type
    data_type = kind.data_type if isinstance(kind, TensorType) else None
    on_host = isinstance(value, np.ndarray | np.generic)
    constant = partial(np.asarray, value) if on_host else None  # of other devices nothing is read
    return Tensor(tuple(int(size) for size in value.shape), data_type, constant=constant)
