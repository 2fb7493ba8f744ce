"""Operator schemas that plug-ins contribute, for domains that ONNX does not define."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import UnionType
from typing import TypeAlias

from ort_py.contracts.graph_view import AttributeValue, NodeSpec
from ort_py.dtypes import ValueType
from ort_py.lazy_dataclass import dataclass

TypeFunction: TypeAlias = Callable[[NodeSpec], Sequence[ValueType | None]]
"""Types and shapes of the outputs from a node whose inputs are known; None where it cannot tell."""


@dataclass(frozen=True, slots=True)
class FormalParameter:
    """A formal input or output.

    Attributes:
        name: Name in the operator's documentation.
        type: A type string such as ``tensor(float)``, or the name of a type variable such as ``T``.
        optional: May be absent.
        variadic: The last one only: stands for any number of values.
        homogeneous: All values of a variadic one have one type; otherwise each may have its own.
    """

    name: str
    type: str
    optional: bool = False
    variadic: bool = False
    homogeneous: bool = True


@dataclass(frozen=True, slots=True)
class OperatorSchema:
    """Schema of one operator version.

    Attributes:
        op_type: Operator.
        domain: Domain. In ONNX's own domains, ``""`` for instance, only operators that ONNX does not define.
        since_version: Opset of the domain that introduces this version.
        inputs: Formal inputs.
        outputs: Formal outputs.
        attributes: Default of each optional attribute; ``int | None`` if it has no default. A required attribute's
            value is the type itself, e.g. ``int``; ``tuple`` stands for lists.
        types: Allowed type strings for each type variable.
        infer: Types and shapes of the outputs; without it they are unknown until the node runs.
    """

    op_type: str
    domain: str
    since_version: int = 1
    inputs: tuple[FormalParameter, ...] = ()
    outputs: tuple[FormalParameter, ...] = ()
    attributes: Mapping[str, AttributeValue | type | UnionType] = field(default_factory=dict)
    types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    infer: TypeFunction | None = None
