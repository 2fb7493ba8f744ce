"""Transpose in front of a matrix product of two dimensions: Gemm reads its operands transposed by itself."""

from __future__ import annotations

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.dtypes import DataType
from ort_py.transforms.movement.transposes import permutation_of

_FLAGS = ("transA", "transB")
_TYPES = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16)


class FoldTransposedOperands(RewriteRule):
    """A Gemm, or a MatMul of two matrices, that is the only reader of a Transpose."""

    name = "GemmTransposeFusion"
    op_types = frozenset({"Gemm", "MatMul"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        result = node.outputs[0]
        if node.domain or node.body is not None or result is None or len(node.inputs) < 2:
            return False
        sources = [_turned(value, graph) for value in node.inputs[:2]]
        if not any(sources):
            return False
        if any(value is None or value.shape is None or len(value.shape) != 2 for value in node.inputs[:2]):
            return False
        reason = self._unfit(node, graph, sources)
        if reason:
            return reason
        attributes = dict(node.attributes)
        names = ["" if value is None else value.name for value in node.inputs]
        removed = [node]
        for position, transpose in enumerate(sources):
            if transpose is not None and transpose.inputs[0] is not None:
                attributes[_FLAGS[position]] = int(not attributes.get(_FLAGS[position], 0))
                names[position] = transpose.inputs[0].name
                removed.append(transpose)
        graph.replace_nodes(removed, [NodeTemplate("Gemm", tuple(names), (result.name,), attributes)])
        return True

    @staticmethod
    def _unfit(node: NodeSpec, graph: GraphEditor, sources: list[NodeSpec | None]) -> str:
        if node.op_type == "MatMul" and node.opset_version < 11:
            return "Gemm of this opset needs something to add"
        if any(value is not None and value.data_type not in _TYPES for value in node.inputs[:2]):
            return "Gemm has no kernel for the type everywhere"
        for value, transpose in zip(node.inputs, sources, strict=False):
            if transpose is not None and value is not None and graph.uses(value) != node.inputs[:2].count(value):
                return "the transposed matrix is read elsewhere too"
        return ""


def _turned(value: ValueSpec | None, graph: GraphEditor) -> NodeSpec | None:
    """The Transpose of a matrix that writes a value."""
    producer = graph.producer(value)
    if producer is None or producer.op_type != "Transpose" or producer.domain or producer.inputs[0] is None:
        return None
    return producer if permutation_of(producer) == (1, 0) else None
