"""Dequantisation of constant weights at load time, for providers that compute with floating-point numbers.

`ConstantFolding` leaves DequantizeLinear alone: providers draw it into the products behind it and compute in integers.
Without that, each run would dequantise the same weights again. A provider declares this
(`IExecutionProvider.dequantizes_constants`); it is queried for the unchanged graph, as for layout and precision. The
growth of the model is bounded like all folding.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ort_py.contracts import GraphEditor, GraphTransform, Level, NodeSpec, TransformContext, TransformResult
from ort_py.dtypes import DataType, TensorType, nbytes_of
from ort_py.transforms.claims import FirstClaims


class DequantizeWeights(GraphTransform):
    """DequantizeLinear of constants, for the providers that ask for it.

    Args:
        first_claims: Function that returns the provider of each node; None if no provider asks for this.
    """

    name = "ConstantFoldingDQ"

    def __init__(self, first_claims: FirstClaims | None) -> None:
        self._first_claims = first_claims

    @property
    def level(self) -> Level:
        return Level.EXTENDED

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        changes, notes = 0, list[str]()
        pending = [graph] if self._first_claims is not None else []
        while pending:
            editor = pending.pop()
            for node in self._wanted(editor):
                reason = _fold(node, editor, context)
                changes += not reason
                if reason:
                    notes.append(f"{node.name} stays: {reason}")
            pending += editor.subgraphs()
        return TransformResult(changes, tuple(notes))

    def _wanted(self, graph: GraphEditor) -> Iterator[NodeSpec]:
        found = [node for node in graph.nodes if _reads_constants(node)]
        if not found or self._first_claims is None:
            return
        claims = self._first_claims(graph.view, {node.name for node in found})
        for node in found:
            provider = claims.get(node.name)
            if provider is not None and provider.dequantizes_constants:
                yield node


def _reads_constants(node: NodeSpec) -> bool:
    return (
        node.op_type == "DequantizeLinear"
        and not node.domain
        and all(value is None or value.constant for value in node.inputs)
    )


def _fold(node: NodeSpec, graph: GraphEditor, context: TransformContext) -> str:
    """Fold a node. Returns the reason if it must stay, else an empty text."""
    output = node.outputs[0]
    kind = None if output is None else output.type
    if output is None or not isinstance(kind, TensorType) or kind.shape is None:
        return "the size of its result is unknown"
    sizes = tuple([size for size in kind.shape if isinstance(size, int)])
    if len(sizes) < len(kind.shape):
        return "the size of its result is unknown"
    if graph.is_output(output):
        return "the graph returns its result"
    nbytes = nbytes_of(kind.data_type, sizes)
    if not context.reserve(nbytes):
        return f"its result has {nbytes:,} bytes, more than constants may grow by"
    results = context.evaluate(node, [graph.constant(value) for value in node.inputs])
    if results is None or kind.data_type not in (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16):
        return "no kernel on the host computes it"
    array = np.asarray(results[0])
    keys = [graph.constant_key(value) for value in node.inputs if value is not None]
    own = array.flags.owndata and array.flags.writeable and array.flags.c_contiguous
    made_of = f"DequantizeLinear {sorted(node.attributes.items())} {keys}" if own else ""
    graph.replace_uses(output, graph.add_constant(f"{output.name}/dequantized", array, made_of=made_of))
    graph.replace_nodes([node], ())
    return ""
