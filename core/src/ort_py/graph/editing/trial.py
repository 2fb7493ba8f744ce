"""New nodes typed before they are put into a graph, so that a rule can leave alone what would become a contradiction.

Used by `edit`. Nodes made here are connected to nothing and are forgotten. Types are found as for real nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ort_py.contracts.function_body import NodeTemplate
from ort_py.contracts.graph_view import Array
from ort_py.dtypes import TensorType, ValueType, data_type_of
from ort_py.errors import InvalidGraph
from ort_py.graph.checking.domains import newest_opset
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.editing.fusing import types_of
from ort_py.graph.editing.new_nodes import plain_attribute
from ort_py.graph.ir import Graph, Node, Value
from ort_py.graph.typing.contents import constant_contents
from ort_py.graph.typing.node_types import infer_node
from ort_py.graph.typing.type_merge import element_conflict, shape_conflict
from ort_py.graph.writing.serialize import SMALL

__all__ = ["contradiction"]


def contradiction(
    templates: Sequence[NodeTemplate],
    constants: Mapping[str, Array],
    graph: Graph,
    state: EditState,
    find: Callable[[str], Value | None],
) -> str:
    """Explain why new nodes could not be typed; empty if they can.

    Args:
        templates: The nodes, which hold no graphs.
        constants: What the nodes read and the graph does not have yet.
        find: Looks a value up in the graph and in those around it.
    """
    made: dict[str, Value] = {}
    arrays: dict[Value, Array] = {}
    for name, array in constants.items():
        made[name] = value = Value(name, graph, TensorType(data_type_of(array.dtype), array.shape))
        arrays[value] = array

    def contents(value: Value) -> Array | None:
        array = arrays.get(value)
        if array is None:
            return constant_contents(value)
        return array if array.dtype.kind in "biuf" and array.nbytes <= SMALL else None

    for template in templates:
        node = Node(template.op_type, (), graph, name=template.name, domain=template.domain)
        node.inputs = [(made.get(name) or find(name)) if name else None for name in template.inputs]
        node.attributes = {name: plain_attribute(value) for name, value in (template.attributes or {}).items()}
        node.outputs = [Value(name, graph, producer=node) if name else None for name in template.outputs]
        node.body = template.body
        node.opset = template.opset or state.schemas.opset(node) or newest_opset(node.domain) or 0
        try:
            types = _types(node, state, contents)
        except InvalidGraph as error:
            return f"'{node.name or node.op_type}' cannot be typed: {'; '.join(error.why) or error.what}"
        for output, found in zip(node.outputs, [*types, *[None] * len(node.outputs)], strict=False):
            if output is None:
                continue
            before = find(output.name)
            known = None if before is None else before.type
            if found is not None and known is not None and before is not None:
                wrong = shape_conflict(found, known) and before not in graph.model.trusted
                if wrong or element_conflict(found, known):
                    return f"'{output.name}' is {known!r} and would become {found!r}"
            output.type = found or known
            made[output.name] = output
    return ""


def _types(node: Node, state: EditState, contents: Callable[[Value], np.ndarray | None]) -> Sequence[ValueType | None]:
    schemas = state.schemas
    if node.body is not None and schemas.lookup(node) is None:
        return types_of(node, node.body, state)
    node.since_version = schemas.resolve(node).since_version
    return infer_node(node, schemas, contents)
