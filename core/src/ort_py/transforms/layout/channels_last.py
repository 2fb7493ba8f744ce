"""Convolutions, poolings and their like with the channels last, where the provider that runs them prefers that.

Data of such an operator has axes (batch, channels, space…); in its other form (batch, space…, channels). Everything
else, attributes included, is the same in both forms. Each such node gets Transposes in front and behind; those between
two of them meet, and `movement` merges them and moves them through what lies between, so that a run of such nodes keeps
those at its ends. A node carries its standard form: a provider that does not take it after all computes that.
"""

from __future__ import annotations

from ort_py.contracts import (
    CHANNELS_LAST,
    FunctionBody,
    GraphEditor,
    GraphTransform,
    Level,
    NodeSpec,
    NodeTemplate,
    TransformContext,
    TransformResult,
)
from ort_py.lazy_dataclass import dataclass
from ort_py.transforms.claims import FirstClaims


@dataclass(frozen=True, slots=True)
class Sensitive:
    """A node of such an operator."""

    rank: int
    inputs: tuple[int, ...]


_FIRST = (0,)

_PICTURES = """
    AveragePool BatchNormalization Conv ConvInteger ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool
    GlobalMaxPool GridSample GroupNormalization InstanceNormalization LRN LpPool MaxPool QLinearConv Resize
    SpaceToDepth
"""
"""Operators whose first input and first output are pictures."""

_DATA: dict[tuple[str, str], tuple[int, ...]] = {
    **{("", op_type): _FIRST for op_type in _PICTURES.split()},
    ("com.microsoft", "FusedConv"): (0, 3),
    ("com.microsoft", "QLinearAveragePool"): _FIRST,
    ("com.microsoft", "QLinearGlobalAveragePool"): _FIRST,
}
"""Positions of data among the inputs; the first output is data too."""


def sensitive(node: NodeSpec) -> Sensitive | str | None:
    """The data among a node's inputs. None if the operator has no other form; a reason if this node has none."""
    positions = _DATA.get((node.domain, node.op_type))
    if positions is None:
        return None
    given = tuple([place for place in positions if place < len(node.inputs) and node.inputs[place] is not None])
    ranks = {value.shape and len(value.shape) for place in given if (value := node.inputs[place]) is not None}
    if len(ranks) != 1 or None in ranks:
        return "the rank of its data is not known"
    (rank,) = ranks
    if not rank or rank < 3:
        return "its data has no axes besides batch and channels"
    if any(value is not None for value in node.outputs[1:]):
        return "it has a second output, which depends on the layout"
    if node.op_type == "QLinearAveragePool" and node.attributes.get("channels_last"):
        return "its channels are the last axis already"
    return Sensitive(rank, given)


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation that takes channels from the second axis to the last."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> tuple[int, ...]:
    """The permutation that takes channels from the last axis to the second."""
    return (0, rank - 1, *range(1, rank - 1))


def channels_last_body(node: NodeSpec, form: Sensitive) -> FunctionBody:
    """The function of the node's other form: the node itself between Transposes."""
    inputs = tuple(["" if value is None else f"i{place}" for place, value in enumerate(node.inputs)])
    nodes = [
        NodeTemplate("Transpose", (inputs[place],), (f"first{place}",), {"perm": to_first(form.rank)})
        for place in form.inputs
    ]
    read = tuple([f"first{place}" if place in form.inputs else name for place, name in enumerate(inputs)])
    nodes += [
        NodeTemplate(node.op_type, read, ("result",), dict(node.attributes), node.domain, body=node.body),
        NodeTemplate("Transpose", ("result",), ("o0",), {"perm": to_last(form.rank)}),
    ]
    return FunctionBody(inputs, ("o0",), tuple(nodes), opset_imports={node.domain: node.opset_version})


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
    claims = first_claims(graph.view, {node.name for node, _ in candidates}) if candidates else {}
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
