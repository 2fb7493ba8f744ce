"""The differentiated graph at other values: Gradient's inputs may be others than the tensors it names.

Used by `lowering` before it differentiates. Copies the nodes that depend on a tensor which gets another value, with the
new value in its place; what does not depend on one is shared with the graph as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ort_py import errors
from ort_py.contracts import NodeTemplate
from ort_py.graph.editing.edit import Editor
from ort_py.graph.ir import Node, Value
from ort_py.graph.view import node_spec
from ort_py.transforms.gradient.allowance import Allowance
from ort_py.transforms.gradient.subgraph import dependent


def feed(
    gradient: Node, nodes: Sequence[Node], given: Mapping[Value, Value], editor: Editor, allowance: Allowance
) -> dict[Value, Value]:
    """Copy what depends on the tensors that get other values.

    Returns:
        What stands for each value that has a copy, tensors with new values included.

    Raises:
        NotImplemented: A node cannot be copied.
    """
    copied, _ = dependent(nodes, given, floats=False)
    allowance.spend(len(given) + len(copied), gradient.location)
    names: dict[Value, str] = {}
    templates: list[NodeTemplate] = []
    for tensor, value in given.items():
        # A value of its own: what is fed may also be read elsewhere in the differentiated graph, and is fixed there.
        names[tensor] = _free(editor, f"{gradient.name}/{tensor.name}")
        templates.append(NodeTemplate("Identity", (value.name,), (names[tensor],)))
    for node in copied:
        _check(node, gradient, names)
        for output in node.outputs:
            if output is not None:
                names[output] = _free(editor, f"{gradient.name}/{output.name}")
        templates.append(
            NodeTemplate(
                node.op_type,
                tuple(["" if value is None else names.get(value, value.name) for value in node.inputs]),
                tuple(["" if value is None else names[value] for value in node.outputs]),
                node_spec(node).attributes,
                node.domain,
                f"{gradient.name}/{node.name}",
            )
        )
    editor.replace_nodes((), templates)
    found = {value: editor.find(name) for value, name in names.items()}
    return {value: copy for value, copy in found.items() if copy is not None}


def _free(editor: Editor, wanted: str) -> str:
    name, number = wanted, 1
    while editor.find(name) is not None:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _check(node: Node, gradient: Node, names: Mapping[Value, str]) -> None:
    """Refuse what a template cannot say."""
    captured = {value for value in node.reads() if value in names} - set(node.inputs)
    if captured:
        why = f"its nested graphs read '{next(iter(captured)).name}', which gets another value"
    elif node.opset and node.opset != gradient.graph.model.opset_imports.get(node.domain):
        why = f"it has opset {node.opset} by the function it comes from, the model imports another"
    else:
        return
    raise errors.NotImplemented(
        f"Node '{node.name}' cannot be evaluated at other values.",
        where=node.location,
        why=(why, f"Gradient '{gradient.name}' is fed with other tensors than those in its xs and zs"),
        fix="Feed Gradient with the tensors it names, or write that part of the model outside control flow.",
    )
