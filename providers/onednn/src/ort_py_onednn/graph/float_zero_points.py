"""MatMulNBits whose zero points are float32: as a product without zero points, and a small one that makes up for them.

A weight is (q - z) · s, which is (q - c) · s + (c - z) · s, where c is the middle that integers have without zero
points. The second summand is the same for all rows of a block, so it multiplies sums of blocks of the input: with
blocks of 32, a thirty-second of the numbers. The first is what there is code for. Files of llama.cpp have such blocks
(Q4_1). Rows are not rounded then, whatever accuracy level is asked for, because onnxruntime does not round them either.
An infinite number of a row gives NaN where the summands are infinities of two signs.

Source: com.microsoft MatMulNBits 1, ``zero_points`` of the input's type.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import Array, GraphEditor, Level, NodeSpec, NodeTemplate, RewriteRule, TransformContext
from ort_py.dtypes import DataType
from ort_py_onednn.binding.library import Library

__all__ = ["SplitFloatZeroPoints"]

_MOST_INPUTS = 6
_ZEROS, _ORDER, _BIAS = 3, 4, 5
"""Places of the zero points, of the order of rows, and of the bias among the inputs."""


class SplitFloatZeroPoints(RewriteRule):
    """MatMulNBits with zero points of float32 becomes MatMulNBits + MatMul of sums of blocks.

    Args:
        library: The library, whose processor decides what there is code for.
    """

    name = "SplitFloatZeroPoints"
    level = Level.EXTENDED
    op_types = frozenset({"MatMulNBits"})

    def __init__(self, library: Library) -> None:
        self._library = library

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        inputs = [*node.inputs, *(None,) * (_MOST_INPUTS - len(node.inputs))]
        source, _, scales, zeros = inputs[:4]
        if zeros is None or zeros.data_type is not DataType.FLOAT or node.domain != "com.microsoft":
            return False
        found, factors = graph.constant(zeros), graph.constant(scales)
        if found is None or factors is None or inputs[_ORDER] is not None or node.attributes.get("weight_prepacked", 0):
            return "its zero points or scales are not constants, or its weights are in another order"
        if source is None or source.shape is None or source.data_type is not DataType.FLOAT or not source.shape:
            return "the rank of its input is not known, or it is not float32"
        from ort_py_onednn.binding.few_bits import has_few_bits  # few models have such products

        depth, columns, size, bits = (int(node.attributes.get(name, 4)) for name in ("K", "N", "block_size", "bits"))
        if depth % size or not has_few_bits(self._library, bits, size):
            return "there is no code for its blocks"
        result = node.outputs[0]
        assert result is not None, "a product that nobody reads is gone"
        count, ahead = depth // size, [0] * (len(source.shape) - 1)
        middle = float(1 << (bits - 1))
        # Each may be a vector, or have a row for each column.
        less = (middle - found.reshape(-1).astype(np.float64)) * factors.reshape(-1).astype(np.float64)
        table = np.ascontiguousarray(less.reshape(columns, count).T.astype(np.float32))

        def constant(what: str, array: Array) -> str:
            return graph.add_constant(graph.free_name(f"{result.name}/{what}"), array)

        blocks, sums, rows, rest, main = (
            graph.free_name(f"{result.name}/{what}") for what in ("blocks", "sums", "rows", "rest", "main")
        )
        names = ["" if value is None else value.name for value in inputs]
        names[_ZEROS] = ""
        while not names[-1]:
            names.pop()
        attributes = {**node.attributes, "accuracy_level": 0}
        graph.replace_nodes(
            [node],
            [
                NodeTemplate("Reshape", (source.name, constant("cut", np.array([*ahead, count, size]))), (blocks,)),
                NodeTemplate("MatMul", (blocks, constant("ones", np.ones((size, 1), np.float32))), (sums,)),
                NodeTemplate("Reshape", (sums, constant("joined", np.array([*ahead, count]))), (rows,)),
                NodeTemplate("MatMul", (rows, constant("less", table)), (rest,)),
                NodeTemplate("MatMulNBits", tuple(names), (main,), attributes, domain="com.microsoft"),
                NodeTemplate("Add", (main, rest), (result.name,)),
            ],
        )
        return True
