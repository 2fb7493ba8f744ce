"""Operators that compute on channels, and their form with the channels last.

Data of such an operator has axes (batch, channels, space…); in its other form (batch, space…, channels). Which inputs
and outputs are data stands here; everything else, attributes included, is the same in both forms. It is independent of
providers.
"""

from __future__ import annotations

from ort_py.contracts import FunctionBody, NodeSpec, NodeTemplate
from ort_py.lazy_dataclass import dataclass

__all__ = ["Sensitive", "channels_last_body", "sensitive", "to_first", "to_last"]


@dataclass(frozen=True, slots=True)
class Sensitive:
    """A node of such an operator."""

    rank: int
    inputs: tuple[int, ...]


_FIRST = (0,)

_DATA: dict[tuple[str, str], tuple[int, ...]] = {
    **{
        ("", op_type): _FIRST
        for op_type in (
            "AveragePool",
            "BatchNormalization",
            "Conv",
            "ConvInteger",
            "ConvTranspose",
            "DepthToSpace",
            "GlobalAveragePool",
            "GlobalLpPool",
            "GlobalMaxPool",
            "GridSample",
            "GroupNormalization",
            "InstanceNormalization",
            "LRN",
            "LpPool",
            "MaxPool",
            "QLinearConv",
            "Resize",
            "SpaceToDepth",
        )
    },
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
