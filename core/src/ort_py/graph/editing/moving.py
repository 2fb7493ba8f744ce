"""Moves of nodes from a nested graph to the graph around it: all of them, or those that do not depend on it.

Used by `edit`, which removes them from the one list and puts them into the other. Value names are unique in a model, so
the readers of these nodes' outputs do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ort_py.errors import InvalidGraph
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.editing.new_nodes import unique_name
from ort_py.graph.ir import Graph, Node, Value


def move_nodes_out(
    nodes: Iterable[Node],
    constants: Iterable[Value],
    outer: Graph,
    values: dict[str, Value],
    node_names: dict[str, Node | None],
    state: EditState,
) -> None:
    """Make nodes and constants of a nested graph those of the graph around it, whose lists the caller changes.

    Args:
        values: Values of the outer graph by name; gets the new ones.
        node_names: Names of the outer graph's nodes; gets the new ones.
    """
    for value in constants:
        value.graph, value.is_graph_output = outer, False
        outer.initializers[value.name] = values[value.name] = value
    for node in nodes:
        node.graph = outer
        node.sources = node.sources or (node.name,)
        node.name = unique_name(node.name, node_names)
        for output in node.outputs:
            if output is not None:
                output.graph, output.is_graph_output = outer, False
                values[output.name] = output
        state.cache.forget_node(node)
        for nested in node.subgraphs:
            state.forget_graph(nested)


def constants_read(nodes: Sequence[Node], graph: Graph) -> dict[Value, None]:
    """Constants of a nested graph that nodes of it need outside of it.

    Raises:
        InvalidGraph: One reads something else of the graph: an input, or what a node writes that stays.
    """
    leaving = set(nodes)
    found: dict[Value, None] = {}
    for node in nodes:
        for value in node.reads():
            if value.graph is not graph or value.producer in leaving:
                continue
            if value.producer is not None or not value.constant:
                raise InvalidGraph(
                    f"A node cannot leave graph '{graph.name}': it reads '{value.name}', which stays there.",
                    where=node.location,
                    fix=(
                        "Also move the node that writes the value. A node that reads an input of its graph cannot "
                        "leave it."
                    ),
                )
            found[value] = None
    return found


def unfit_branch(holder: Node, inner: Graph, attribute: str) -> InvalidGraph:
    """The error for a nested graph whose nodes cannot stand for the node that holds it."""
    return InvalidGraph(
        f"The graph in attribute '{attribute}' cannot replace its node.",
        where=holder.location,
        why=f"it has {len(inner.inputs)} inputs, and {len(inner.outputs)} outputs for {len(holder.outputs)}",
        fix="Only the branches of an If can be put in its place.",
    )


def outermost(graph: Graph) -> InvalidGraph:
    """The error for a graph that nothing is around."""
    return InvalidGraph(
        f"There is no graph around '{graph.name}' that its nodes could move to.",
        fix="Use the editor of a nested graph.",
    )
