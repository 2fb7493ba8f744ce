"""A rule that is right, and rules that are wrong in one way each."""

from __future__ import annotations

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext

__all__ = ["DoesNothing", "Forgets", "NegOfRelu", "NeverRests", "Remembers", "TakesToo", "Unnamed"]


class NegOfRelu(RewriteRule):
    """-max(x, 0) is min(-x, 0): Neg behind Relu becomes Neg and Min."""

    made = "Min"

    @property
    def name(self) -> str:
        return f"test.{type(self).__name__}"

    @property
    def op_types(self) -> frozenset[str] | None:
        return frozenset({"Neg"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        relu = graph.producer(node.inputs[0])
        if relu is None or relu.op_type != "Relu" or graph.uses(relu.outputs[0] or "") != 1:
            return False
        self._replace(node, relu, graph)
        return True

    def _replace(self, node: NodeSpec, relu: NodeSpec, graph: GraphEditor) -> None:
        source, result = relu.inputs[0], node.outputs[0]
        assert source is not None
        assert result is not None
        import numpy as np

        turned = graph.free_name(f"{result.name}_turned")
        zero = graph.add_constant("zero", np.zeros((), np.float32))
        graph.replace_nodes(
            [relu, node],
            [
                NodeTemplate("Neg", (source.name,), (turned,)),
                NodeTemplate(self.made, (turned, zero), (result.name,)),
            ],
        )


class Forgets(NegOfRelu):
    """The other bound is taken."""

    made = "Max"


class DoesNothing(NegOfRelu):
    """No node is what it looks for."""

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        return False


class TakesToo(NegOfRelu):
    """Any Neg becomes two."""

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        source, result = node.inputs[0], node.outputs[0]
        assert source is not None
        assert result is not None
        names = [graph.free_name(f"{result.name}_{place}") for place in "ab"]
        if names[0].endswith("_a_a") or "_a" in result.name or "_b" in result.name or "_a" in source.name:
            return False
        chain = [(source.name, names[0]), (names[0], names[1]), (names[1], result.name)]
        if graph.is_output(source) or source.name.endswith(("_a", "_b")):
            return False
        graph.replace_nodes([node], [NodeTemplate("Neg", (before,), (after,)) for before, after in chain])
        return True


class NeverRests(NegOfRelu):
    """A new Identity goes in before the Neg each time."""

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        source, result = node.inputs[0], node.outputs[0]
        assert source is not None
        assert result is not None
        more = graph.free_name(f"{source.name}_more")
        graph.replace_nodes(
            [node], [NodeTemplate("Identity", (source.name,), (more,)), NodeTemplate("Neg", (more,), (result.name,))]
        )
        return True


class Unnamed(NegOfRelu):
    """Its name cannot be written in a list of names."""

    @property
    def name(self) -> str:
        return "my rule, version 2"


class Remembers(NegOfRelu):
    """Works for the first models only."""

    def __init__(self) -> None:
        self._done = 0

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        self._done += 1
        return False if self._done > 2 else super().rewrite(node, graph, context)
