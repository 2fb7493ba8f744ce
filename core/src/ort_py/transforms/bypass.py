"""Taking a node that changes nothing out of a graph: its readers read its input.

Used by the rules that recognise such nodes. A graph output keeps its name and is never made an alias of an input, a
constant or another output: then the node stays.
"""

from __future__ import annotations

from ort_py.contracts import GraphEditor, NodeSpec, ValueSpec
from ort_py.graph.editing.edit import Editor

__all__ = ["bypass", "is_output"]


def is_output(graph: GraphEditor, name: str) -> bool:
    """Whether the graph returns the value."""
    if isinstance(graph, Editor):
        value = graph.find(name)
        return value is not None and value.is_graph_output and value.graph is graph.graph
    return any(value.name == name for value in graph.view.outputs)


def bypass(graph: GraphEditor, node: NodeSpec, source: ValueSpec) -> bool:
    """Let the readers of a node's first output read `source`, and remove the node.

    Args:
        graph: The graph.
        node: The node, of the current view; its other outputs must be unused.
        source: The input whose value the first output has.

    Returns:
        Whether it was done: not where a graph output would become a second name of something else.
    """
    output = node.outputs[0]
    if output is None:
        return False
    if is_output(graph, output.name) and (graph.view.producer(source.name) is None or is_output(graph, source.name)):
        return False
    graph.replace_uses(output.name, source.name)
    graph.replace_nodes([node.index], ())
    return True
