"""The nodes of a graph that are products of float8, and the reason for each that is not.

A product is MatMul, Gemm, or what the core fuses them to, whose first factor is DequantizeLinear of QuantizeLinear to
float8 and whose second is DequantizeLinear, perhaps a Transpose behind it, of a constant float8 matrix; scales are
constants of one element. Products that share what is quantised, or a weight, go together, since float8 leaves no
region. It does not depend on devices. Comes before `region`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ort_py.contracts.capability import Claim, ClaimKind
from ort_py.contracts.graph_view import GraphView, NodeSpec, ValueSpec
from ort_py.contracts.region_provider import convex_groups
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass

__all__ = ["FROM", "Activation", "Found", "Product", "Weight", "find", "group_refusal", "owns", "product_of"]

FROM = 89
"""Compute capability ×10 from which cuBLASLt multiplies float8."""

_FORMS = (DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2)
_OTHER_FORMS = (DataType.FLOAT8E4M3FNUZ, DataType.FLOAT8E5M2FNUZ)
_WIDE = (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
_CONTRIB = "com.microsoft"
_PRODUCTS = (("", "MatMul"), ("", "Gemm"), (_CONTRIB, "FusedGemm"), (_CONTRIB, "FusedMatMul"))


@dataclass(frozen=True, slots=True)
class Activation:
    """Origin of a product's first factor.

    Attributes:
        x: Name of the numbers.
        form: float8 type they become.
        rounded: Type of their quotients by the scale.
        divisor: Name of the scale they are divided by.
        scale: Name of the scale the bytes are multiplied by.
        nodes: Indices of QuantizeLinear and DequantizeLinear.
    """

    x: str
    form: DataType
    rounded: DataType
    divisor: str
    scale: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """Origin of a product's second factor.

    Attributes:
        name: Name of the constant.
        form: Its type.
        scale: Name of its scale.
        turned: Whether the constant is ``(n, k)``.
        columns: n.
        nodes: Indices of DequantizeLinear and, if there is one, Transpose.
    """

    name: str
    form: DataType
    scale: str
    turned: bool
    columns: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        node: Index of MatMul, Gemm or what is fused of them.
        activation: Its first factor.
        weight: Its second one.
        added: Name of what is added; empty for nothing.
        alpha: Factor of the product.
        beta: Factor of what is added.
        kind: Type of the result.
        relu: Whether Relu follows.
    """

    node: int
    activation: Activation
    weight: Weight
    added: str
    alpha: float
    beta: float
    kind: DataType
    relu: bool = False

    @property
    def nodes(self) -> frozenset[int]:
        """All of its nodes."""
        return frozenset((self.node, *self.activation.nodes, *self.weight.nodes))


