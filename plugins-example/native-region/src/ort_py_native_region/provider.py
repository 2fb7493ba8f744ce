"""The provider of one session: which nodes it takes. What becomes of them is in `program` and `region`."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import CompiledRegion, GraphView, NodeSpec, RegionProvider, RegionView, ValueSpec
from ort_py_native_region.plugin import NAME
from ort_py_native_region.program import OPERATIONS, program_of
from ort_py_native_region.region import NativeRegion

__all__ = ["NativeProvider"]


class NativeProvider(RegionProvider):
    """Takes chains of element-wise operators on float32 arrays of one shape."""

    @property
    def name(self) -> str:
        """The factory's name."""
        return NAME

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """Explain why a node is not taken, or return None."""
        operation = OPERATIONS.get(node.op_type) if node.domain == "" else None
        if operation is None or not operation.since <= node.since_version <= operation.last:
            return f"{node.op_type}({node.since_version}) has no code in C"
        if node.type_bindings.get("T") != "tensor(float)":
            return "it is not float32"
        (result,) = node.outputs
        assert result is not None
        if result.shape is None or None in result.shape:
            return f"the shape of '{result.name}' is not known"
        for value in node.inputs:
            assert value is not None
            if value.shape != result.shape and not is_number(value, graph):
                return f"'{value.name}' has another shape than '{result.name}'"
        if all(value is not None and value.constant for value in node.inputs):
            return "all of its inputs are constants"
        return None

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """Explain why a group is not worth a region, or return None."""
        return None if len(nodes) > 1 else "a single node gains nothing"

    def compile(self, region: RegionView) -> CompiledRegion:
        """A program for `native.c`."""
        return NativeRegion(program_of(region))


def is_number(value: ValueSpec, graph: GraphView) -> bool:
    """Whether a value is a constant that is one number."""
    constant = graph.constant(value.name) if value.constant else None
    return constant is not None and constant.size == 1
