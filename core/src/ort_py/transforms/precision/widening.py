"""Regions of float16 or bfloat16 computed in float32, where the provider that runs them has only slow kernels for it.

Not node by node: inside a region nothing is rounded to the narrow type, and a Cast stands where a value enters or
leaves. Constants become float32 once. What only moves elements joins where it reads results of the region and nothing
that comes from outside, so a table that is gathered from, or a past that is appended to, keeps its size; and where it
gives the region just what it reads, so that rules find a Transpose beside the product it belongs to.

Results are those of the narrow type with fewer roundings: they differ by what its precision allows, and what would
have overflowed between two nodes does not. Operators whose results jump (comparisons, rounding, the place of a
maximum, casts to integers, functions that end at 1 as `Asin` does) stay narrow: they see values rounded as before, so
what was equal stays equal. So does an operator that is in no set below. All operators in them take float32 wherever
they take float16 or bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ort_py.contracts import (
    GraphEditor,
    GraphTransform,
    Level,
    NodeSpec,
    NodeTemplate,
    TransformContext,
    TransformResult,
    ValueSpec,
)
from ort_py.dtypes import DataType
from ort_py.transforms.claims import FirstClaims
from ort_py.transforms.fusion import CONTRIB

_COMPUTES = """
    Abs Add Asinh Atan Attention AveragePool BatchNormalization Celu Clip Conv ConvTranspose Cos Cosh CumSum
    DequantizeLinear Div Einsum Elu Erf Exp GRU Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample
    GroupNormalization HardSigmoid HardSwish InstanceNormalization LRN LSTM LayerNormalization LeakyRelu Log
    LogSoftmax LpNormalization LpPool MatMul Max MaxPool Mean MeanVarianceNormalization Min Mish Mul Neg PRelu Pow
    RMSNormalization RNN Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare Relu Resize RotaryEmbedding Selu Sigmoid Sin Sinh Softmax Softplus
    Softsign Sqrt Sub Sum Swish Tan Tanh
"""

_MOVES = """
    Concat DepthToSpace Dropout Expand Flatten Gather GatherElements GatherND Identity Pad Reshape ScatterElements
    ScatterND Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where
"""

_RESHAPES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})

_CONTRIBUTED = """
    BiasGelu FastGelu FusedConv FusedGemm FusedMatMul Gelu GroupQueryAttention MultiHeadAttention QuickGelu
    RotaryEmbedding SkipLayerNormalization SkipSimplifiedLayerNormalization