@dataclass(frozen=True, slots=True)
class Found:
    """Products found in a graph.

    Attributes:
        groups: Sorted indices of the nodes of one region each.
        refusals: Why a node that converts to or from float8 for a product is in none, by its index.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    refusals: dict[int, str] = field(default_factory=dict)

    @property
    def claims(self) -> list[Claim]:
        """The groups as claims."""
        return [Claim(group, ClaimKind.COMPILE, f"float8 stays inside of {len(group)} nodes") for group in self.groups]


def find(graph: GraphView, able: Collection[int], capability: int) -> Found:
    """The products of float8 of a graph.

    Args:
        graph: The graph.
        able: Nodes that may be taken though they do not hold float8: products are, by themselves.
        capability: Compute capability ×10 of the GPU.
    """
    products: list[Product] = []
    refusals: dict[int, str] = {}
    for node in graph.nodes:
        found = product_of(graph, node)
        if found is not None and capability < FROM:
            words = f"products of float8 need compute capability 8.9, and this GPU has {capability / 10:.1f}"
            refusals |= dict.fromkeys(_converters(graph, node), words)
        elif isinstance(found, str):
            refusals |= dict.fromkeys(_converters(graph, node), found)
        elif found is not None and node.index in able:
            products.append(found)
    groups: list[tuple[int, ...]] = []
    for members in _together(products):
        nodes = frozenset[int]().union(*(one.nodes for one in members))
        reason = _escapes(graph, members, nodes)
        if reason is None:
            groups.append(tuple(sorted(nodes)))
        else:
            refusals |= dict.fromkeys(nodes - {one.node for one in members}, reason)
    taken = {index for group in groups for index in group}
    return Found(tuple(sorted(groups)), {index: why for index, why in refusals.items() if index not in taken})


def owns(nodes: Iterable[NodeSpec]) -> bool:
    """Return whether nodes are of a region that `find` put together: no other region has float8."""
    return any(
        value is not None and value.data_type in _FORMS for node in nodes for value in (*node.inputs, *node.outputs)
    )


def group_refusal(nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
    """Explain why the rest of a region cannot run: only whole products of float8 can."""
    indices = tuple(sorted(node.index for node in nodes))
    members = [found for node in nodes if isinstance(found := product_of(graph, node), Product)]
    nodes_of = frozenset[int]().union(*(one.nodes for one in members))
    if tuple(sorted(nodes_of)) != indices or _escapes(graph, members, nodes_of) is not None:
        return "what is left is not a whole product of float8"
    return None


def product_of(graph: GraphView, node: NodeSpec) -> Product | str | None:
    """A node as a product of float8; why it is none though a factor is float8; None where no factor is."""
    if (node.domain, node.op_type) not in _PRODUCTS or len(node.inputs) < 2:
        return None
    left, right = node.inputs[0], node.inputs[1]
    if left is None or right is None or not (_is_float8(graph, left) or _is_float8(graph, right)):
        return None
    activation = _activation(graph, left)
    weight = _weight(graph, right)
    output = node.outputs[0]
    for one in (activation, weight):
        if isinstance(one, str):
            return one
    assert isinstance(activation, Activation)
    assert isinstance(weight, Weight)
    if activation.form is weight.form is DataType.FLOAT8E5M2:
        return "no GPU multiplies float8e5m2 with float8e5m2"
    if output is None or output.data_type not in _WIDE:
        return "the type of the product is unknown"
    attributes = node.attributes
    activated = attributes.get("activation") or ""
    if activated not in ("", "Relu"):
        return f"{activated} follows inside of {node.op_type}"
    if any(attributes.get(name, 0) for name in ("transA", "transBatchA", "transBatchB")):
        return f"{node.op_type} transposes its first factor, and float8 must lie along the axis that is summed over"
    if attributes.get("transB", 0):
        weight = _turned(graph, weight)
    third = node.inputs[2] if len(node.inputs) > 2 else None
    alpha, beta = (float(attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    added = third.name if third is not None and beta else ""
    return Product(node.index, activation, weight, added, alpha, beta, output.data_type, activated == "Relu")


def _made_by(graph: GraphView, value: ValueSpec | None, op_type: str) -> NodeSpec | None:
    index = None if value is None else graph.producer(value.name)
    if index is None:
        return None
    node = graph.nodes[index]
    return node if node.op_type == op_type and not node.domain else None


def _dequantized(graph: GraphView, value: ValueSpec) -> tuple[NodeSpec | None, NodeSpec | None]:
    """DequantizeLinear that a value comes from, and the Transpose between, where there is one."""
    turn = _made_by(graph, value, "Transpose")
    return _made_by(graph, value if turn is None else turn.inputs[0], "DequantizeLinear"), turn


def _is_float8(graph: GraphView, value: ValueSpec) -> bool:
    node, _ = _dequantized(graph, value)
    return node is not None and _narrow(node.inputs[0]) in (*_FORMS, *_OTHER_FORMS)


def _narrow(value: ValueSpec | None) -> DataType | None:
    return None if value is None else value.data_type


def _converters(graph: GraphView, node: NodeSpec) -> list[int]:
    """The nodes that hold float8 for a product."""
    found: list[int] = []
    for value in node.inputs[:2]:
        wide, _ = (None, None) if value is None else _dequantized(graph, value)
        if wide is None or _narrow(wide.inputs[0]) not in (*_FORMS, *_OTHER_FORMS):
            continue
        found.append(wide.index)
        narrow = _made_by(graph, wide.inputs[0], "QuantizeLinear")
        found += [] if narrow is None else [narrow.index]
    return found


def _activation(graph: GraphView, value: ValueSpec) -> Activation | str:
    wide = _made_by(graph, value, "DequantizeLinear")
    narrow = None if wide is None else _made_by(graph, wide.inputs[0], "QuantizeLinear")
    if wide is None or narrow is None:
        return f"'{value.name}', the first factor, is not quantised to float8 in front of the product"
    form = _narrow(wide.inputs[0])
    given, divisor = narrow.inputs[0], narrow.inputs[1]
    if given is None or divisor is None or given.data_type not in _WIDE or divisor.data_type is not given.data_type:
        return f"QuantizeLinear '{narrow.name}' has a scale of another type than its numbers"
    if not narrow.attributes.get("saturate", 1):
        return f"QuantizeLinear '{narrow.name}' does not saturate"
    precision = int(narrow.attributes.get("precision", 0))
    if precision not in (0, DataType.FLOAT, given.data_type):
        return f"QuantizeLinear '{narrow.name}' divides in another type than its numbers have"
    reason = _parameters(graph, narrow) or _parameters(graph, wide)
    if reason is not None or form not in _FORMS:
        return reason or _other_form(wide)
    scale = wide.inputs[1]
    assert scale is not None
    rounded = DataType(precision) if precision else given.data_type
    return Activation(given.name, form, rounded, divisor.name, scale.name, (narrow.index, wide.index))


def _weight(graph: GraphView, value: ValueSpec) -> Weight | str:
    wide, turn = _dequantized(graph, value)
    held = None if wide is None else wide.inputs[0]
    if wide is None or held is None or not held.constant:
        return f"'{value.name}', the second factor, is not a constant of float8"
    reason = _parameters(graph, wide)
    if reason is not None or held.data_type not in _FORMS:
        return reason or _other_form(wide)
    sizes = [size for size in held.shape or () if isinstance(size, int) and size > 0]
    if len(sizes) != 2 or held.shape is None or len(held.shape) != 2:
        return f"'{held.name}', the second factor, is not a matrix"
    scale = wide.inputs[1]
    assert scale is not None
    nodes = (wide.index,) if turn is None else (wide.index, turn.index)
    turned = turn is not None and tuple(turn.attributes.get("perm", (1, 0))) == (1, 0)
    return Weight(held.name, held.data_type, scale.name, turned, sizes[0 if turned else 1], nodes)


def _turned(graph: GraphView, weight: Weight) -> Weight:
    shape = next(
        value.shape
        for value in graph.nodes[weight.nodes[0]].inputs
        if value is not None and value.name == weight.name and value.shape is not None
    )
    columns = shape[1 if weight.turned else 0]
    assert isinstance(columns, int)
    return Weight(weight.name, weight.form, weight.scale, not weight.turned, columns, weight.nodes)


def _other_form(node: NodeSpec) -> str:
    kind = _narrow(node.inputs[0])
    return f"no GPU multiplies {'this type' if kind is None else kind.onnx_name}"


def _parameters(graph: GraphView, node: NodeSpec) -> str | None:
    """Explain why a node's scale or zero point does not fit, or return None."""
    scale = node.inputs[1] if len(node.inputs) > 1 else None
    value = None if scale is None else graph.constant(scale.name)
    if value is None:
        return f"the scale of {node.op_type} '{node.name}' is not a constant"
    if value.size != 1:
        return f"{node.op_type} '{node.name}' has more than one scale, and products of float8 have one for all"
    number = float(np.asarray(value, np.float32).reshape(()))
    if not (np.isfinite(number) and number > 0):
        return f"the scale of {node.op_type} '{node.name}' is {number:g}"
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    if zero is not None:
        known: Any = graph.constant(zero.name)
        if known is None or np.any(np.asarray(known).astype(np.float32)):
            return f"the zero point of {node.op_type} '{node.name}' is not zero"
    return None


