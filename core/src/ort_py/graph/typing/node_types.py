"""Types of one node's outputs from its inputs' types, for any operator that can be typed.

Used by `shapes` for nodes one by one, and by `edit` for new nodes. ONNX's own operators are typed by
`standard_types`, contributed ones through their schema, the few that are left through `inference_gaps`.
"""

from __future__ import annotations

from ort_py.contracts.schema import TypeFunction
from ort_py.dtypes import ValueType
from ort_py.errors import OrtPyError, PluginError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Node
from ort_py.graph.typing.contents import Contents, constant_contents
from ort_py.graph.typing.inference_gaps import gap_types
from ort_py.graph.typing.inference_guard import can_infer
from ort_py.graph.typing.standard_types import standard_types
from ort_py.graph.view import node_spec


def type_function(node: Node, schemas: SchemaRegistry | None) -> TypeFunction | None:
    schema = schemas.lookup(node) if schemas is not None else None
    return schema.infer if schema is not None else None


def contributed_types(node: Node, infer: TypeFunction) -> list[ValueType | None]:
    """Types that a contributed function returns."""
    try:
        return list(infer(node_spec(node)))
    except OrtPyError:
        raise
    except Exception as error:  # a plug-in's code
        raise PluginError(
            f"The type inference of a contributed operator raised {type(error).__name__}: {error}",
            where=node.location,
            fix="Report this to the author of the plug-in that contributes the operator.",
        ) from error


def infer_node(
    node: Node, schemas: SchemaRegistry | None = None, contents: Contents = constant_contents
) -> list[ValueType | None]:
    """Types of one node's outputs from its inputs' types; None for unknown types.

    Args:
        schemas: The registry that contributed operators are looked up in.
        contents: Gives the content of an input that shapes may depend on, where it is known.

    Raises:
        InvalidGraph: Its inputs contradict the operator.
        PluginError: The `infer` of a contributed schema broke.
    """
    if can_infer(node.op_type, node.domain, node.opset_version):
        return standard_types(node, contents)
    infer = type_function(node, schemas)
    return contributed_types(node, infer) if infer is not None else gap_types(node)
