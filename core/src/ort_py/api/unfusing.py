"""Fused nodes written out again, where that lets a provider on a device of its own keep them.

Comes after the transforms, before partitioning. A fusion is good for whoever has the operator; where that is only a
provider asked later, on another device, the nodes it was made of would leave the device of one that runs them all. On
one device the fused operator is left to whoever has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ort_py.api.runners import claimants
from ort_py.contracts import IExecutionProvider, NodeTemplate
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.ir import Graph, Model, Node, walk
from ort_py.graph.view import ModelGraphView
from ort_py.kernels.registry import KernelRegistry

__all__ = ["write_out_for_devices"]


def write_out_for_devices(
    model: Model, providers: Sequence[IExecutionProvider], kernels: KernelRegistry, schemas: SchemaRegistry
) -> list[str]:
    """Put the functions of fused nodes in their place where providers asked earlier, on other devices, run them whole.

    Returns:
        A line about what was done; nothing where nothing was.
    """
    if len({provider.device for provider in providers}) < 2:
        return []
    state = EditState(model, schemas)
    written: dict[str, int] = {}
    for graph in list(walk(model.graph)):
        if any(node.body is not None for node in graph.nodes):
            for name in _write_out(graph, providers, kernels, state):
                written[name] = written.get(name, 0) + 1
    if not written:
        return []
    Editor(model.graph, state).remove_unused()
    shown = ", ".join(f"{count} of {name}" for name, count in written.items())
    return [f"fused nodes written out again, since a provider on another device runs all of their parts: {shown}"]


@dataclass(frozen=True, slots=True)
class _Tried:
    """A fused node whose function was put in its place.

    Attributes:
        template: Makes the node again.
        made: What stands for it.
        taker: Place of the provider that would have run it.
    """

    template: NodeTemplate
    made: Sequence[Node]
    taker: int


def _write_out(
    graph: Graph, providers: Sequence[IExecutionProvider], kernels: KernelRegistry, state: EditState
) -> list[str]:
    """Try all candidates of a graph at once; returns the operators of those that stay written out."""
    place = {provider.name: index for index, provider in enumerate(providers)}
    claims = claimants(ModelGraphView(graph), providers, kernels)
    editor = state.editors.get(graph) or Editor(graph, state)
    tried: list[_Tried] = []
    for node in [one for one in graph.nodes if one.body is not None]:
        taker = claims.get(node.name)
        if taker is None or not any(one.device != taker.device for one in providers[: place[taker.name]]):
            continue  # nobody runs it, so partitioning writes it out; or there is nobody to keep it for
        template = _template(node)
        tried.append(_Tried(template, editor.expand(node), place[taker.name]))
    if not tried:
        return []
    claims = claimants(ModelGraphView(graph), providers, kernels)
    kept: list[str] = []
    for one in tried:
        if all(_kept(node, claims, providers[: one.taker], providers[one.taker]) for node in one.made):
            kept.append(one.template.op_type)
        else:
            editor.replace_nodes([node.name for node in one.made], [one.template])
    return kept


def _kept(
    node: Node,
    claims: Mapping[str, IExecutionProvider],
    before: Sequence[IExecutionProvider],
    taker: IExecutionProvider,
) -> bool:
    found = claims.get(node.name)
    return found in before and found is not None and found.device != taker.device


def _template(node: Node) -> NodeTemplate:
    return NodeTemplate(
        node.op_type,
        tuple(["" if value is None else value.name for value in node.inputs]),
        tuple(["" if value is None else value.name for value in node.outputs]),
        dict(node.attributes),
        node.domain,
        body=node.body,
    )