"""


_ARITHMETIC = frozenset(_COMPUTES.split())
_CONTRIB_ARITHMETIC = frozenset(_CONTRIBUTED.split())
_MOVEMENT = frozenset(_MOVES.split())


def computes(node: NodeSpec) -> bool:
    """Return whether the node does arithmetic, so that float32 saves the conversions of its inputs and outputs.

    A node that carries a function stays: its function may name the narrow type.
    """
    if node.body is not None:
        return False
    if node.domain:
        return node.domain == CONTRIB and node.op_type in _CONTRIB_ARITHMETIC
    return node.op_type in _ARITHMETIC and not _jumps(node)


def _jumps(node: NodeSpec) -> bool:
    """Return whether an operator that is else smooth jumps: at whole exponents, between pixels, between places."""
    match node.op_type:
        case "Pow":
            exponent = node.inputs[1]
            return exponent is None or not exponent.constant
        case "GridSample":
            return node.attributes.get("mode") == "nearest"
        case "MaxPool":
            return len(node.outputs) > 1
    return False


def moves(node: NodeSpec) -> bool:
    """Return whether the node only moves elements, which is not slower in a narrow type."""
    return not node.domain and node.body is None and node.op_type in _MOVEMENT


def keeps_size(node: NodeSpec) -> bool:
    """Return whether the node returns the elements that it reads, in another shape or order."""
    return not node.domain and node.body is None and node.op_type in _RESHAPES


_FLOATS = frozenset({DataType.BFLOAT16, DataType.DOUBLE, DataType.FLOAT, DataType.FLOAT16})


class WidenNarrowFloats(GraphTransform):
    """The session's precision transform; does nothing where every provider computes narrow types well.

    Args:
        first_claims: Says who would run each node.
    """

    name = "CastFloat16Transformer"

    def __init__(self, types: frozenset[DataType], first_claims: FirstClaims) -> None:
        self._types = types
        self._first_claims = first_claims

    @property
    def level(self) -> Level:
        return Level.EXTENDED

    def run(self, graph: GraphEditor, context: TransformContext) -> TransformResult:
        changes = casts = 0
        pending = [graph] if self._types else []
        while pending:
            editor = pending.pop()
            region = self._region(editor)
            if region is not None:
                changes += len(region.wide)
                casts += region.apply()
            pending += editor.subgraphs()
        if not changes:
            return TransformResult()
        return TransformResult(changes, (f"{changes} nodes compute in float32, with {casts} Casts at their borders",))

    def _region(self, graph: GraphEditor) -> _Region | None:
        nodes = graph.nodes
        if not any(computes(node) and self._narrow(node) for node in nodes):
            return None
        claims = self._first_claims(graph.view, {node.name for node in nodes if self._narrow(node)})
        ours = {
            node.name: node
            for node in nodes
            if (provider := claims.get(node.name)) is not None and self._narrow(node) & provider.widened_types
        }
        region = _Region(graph, self._types)
        for node in nodes:
            if node.name in ours and (computes(node) or (moves(node) and region.joins(node))):
                region.add(node)
        for node in reversed(nodes):
            if node.name in ours and (region.rounds_inside(node) or (keeps_size(node) and region.feeds(node))):
                region.add(node)
        return region if region.wide else None

    def _narrow(self, node: NodeSpec) -> frozenset[DataType]:
        found = {value.data_type for value in (*node.inputs, *node.outputs) if value is not None}
        return self._types.intersection(one for one in found if one is not None)


class _Region:
    """Nodes of one graph that will be computed in float32."""

    def __init__(self, graph: GraphEditor, types: frozenset[DataType]) -> None:
        self.wide: dict[str, NodeSpec] = {}
        self._graph = graph
        self._types = types
        self._written: set[str] = set()
        self._names: dict[str, str] = {}
        self._casts = 0

    # Choosing ---------------------------------------------------------------------------------------------------------

    def add(self, node: NodeSpec) -> None:
        self.wide[node.name] = node
        self._written.update(value.name for value in self._narrow(node.outputs))

    def joins(self, node: NodeSpec) -> bool:
        """Return whether a node that moves elements reads only values of the region and constants."""
        narrow = [value for value in self._narrow(node.inputs) if not value.constant]
        return bool(narrow) and all(value.name in self._written for value in narrow)

    def rounds_inside(self, node: NodeSpec) -> bool:
        """Return whether the node is a Cast to a narrow type that the region reads."""
        if node.op_type != "Cast" or node.domain or not self._narrow(node.outputs):
            return False
        return any(
            one.name in self.wide and one.op_type != "Cast" for one in self._graph.readers(node.outputs[0] or "")
        )

    def feeds(self, node: NodeSpec) -> bool:
        """Return whether only the region reads a node's output, so that the Cast may also be placed in front of the
        node.
        """
        narrow = self._narrow(node.outputs)
        read = [self._graph.readers(value) for value in narrow]
        if node.name in self.wide or not all(read) or any(map(self._graph.is_output, narrow)):
            return False
        return all(one.name in self.wide and one.op_type != "Cast" for readers in read for one in readers)

    def _narrow(self, values: Iterable[ValueSpec | None]) -> list[ValueSpec]:
        return [value for value in values if value is not None and value.data_type in self._types]

    # Writing ----------------------------------------------------------------------------------------------------------

    def apply(self) -> int:
        """Make the nodes wide; returns how many Casts stand at the borders."""
        leaving: list[NodeSpec] = []
        for node in self._graph.nodes:
            if node.name in self.wide:
                made = self._graph.replace_nodes([node], self._widened(node))
                leaving += [one for one in made if one.op_type == "Cast" and self._narrow(one.outputs)]
            elif node.op_type == "Cast" and not node.domain:
                self._reread(node)
        unread = [one for one in leaving if self._is_unread(one)]
        self._graph.replace_nodes(unread, ())
        return self._casts + len(leaving) - len(unread)

    def _is_unread(self, cast: NodeSpec) -> bool:
        result = cast.outputs[0]
        return result is not None and not self._graph.uses(result) and not self._graph.is_output(result)

    def _widened(self, node: NodeSpec) -> list[NodeTemplate]:
        """The node on float32, with Casts of its inputs and outputs: some of its readers may be narrow."""
        attributes = dict(node.attributes)
        before: list[NodeTemplate] = []
        if node.op_type == "Cast":
            attributes["to"] = int(DataType.FLOAT)
            inputs = [self._names.get(value.name, value.name) for value in node.inputs if value is not None]
        else:
            inputs = ["" if value is None else self._read(value, before) for value in node.inputs]
        behind: list[NodeTemplate] = []
        outputs: list[str] = []
        for value in node.outputs:
            if value is None or value.data_type not in self._types:
                outputs.append("" if value is None else value.name)
                continue
            assert value.data_type is not None
            name = self._names[value.name] = self._graph.free_name(f"{value.name}/float")
            outputs.append(name)
            behind.append(NodeTemplate("Cast", (name,), (value.name,), {"to": int(value.data_type)}))
        return [*before, NodeTemplate(node.op_type, tuple(inputs), tuple(outputs), attributes, node.domain), *behind]

    def _read(self, value: ValueSpec, before: list[NodeTemplate]) -> str:
        """The wide form of what a node reads."""
        if value.data_type not in self._types:
            return value.name
        known = self._names.get(value.name)
        if known is not None:
            return known
        array = self._graph.constant(value)
        if array is not None:
            name = self._graph.add_constant(f"{value.name}/float", array.astype(np.float32))
        else:
            name = self._graph.free_name(f"{value.name}/float")
            before.append(NodeTemplate("Cast", (value.name,), (name,), {"to": int(DataType.FLOAT)}))
            self._casts += 1
        self._names[value.name] = name
        return name

    def _reread(self, cast: NodeSpec) -> None:
        """Let a Cast from a result of the region to another floating type read what is computed instead."""
        source, result = cast.inputs[0], cast.outputs[0]
        if source is None or result is None or source.name not in self._written:
            return
        if result.data_type in _FLOATS:
            name = self._names[source.name]
            self._graph.replace_nodes([cast], [NodeTemplate("Cast", (name,), (result.name,), dict(cast.attributes))])
