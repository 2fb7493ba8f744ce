"""A line for each operator: schemas written as ``operator("Gelu", "X: T", "Y: T", T="float16 float")``.

Parameters are ``name: type``, separated by commas; ``?`` behind the type says that it may be absent, ``*`` that it
stands for any number of values, ``**`` that each of these may have a type of its own. A type is a variable of the
operator or a type string. Element types of outputs follow from their variables, so an operator's author only says what
is known of shapes. It does not depend on operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import UnionType
from typing import TypeAlias

from ort_py.contracts import FormalParameter, NodeSpec, OperatorSchema
from ort_py.contracts.graph_view import AttributeValue
from ort_py.dtypes import DataType, Dim, Shape, TensorType, ValueType, parse_value_type

__all__ = ["DOMAIN", "ShapesFunction", "broadcast", "dims", "operator", "same_shape", "spread"]

DOMAIN = "com.microsoft"

ShapesFunction: TypeAlias = Callable[[NodeSpec], Sequence[Shape | None]]
"""Shapes of a node's outputs, in their order; None (or nothing, at the end) where it cannot tell."""

_KNOWN = frozenset(data_type.onnx_name for data_type in DataType if data_type is not DataType.UNDEFINED)


def operator(
    op_type: str,
    inputs: str,
    outputs: str,
    *,
    domain: str = DOMAIN,
    since: int = 1,
    attributes: Mapping[str, AttributeValue | type | UnionType] | None = None,
    shapes: ShapesFunction | None = None,
    **types: str,
) -> OperatorSchema:
    """A schema from one line a part.

    Args:
        op_type: Operator.
        inputs: Formal inputs, e.g. ``"X: T, bias: T?, rest: T*"``.
        outputs: Formal outputs.
        domain: Operator domain.
        since: Schema version.
        attributes: As in `OperatorSchema`: a default, ``float`` where one must be given, ``float | None`` without.
        shapes: Shapes of the outputs from the node's inputs and attributes.
        **types: Element types that each variable allows, separated by blanks.

    Raises:
        ValueError: An element type or a type variable does not exist.
    """
    for variable, names in types.items():
        unknown = set(names.split()) - _KNOWN
        if unknown:
            raise ValueError(f"{op_type}: {variable} names the element types {sorted(unknown)}, which do not exist")
    formal_inputs, formal_outputs = (_formals(op_type, text, types) for text in (inputs, outputs))
    allowed = {name: frozenset(f"tensor({element})" for element in names.split()) for name, names in types.items()}
    return OperatorSchema(
        op_type=op_type,
        domain=domain,
        since_version=since,
        inputs=formal_inputs,
        outputs=formal_outputs,
        attributes=dict(attributes or {}),
        types=allowed,
        infer=partial(_infer, formal_inputs, formal_outputs, allowed, shapes),
    )


def dims(node: NodeSpec, index: int) -> Shape | None:
    """Shape of an input; None where it is absent, no tensor, or of unknown rank."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return value.type.shape if value is not None and isinstance(value.type, TensorType) else None


def same_shape(*inputs: int) -> ShapesFunction:
    """Output i has the shape of input ``inputs[i]``."""

    def shapes(node: NodeSpec) -> Sequence[Shape | None]:
        return [dims(node, index) for index in inputs]

    return shapes


def broadcast(*inputs: int) -> ShapesFunction:
    """The one output has the shape that these inputs broadcast to (ONNX multidirectional broadcasting)."""

    def shapes(node: NodeSpec) -> Sequence[Shape | None]:
        given = [dims(node, index) for index in inputs]
        known = [shape for shape in given if shape is not None]
        return [None] if len(known) < len(given) else [spread(*known)]

    return shapes


def spread(*given: Shape) -> Shape:
    """Return the shape that shapes broadcast to."""
    rank = max(map(len, given))
    padded = [(1,) * (rank - len(shape)) + shape for shape in given]
    return tuple(_common(sizes) for sizes in zip(*padded, strict=True))


def _common(sizes: Sequence[Dim]) -> Dim:
    """The size that sizes of one axis broadcast to. None if a symbolic size could be 1 or not."""
    large = {size for size in sizes if size != 1}
    if len(large) <= 1:
        return next(iter(large), 1)
    return next((size for size in large if isinstance(size, int)), None)


def _formals(op_type: str, text: str, types: Mapping[str, str]) -> tuple[FormalParameter, ...]:
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, type_text = (piece.strip() for piece in part.partition(":"))
        kind = type_text.rstrip("?*")
        if "(" not in kind and kind not in types:
            raise ValueError(f"{op_type}: '{name}' has the type variable '{kind}', which allows nothing")
        found.append(
            FormalParameter(
                name,
                kind,
                optional=type_text.endswith("?"),
                variadic=type_text.endswith("*"),
                homogeneous=not type_text.endswith("**"),
            )
        )
    return tuple(found)


def _infer(
    inputs: Sequence[FormalParameter],
    outputs: Sequence[FormalParameter],
    types: Mapping[str, frozenset[str]],
    shapes: ShapesFunction | None,
    node: NodeSpec,
) -> Sequence[ValueType | None]:
    bound: dict[str, ValueType] = {}
    for index, value in enumerate(node.inputs):
        formal = inputs[min(index, len(inputs) - 1)]
        if value is not None and value.type is not None:
            bound.setdefault(formal.type, value.type)
    known = list(shapes(node)) if shapes is not None else []
    found: list[ValueType | None] = []
    for index, output in enumerate(node.outputs):
        formal = outputs[min(index, len(outputs) - 1)]
        shape = known[index] if index < len(known) else None
        found.append(None if output is None else _typed(formal.type, bound, types, shape))
    return found


def _typed(
    variable: str, bound: Mapping[str, ValueType], types: Mapping[str, frozenset[str]], shape: Shape | None
) -> ValueType | None:
    choices = types.get(variable, frozenset({variable}))
    found = bound.get(variable)
    if found is None and len(choices) == 1:
        found = parse_value_type(next(iter(choices)))
    return TensorType(found.data_type, shape) if isinstance(found, TensorType) else found
