"""Types of the outputs of a node of ONNX's own operators: by the rules where these cover it, else as ONNX infers them.

Used by `node_types`, which also asks plug-ins, and by `function_views`, which does not.
"""

from __future__ import annotations

from contextlib import suppress

from ort_py.dtypes import ValueType
from ort_py.graph.ir import Node
from ort_py.graph.typing.contents import Contents, constant_contents
from ort_py.graph.typing.inference_guard import is_hidden, node_fault
from ort_py.graph.typing.misread import is_misread
from ort_py.graph.typing.rules.graphs import branches_of, joined_types
from ort_py.graph.typing.rules.question import Uncovered
from ort_py.graph.typing.rules.table import ruled_types, type_of


def standard_types(node: Node, contents: Contents = constant_contents) -> list[ValueType | None]:
    """Types of the outputs of a node that `can_infer` accepts, as ONNX infers them; None for unknown types.

    Args:
        contents: Gives the content of an input that shapes may depend on, where it is known.

    Raises:
        InvalidGraph: Its inputs contradict the operator.
    """
    found = None
    if node.op_type == "If" and not node.domain:
        with suppress(Uncovered):
            found = joined_types(branches_of(node), type_of)
    elif not (is_misread(node) or (node.attributes and (is_hidden(node) or node_fault(node)))):
        found = ruled_types(node, type_of, contents)
    if found is not None:
        return found
    from ort_py.graph.typing.onnx_types import infer_onnx_node  # it needs onnx's native library

    return infer_onnx_node(node, contents)
