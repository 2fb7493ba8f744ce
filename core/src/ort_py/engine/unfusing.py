"""Fused nodes written out again, where that lets a provider keep what it was asked to run.

Comes after the transforms, before partitioning. A fusion helps a provider that has the operator, and takes the nodes it
was made of from a provider that has only those. Two rules decide which of them a node stays:

* A user who names providers wants them to run what they can. A fused node is kept if the first named provider that runs
  its parts also runs it whole, and written out otherwise. The role of the CPU provider does not count as named.
* The parts would leave the device of a provider that runs them all, for the host or another device.

Where neither applies, the fused operator is left to the provider that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ort_py.contracts import IExecutionProvider, NodeTemplate
from ort_py.engine.provider_wishes import claims_of
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.graph.ir import Graph, Model, Node, walk
from ort_py.graph.view import ModelGraphView
from ort_py.kernels.registry import KernelRegistry
from ort_py.lazy_dataclass import dataclass


def write_out(
    model: Model,
    providers: Sequence[IExecutionProvider],
    named: Collection[str],
    kernels: KernelRegistry,
    schemas: SchemaRegistry,
) -> list[str]:
    """Put the functions of fused nodes in their place where providers asked earlier should run the parts.

    Args:
        model: The model, after its transforms.
        providers: Those of the session, in rank order.
        named: Names of the providers that the user asked for, without the CPU provider's role.

    Returns:
        A line about what was done; nothing where nothing was.
    """
    if not named and len({provider.device for provider in providers}) < 2:
        return []
    state = EditState(model, schemas)
    written: dict[str, int] = {}
    for graph in list(walk(model.graph)):
        if any(node.body is not None for node in graph.nodes):
            for name in _write_out(graph, providers, named, kernels, state):
                written[name] = written.get(name, 0) + 1
    if not written:
        return []
    Editor(model.graph, state).remove_unused()
    shown = ", ".join(f"{count} of {name}" for name, count in written.items())
    return [
        "fused nodes were replaced by their original nodes, because a provider with a higher rank runs all of "
        f"these: {shown}"
    ]


class _Claims:
    """The claims of each provider for the present graph. Each provider is asked at the first request."""

    def __init__(self, graph: Graph, kernels: KernelRegistry) -> None:
        self._view = ModelGraphView(graph)
        self._kernels = kernels
        self._found: dict[str, frozenset[str]] = {}

    def of(self, provider: IExecutionProvider) -> frozenset[str]:
        found = self._found.get(provider.name)
        if found is None:
            found = self._found[provider.name] = claims_of(self._view, provider, self._kernels)
        return found


@dataclass(slots=True)
class _Tried:
    """A fused node whose function was put in its place.

    Attributes:
        named: The named providers that come before the one that runs it whole.
        elsewhere: The providers before that one on other devices.
    """

    template: NodeTemplate
    made: list[Node]
    named: Sequence[IExecutionProvider]
    elsewhere: Sequence[IExecutionProvider]

    def stays(self, claims: _Claims) -> bool:
        """Return whether one of those that were asked earlier runs all parts: one named, or those of other devices."""
        names = {node.name for node in self.made}
        if any(names <= claims.of(provider) for provider in self.named):
            return True
        return bool(self.elsewhere) and names <= frozenset().union(*[claims.of(one) for one in self.elsewhere])


def _write_out(
    graph: Graph,
    providers: Sequence[IExecutionProvider],
    named: Collection[str],
    kernels: KernelRegistry,
    state: EditState,
) -> list[str]:
    """Try all candidates of a graph at once; returns the operators of those that stay written out."""
    claims = _Claims(graph, kernels)
    editor = state.editors.get(graph) or Editor(graph, state)
    pending: list[_Tried] = []
    for node in [one for one in graph.nodes if one.body is not None]:
        place = next((place for place, one in enumerate(providers) if node.name in claims.of(one)), None)
        if place is None:
            continue  # no provider runs it, so partitioning replaces it by its function body
        before = providers[:place]
        asked = [one for one in before if one.name in named]
        elsewhere = [one for one in before if one.device != providers[place].device]
        if asked or elsewhere:
            template = _template(node)
            pending.append(_Tried(template, editor.expand(node), asked, elsewhere))
    kept: list[str] = []
    while pending:
        claims = _Claims(graph, kernels)
        tried, pending = pending, []
        for one in tried:
            if one.stays(claims):
                kept.append(one.template.op_type)
            elif any(part.body is not None for part in one.made):  # a part is a fused node itself
                one.made = [made for part in one.made for made in (editor.expand(part) or [part])]
                pending.append(one)
            else:
                editor.replace_nodes([part.name for part in one.made], [one.template])
    return kept


def _template(node: Node) -> NodeTemplate:
    inputs, outputs = (tuple(["" if one is None else one.name for one in some]) for some in (node.inputs, node.outputs))
    attributes = dict(node.attributes)
    return NodeTemplate(node.op_type, inputs, outputs, attributes, node.domain, body=node.body, opset=node.opset)
