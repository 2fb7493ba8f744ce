"""Convolutions, poolings and their like with the channels last, where the provider that runs them prefers that.

Each such node gets Transposes in front and behind; those between two of them meet, and `movement` merges them and moves
them through what lies between, so that a run of such nodes keeps those at its ends. A node carries its standard form:
a provider that does not take it after all computes that.
"""

from __future__ import annotations

from ort_py.contracts import (
    CHANNELS_LAST,
    GraphEditor,
    GraphTransform,
    Level,
    NodeSpec,
    NodeTemplate,
    TransformContext,
    TransformResult,
)
from ort_py.transforms.claims import FirstClaims
from ort_py.transforms.layout.operators import Sensitive, channels_last_body, sensitive, to_first, to_last

__all__ = ["ChannelsLast"]


class ChannelsLast(GraphTransform):
    """The session's layout transform; does nothing where no provider prefers another layout.

    Args:
        first_claims: Says who would run each node; None where no provider prefers another layout.
    """

    name = "NhwcTransformer"

    def __init__(self, first_claims: FirstClaims | None) -> None:
        self._first_claims = first_claims

    @property
    def level(self) -> Level:
        return Level.LAYOUT

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        changes, notes = 0, dict[str, None]()
        pending = [graph]
        while pending and self._first_claims is not None:
            editor = pending.pop()
            for node, form in _wanted(editor, self._first_claims):
                if isinstance(form, str):
                    notes[f"{node.op_type} '{node.name}' keeps its layout: {form}"] = None
                else:
                    _rewrite(node, form, editor)
                    changes += 1
            pending += editor.subgraphs()
        return TransformResult(changes, tuple(notes))


def _wanted(graph: GraphEditor, first_claims: FirstClaims) -> list[tuple[NodeSpec, Sensitive | str]]:
    """Nodes to be turned, or the reason why one cannot be."""
    candidates = [(node, form) for node in graph.nodes if (form := sensitive(node)) is not None]
    claims = first_claims(graph.view) if candidates else {}
    return [
        (node, form)
        for node, form in candidates
        if (provider := claims.get(node.name)) is not None and provider.prefers_channels_last(node)
    ]


def _rewrite(node: NodeSpec, form: Sensitive, graph: GraphEditor) -> None:
    result = node.outputs[0]
    assert result is not None
    read = ["" if value is None else value.name for value in node.inputs]
    templates: list[NodeTemplate] = []
    for place in form.inputs:
        turned = graph.free_name(f"{read[place]}/channels_last_{len(templates)}")
        templates.append(NodeTemplate("Transpose", (read[place],), (turned,), {"perm": to_last(form.rank)}))
        read[place] = turned
    computed = graph.free_name(f"{result.name}/channels_last")
    body = channels_last_body(node, form)
    templates += [
        NodeTemplate(node.op_type, tuple(read), (computed,), dict(node.attributes), CHANNELS_LAST, body=body),
        NodeTemplate("Transpose", (computed,), (result.name,), {"perm": to_first(form.rank)}),
    ]
    graph.replace_nodes([node], templates)
