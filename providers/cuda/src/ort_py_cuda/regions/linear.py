"""A product, a vector added to its rows and an activation behind it as one call of cuBLASLt, for batches of any rank.

Gemm says that for matrices; what a linear layer of three axes becomes is MatMul and Add, perhaps with Relu or the Gelu
by tanh behind them, or FastGelu with a bias in it. Taken alone, each is a pass over the result. Where all that reads
the sum is element-wise, the sum costs nothing there already, and the product stays by itself. Comes beside `groups`,
which has what is left; knows no captured graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np

from ort_py.contracts.capability import Claim, ClaimKind
from ort_py.contracts.compiled import CompiledRegion, FrameResources, RegionInstance
from ort_py.contracts.graph_view import Array, GraphView, NodeSpec, RegionView, ValueSpec
from ort_py.devices import Device
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.cublaslt.elements import Epilogue
from ort_py_cuda.cublaslt.layout import product_shape
from ort_py_cuda.cublaslt.products import multiply
from ort_py_cuda.regions.groups import refusal
from ort_py_cuda.settings import current

__all__ = ["Linear", "LinearRegion", "compile_region", "find", "group_refusal", "groups", "owns"]

_TYPES = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
_MS = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Linear:
    """A layer.

    Attributes:
        nodes: Indices of its nodes: the product, what adds the vector, the activation.
        vector: Name of what is added.
        epilogue: What cuBLASLt does behind the sum.
    """

    nodes: tuple[int, ...]
    vector: str
    epilogue: Epilogue


def find(graph: GraphView, node: NodeSpec) -> Linear | None:
    """The layer that begins with a node; None where none does.

    Args:
        graph: The graph.
        node: Any node.
    """
    if (node.domain, node.op_type) != ("", "MatMul"):
        return None
    a, b, product = node.inputs[0], node.inputs[1], node.outputs[0]
    if a is None or b is None or product is None or product.data_type not in _TYPES:
        return None
    if a.shape is None or b.shape is None or len(a.shape) < 2 or len(b.shape) != 2 or not isinstance(b.shape[1], int):
        return None
    sum_ = _only_reader(graph, product)
    if sum_ is None:
        return None
    vector = _vector(graph, sum_, product, (len(a.shape), b.shape[1]))
    if vector is None:
        return None
    nodes = (node.index, sum_.index)
    if (sum_.domain, sum_.op_type) == (_MS, "FastGelu"):
        return Linear(nodes, vector, Epilogue.GELU)
    made = sum_.outputs[0]
    assert made is not None
    behind = _only_reader(graph, made)
    epilogue = Epilogue.DEFAULT if behind is None else _activation(behind)
    if behind is not None and epilogue is not Epilogue.DEFAULT:
        return Linear((*nodes, behind.index), vector, epilogue)
    return None if _reads_elements_only(graph, made) else Linear(nodes, vector, Epilogue.DEFAULT)


def _only_reader(graph: GraphView, value: ValueSpec) -> NodeSpec | None:
    """The only node that reads a value, or None if it has other readers."""
    readers = graph.consumers(value.name)
    if len(readers) != 1 or any(one.name == value.name for one in graph.outputs):
        return None
    return graph.nodes[readers[0]]


def _vector(graph: GraphView, node: NodeSpec, product: ValueSpec, form: tuple[int, int]) -> str | None:
    """Name of the constant with one entry per column that a node adds to a product; None if it does not do that."""
    adds = (node.domain, node.op_type) == ("", "Add") and node.since_version >= 7
    if not adds and (node.domain, node.op_type) != (_MS, "FastGelu"):
        return None
    values = [value for value in node.inputs if value is not None]
    others = [value for value in values if value.name != product.name]
    if len(values) != 2 or len(others) != 1 or (not adds and others[0] is values[0]):
        return None
    rank, columns = form
    shape = others[0].shape
    if shape is None or not 1 <= len(shape) <= rank or shape[-1] != columns or any(size != 1 for size in shape[:-1]):
        return None
    return None if graph.constant(others[0].name) is None else others[0].name


def _activation(node: NodeSpec) -> Epilogue:
    if (node.domain, node.op_type) == ("", "Relu"):
        return Epilogue.RELU
    by_tanh = node.op_type == "Gelu" and not node.domain and node.attributes.get("approximate", "none") == "tanh"
    alone = (node.domain, node.op_type) == (_MS, "FastGelu") and sum(value is not None for value in node.inputs) == 1
    return Epilogue.GELU if by_tanh or alone else Epilogue.DEFAULT


def _reads_elements_only(graph: GraphView, value: ValueSpec) -> bool:
    """Return whether a value is read by nodes of element-wise regions alone: in one of them the sum costs no pass."""
    if any(one.name == value.name for one in graph.outputs):
        return False
    return all(refusal(graph.nodes[index], graph) is None for index in graph.consumers(value.name))


def groups(graph: GraphView, able: Collection[int]) -> list[Claim]:
    """The layers of a graph as claims.

    Args:
        graph: The graph.
        able: Nodes to choose from.
    """
    chosen = set(able)
    layers = (find(graph, graph.nodes[index]) for index in sorted(chosen))
    return [
        Claim(tuple(sorted(one.nodes)), ClaimKind.COMPILE, f"one product for {len(one.nodes)} nodes")
        for one in layers
        if one is not None and chosen.issuperset(one.nodes)
    ]


def owns(nodes: Iterable[NodeSpec]) -> bool:
    """Return whether nodes are of a layer: no other region of this room has products."""
    return any(node.op_type == "MatMul" for node in nodes)


def group_refusal(nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
    """Explain why the rest of a layer is not a layer, or return None."""
    indices = tuple(sorted(node.index for node in nodes))
    whole = any(found is not None and found.nodes == indices for found in (find(graph, node) for node in nodes))
    return None if whole else "what is left is not a product with what follows it"


class LinearRegion(CompiledRegion):
    """A layer. Immutable; called from any thread.

    Args:
        operands: Both factors: the number of the region's input, or the array of a constant.
        vector: What is added, on the device.
        epilogue: What follows.
        tf32: Whether float32 is multiplied as TF32.
        where: The product's node.
    """

    def __init__(
        self, operands: Sequence[int | Array], vector: Array, epilogue: Epilogue, tf32: bool, where: Location
    ) -> None:
        self._operands = tuple(operands)
        self._vector = vector
        self._epilogue = epilogue
        self.tf32 = tf32
        self._where = where

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """An instance, which keeps one run's arrays."""
        return _Instance(self)

    def run(self, feeds: Sequence[Array], out: Array | None) -> list[Array]:
        """Enqueue the product on the current stream.

        Args:
            feeds: The region's inputs.
            out: Where the result may go.

        Raises:
            InvalidArgument: Shapes do not fit.
            EPFail: cuBLASLt is not there, or failed.
        """
        a, b = (feeds[one] if isinstance(one, int) else one for one in self._operands)
        shape = product_shape(a.shape, b.shape)
        if shape is None or shape[-1] != self._vector.shape[0]:
            raise InvalidArgument(
                f"Cannot multiply shapes {list(a.shape)} and {list(b.shape)} and add {self._vector.shape[0]} columns.",
                where=self._where,
                fix="Feed arrays of the shapes that the model declares.",
            )
        place = out if out is not None and tuple(out.shape) == tuple(shape) else None
        return [multiply(a, b, place, bias=self._vector, epilogue=self._epilogue, tf32=self.tf32)]


