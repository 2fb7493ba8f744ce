"""One operator version, in one form whether ONNX defines it or a plug-in does.

`schema` finds these records, `validate` checks nodes against them, planners read the counts and defaults. Only this
module knows how onnx spells its types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args

import numpy as np

from ort_py.contracts.graph_view import GraphView
from ort_py.contracts.schema import OperatorSchema, TypeFunction
from ort_py.dtypes import DataType, MapType, OptionalType, SequenceType, SparseTensorType, TensorType, ValueType
from ort_py.graph.ir import Graph, Node, Value
from ort_py.lazy_dataclass import dataclass
from ort_py.onnx_operators import Parameter, find
from ort_py.onnx_parts import onnx

_TYPES = (TensorType, SparseTensorType, SequenceType, OptionalType, MapType)


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal input or output.

    Attributes:
        optional: May be absent.
        variadic: Stands for any number of values, being the last.
        homogeneous: All values it stands for have one type; otherwise each may have its own.
        min_count: Values a variadic one stands for at least.
    """

    name: str
    type: str
    optional: bool = False
    variadic: bool = False
    homogeneous: bool = True
    min_count: int = 1


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """A formal attribute.

    Attributes:
        kind: ``INT``, ``FLOATS``, ``GRAPH``, … as onnx calls them; ``LIST`` for a list of anything, ``ANY``.
        required: A node must set it.
        default: Value for nodes that do not set it, as in `ort_py.contracts.NodeSpec`; None if it has no default.
    """

    kind: str
    required: bool = False
    default: Any = None

    def accepts(self, kind: str) -> bool:
        """Return whether the attribute accepts a value of this kind. Sparse tensors arrive dense, empty lists without a
        type.
        """
        if self.kind in ("ANY", kind):
            return True
        if kind == "LIST" or self.kind == "LIST":
            return self.kind.endswith("S") if kind == "LIST" and self.kind != "LIST" else kind.endswith("S")
        return self.kind.removeprefix("SPARSE_") == kind


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """The schema in force for an operator at an opset.

    Attributes:
        max_inputs, max_outputs: Counts; None is unbounded.
        attributes: Formal attributes by name.
        types: Allowed type strings of each type variable.
        has_function: ONNX defines it by other operators, perhaps depending on its types.
        deterministic: Equal inputs give equal outputs; False for random operators.
        deprecated: Not to be used at this opset.
    """

    op_type: str
    domain: str
    since_version: int
    inputs: tuple[Formal, ...] = ()
    outputs: tuple[Formal, ...] = ()
    max_inputs: int | None = 0
    max_outputs: int | None = 0
    attributes: Mapping[str, AttributeSpec] = field(default_factory=dict)
    types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    has_function: bool = False
    deterministic: bool = True
    deprecated: bool = False
    infer: TypeFunction | None = None

    def bind_types(self, node: Node) -> dict[str, str]:
        """Type of each type variable, from the first value that has one; unknown values and ``Any`` lists bind none.

        Args:
            node: A node of this operator, its values typed.

        Returns:
            For example ``{"T": "tensor(float)"}``.
        """
        bound: dict[str, str] = {}
        for actual, formals in ((node.inputs, self.inputs), (node.outputs, self.outputs)):
            for formal, value in pairs(actual, formals):
                if value.type is not None and formal.type in self.types:
                    bound.setdefault(formal.type, type_text(value.type))
        return bound


def formal_at(formals: tuple[Formal, ...], position: int) -> Formal | None:
    """The formal parameter of an actual value, or None past the last."""
    if position < len(formals):
        return formals[position]
    return formals[-1] if formals and formals[-1].variadic else None


_TENSOR_TEXTS = {data_type: str(TensorType(data_type)) for data_type in DataType}


def type_text(value_type: ValueType) -> str:
    """The type string of a type; quick for tensors, which are asked for once a value of each model."""
    return _TENSOR_TEXTS[value_type.data_type] if isinstance(value_type, TensorType) else str(value_type)


def pairs(values: list[Value | None], formals: tuple[Formal, ...]) -> list[tuple[Formal, Value]]:
    """Present values with their formal parameters; surplus values are left out."""
    found = []
    for position, value in enumerate(values):
        formal = formal_at(formals, position)
        if value is not None and formal is not None:
            found.append((formal, value))
    return found


@cache
def from_onnx(op_type: str, domain: str, opset: int) -> ResolvedSchema | None:
    operator = find(op_type, domain, opset)
    return None if operator is None else _converted(op_type, domain, operator.since_version)