def _together(products: Sequence[Product]) -> list[list[Product]]:
    """Products that share nodes."""
    groups: list[tuple[set[int], list[Product]]] = []
    for one in products:
        nodes, members = set(one.nodes), [one]
        apart: list[tuple[set[int], list[Product]]] = []
        for group in groups:
            if group[0].isdisjoint(nodes):
                apart.append(group)
            else:
                nodes |= group[0]
                members = [*group[1], *members]
        groups = [*apart, (nodes, members)]
    return [members for _, members in groups]


def _escapes(graph: GraphView, members: Sequence[Product], nodes: frozenset[int]) -> str | None:
    """Explain why products do not form a region: float8 or dequantised values are read elsewhere too, or a path leaves
    and returns.
    """
    results = {value.name for value in graph.outputs}
    products = {one.node: one for one in members}
    for index in nodes - products.keys():
        for value in graph.nodes[index].outputs:
            if value is None:
                continue
            readers = graph.consumers(value.name)
            if value.name in results or any(reader not in nodes for reader in readers):
                return f"'{value.name}' is read by others than products of float8"
            if any(reader in products and products[reader].added == value.name for reader in readers):
                return f"'{value.name}' is added to a product of float8"
    if convex_groups(graph, nodes) != [tuple(sorted(nodes))]:
        return "what one product makes goes into another that shares its bytes"
    return None