class _Instance(RegionInstance):
    def __init__(self, region: LinearRegion) -> None:
        self._region = region
        self._inputs: tuple[Array, ...] = ()
        self._out: Array | None = None

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        self._inputs, (self._out,) = tuple(inputs), outputs

    def __call__(self) -> Sequence[Array]:
        inputs, out, self._inputs, self._out = self._inputs, self._out, (), None
        return self._region.run(inputs, out)


def compile_region(region: RegionView, xp: Any) -> CompiledRegion:
    """A region that `groups` claimed: its constants go to the device.

    Args:
        region: The region.
        xp: The array module.
    """
    fed = {value.name: place for place, value in enumerate(region.inputs)}
    ((node, layer),) = [(node, found) for node in region.nodes if (found := find(region, node)) is not None]
    settings = current()

    def on_the_device(name: str) -> Array:
        weight = region.weight(name)
        assert weight is not None
        form = f"{Device('cuda', settings.device)} a copy"
        made: Array = region.packed_forms.packed([weight.key], form, lambda: xp.asarray(weight.array()))
        weight.replaced()
        return made

    operands = [value for value in node.inputs if value is not None]
    given = [fed[value.name] if value.name in fed else on_the_device(value.name) for value in operands]
    vector = np.asarray(region.constant(layer.vector))
    bias = xp.asarray(vector.reshape(prod(vector.shape)))
    return LinearRegion(given, bias, layer.epilogue, settings.tf32, node.location)