@cache
def _converted(op_type: str, domain: str, since_version: int) -> ResolvedSchema:
    """One record for all opsets with the same schema."""
    operator = find(op_type, domain, since_version)
    assert operator is not None  # `from_onnx` found it
    attributes: dict[str, AttributeSpec] = {}
    for name, kind, _, required, default in operator.attributes:
        attributes[name] = AttributeSpec(kind, required, _tensor(default) if isinstance(default, bytes) else default)
    return ResolvedSchema(
        op_type,
        domain,
        since_version,
        inputs=tuple(map(_from_onnx_formal, operator.inputs)),
        outputs=tuple(map(_from_onnx_formal, operator.outputs)),
        max_inputs=operator.max_inputs,
        max_outputs=operator.max_outputs,
        attributes=attributes,
        types={variable: frozenset(map(canonical_type, allowed)) for variable, allowed in operator.types},
        has_function=operator.has_body,
        deterministic=operator.deterministic,
        # What ONNX withdrew from its first version on was valid when models were written, and onnxruntime runs it.
        deprecated=operator.deprecated and find(op_type, domain, since_version - 1) is not None,
    )


def _from_onnx_formal(formal: Parameter) -> Formal:
    return Formal(
        formal.name,
        canonical_type(formal.type) if "(" in formal.type else formal.type,
        optional=formal.optional,
        variadic=formal.variadic,
        homogeneous=formal.homogeneous,
        min_count=formal.min_count,
    )


def canonical_type(text: str) -> str:
    """A type string as `ort_py.dtypes` spells it: onnx leaves out that the values of maps are tensors."""
    text = text.replace(" ", "")
    start, comma, value = text.partition("map(")
    if not comma:
        return text
    key, _, rest = value.partition(",")
    element = rest.rstrip(")")
    if "(" in element:
        return text
    return f"{start}map({key},tensor({element}){rest[len(element) :]}"


def _tensor(attribute: bytes) -> Any:
    """The array in an ``AttributeProto``."""
    return onnx.numpy_helper.to_array(onnx.AttributeProto.FromString(attribute).t)


def from_contributed(schema: OperatorSchema) -> ResolvedSchema:
    """A plug-in's schema in the common form."""
    inputs, outputs = (
        tuple(Formal(f.name, f.type, f.optional, f.variadic, f.homogeneous, min_count=0) for f in formals)
        for formals in (schema.inputs, schema.outputs)
    )
    return ResolvedSchema(
        schema.op_type,
        "" if schema.domain == "ai.onnx" else schema.domain,
        schema.since_version,
        inputs=inputs,
        outputs=outputs,
        max_inputs=None if inputs and inputs[-1].variadic else len(inputs),
        max_outputs=None if outputs and outputs[-1].variadic else len(outputs),
        attributes={name: _contributed_attribute(value) for name, value in schema.attributes.items()},
        types={name: frozenset(map(canonical_type, allowed)) for name, allowed in schema.types.items()},
        infer=schema.infer,
    )


def _contributed_attribute(value: Any) -> AttributeSpec:
    if isinstance(value, UnionType):
        (kind,) = (one for one in get_args(value) if one is not NoneType)
        return replace(_contributed_attribute(kind), required=False)
    if not isinstance(value, type):
        return AttributeSpec("ANY" if value is None else attribute_kind_name(value), default=value)
    kinds = {int: "INT", float: "FLOAT", str: "STRING", bytes: "STRING", tuple: "LIST", np.ndarray: "TENSOR"}
    if issubclass(value, GraphView):
        return AttributeSpec("GRAPH", required=True)
    return AttributeSpec("TYPE_PROTO" if value in _TYPES else kinds.get(value, "ANY"), required=True)


def attribute_kind_name(value: Any) -> str:
    """The kind of an attribute's value in the words of `AttributeSpec.kind`; ``LIST`` for an empty tuple."""
    if isinstance(value, tuple):
        return attribute_kind_name(value[0]) + "S" if value else "LIST"
    if isinstance(value, int):
        return "INT"
    if isinstance(value, float):
        return "FLOAT"
    if isinstance(value, str | bytes):
        return "STRING"
    if isinstance(value, np.ndarray):
        return "TENSOR"
    if isinstance(value, Graph):
        return "GRAPH"
    return "TYPE_PROTO" if isinstance(value, _TYPES) else "ANY"
