"""Loops that carry what never changes: their bodies read it where it lies.

Exporters hand weights from iteration to iteration, because their own loops have no values from outside. Read from
outside they are constants again, so that a provider packs them once and rules see what they are; and their types are
known, where those of carried values may change with each iteration.

The loop still carries them, which takes no step: only the nodes that read them inside, and the result outside, are
changed.
"""

from __future__ import annotations

from ort_py.contracts import GraphEditor, GraphView, NodeSpec, RewriteRule, TransformContext, ValueSpec

_AHEAD = 2
"""Inputs of a Loop, and of its body, before those it carries; a body returns one more besides: the condition."""


class ReadLoopConstants(RewriteRule):
    """A value that a Loop's body returns as it came in, once more nodes than the return read it."""

    name = "LoopConstants"
    op_types = frozenset({"Loop"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        body = node.attributes.get("body")
        if node.domain or not isinstance(body, GraphView):
            return False
        inside: GraphEditor | None = None
        changed = False
        for place, (given, carried) in enumerate(zip(node.inputs[_AHEAD:], body.inputs[_AHEAD:], strict=True)):
            if given is None or _copied(body.outputs[1 + place].name, body) != carried.name:
                continue
            inside = inside or _editor(graph, body)
            if inside is None:
                return False
            if inside.uses(carried) > 1:
                inside.replace_uses(carried, given, returned=False)
                changed = True
            changed = _read_before(node.outputs[place], given, graph) or changed
        return changed


def _editor(graph: GraphEditor, body: GraphView) -> GraphEditor | None:
    """The editor of a nested graph: names are unique in a model, and a Loop's body has inputs."""
    first = body.inputs[0].name
    return next((one for one in graph.subgraphs() if first in [value.name for value in one.view.inputs]), None)


def _copied(name: str, body: GraphView) -> str:
    """The value that a value is a copy of; itself where it is none. A copy may give it the name that is returned."""
    index = body.producer(name)
    while index is not None:
        copy = body.nodes[index]
        if copy.op_type != "Identity" or copy.domain or copy.inputs[0] is None:
            break
        name = copy.inputs[0].name
        index = body.producer(name)
    return name


def _read_before(result: ValueSpec | None, given: ValueSpec, graph: GraphEditor) -> bool:
    """Let readers of a loop's result read what went into it; a result of the graph stays the loop's."""
    if result is None or graph.is_output(result) or not graph.uses(result):
        return False
    graph.replace_uses(result, given)
    return True
