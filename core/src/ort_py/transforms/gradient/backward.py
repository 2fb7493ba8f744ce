"""Through the differentiated graph in reverse: each node's rule turns gradients of outputs into gradients of inputs.

Used by `lowering`, which has made sure that there is a rule for each node. The gradient of a value with several readers
is the sum over them. Writes nodes through the builder only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from ort_py.contracts import ValueSpec
from ort_py.dtypes import DataType, TensorType
from ort_py.graph.ir import Node, Value, Weight
from ort_py.graph.view import node_spec
from ort_py.transforms.gradient.builder import GradientBuilder
from ort_py.transforms.gradient.registry import Call, find_rule


def backward(
    builder: GradientBuilder, nodes: Sequence[Node], active: Collection[Value], y: Value, xs: Sequence[Value]
) -> list[str]:
    """Write the gradient of the sum of `y` with respect to each of `xs`.

    Args:
        nodes: Nodes that matter, in order; there is a rule for each.

    Returns:
        Names of the gradients, zeros where `y` does not depend on a value.
    """
    terms: dict[Value, list[str]] = {}
    if y in active:
        terms[y] = [builder.ones_like(_spec(y))]
    for node in reversed(nodes):
        grads = [None if value is None else _total(builder, terms.pop(value, None)) for value in node.outputs]
        if all(grad is None for grad in grads):
            continue
        found = find_rule(node.op_type, node.domain, node.since_version)
        assert found is not None  # `lowering` has refused the others
        call = _call(node, grads, active)
        builder.data_type = _type_of(node, active)
        for value, grad in zip(node.inputs, found(builder, call), strict=False):
            if value is not None and grad is not None and value in active:
                terms.setdefault(value, []).append(grad)
                if value.type is not None:
                    builder.types[grad] = value.type
    return [_total(builder, terms.get(value)) or builder.zeros_like(_spec(value)) for value in xs]


def _total(builder: GradientBuilder, terms: list[str] | None) -> str | None:
    return builder.add_up(terms) if terms else None


def _call(node: Node, grads: Sequence[str | None], active: Collection[Value]) -> Call:
    return Call(
        node_spec(node),
        tuple(grads),
        tuple([value is not None and value in active for value in node.inputs]),
        tuple([_reader(value) for value in node.inputs]),
    )


def _reader(value: Value | None) -> Callable[[], Any] | None:
    if value is None or not value.constant or value.weight is None:
        return None
    return partial(_content, value.weight)


def _content(weight: Weight) -> Any:
    return weight.array()


def _spec(value: Value) -> ValueSpec:
    return ValueSpec(value.name, value.type, value.constant)


def _type_of(node: Node, active: Collection[Value]) -> DataType:
    """Element type of the first output that matters; there is one, and it is a tensor of floats."""
    types = [value.type for value in node.outputs if value is not None and value in active]
    return next(known.data_type for known in types if isinstance(known, TensorType))
