"""Constants of linear operators, changed so that the operator's result comes out scaled and shifted by channel.

Used by the rules that fold normalisation, multiplication and addition into what is in front of or behind them. The
arithmetic is done in float64, so that new weights are those closest to the exact ones. It is independent of rules.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import Array, GraphEditor, NodeSpec, NodeTemplate, ValueSpec
from ort_py.graph.weights.unpack import aligned_empty
from ort_py.hashing import blake2b
from ort_py.lazy_dataclass import dataclass

LINEAR = frozenset({"BatchNormalization", "Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators whose result can be scaled by changing constants; MatMul's cannot be shifted."""

_INPUTS = {"BatchNormalization": 5, "Conv": 3, "ConvTranspose": 3, "Gemm": 3, "MatMul": 2}


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear node whose weights are constant and its own.

    Attributes:
        weight: Its weights; the scale of a BatchNormalization.
        bias: The addend; None where it adds nothing.
    """

    node: NodeSpec
    weight: Array
    bias: Array | None
    channels: int
    axis: int

    def affine(self, scale: Array, shift: Array | None, graph: GraphEditor, result: str) -> NodeTemplate | str:
        """A node that computes ``scale * result + shift``, or a reason why there is none.

        Args:
            scale: A number for each channel, float64.
            shift: Likewise; None for nothing.
            result: Name of the new node's output.
        """
        node = self.node
        if node.op_type == "MatMul" and shift is not None:
            return "MatMul adds nothing"
        if self.alpha < 1 and np.any(np.abs(scale) > 1):
            return "the product is made smaller by alpha, before which larger weights may let it overflow"
        changes = bool((scale != 1).any())
        weight = self._scaled(scale) if changes else self.weight
        with np.errstate(all="ignore"):  # numbers that are not finite are searched for
            bias = np.zeros(self.channels) if self.bias is None else self.bias.astype(np.float64)
            bias = bias * scale + (0 if shift is None else shift / self.beta)
        if weight is None:
            return "the new weights would not be finite, or be too small for their type"
        names = [value.name if value is not None else "" for value in node.inputs]
        position = 1
        if self.bias is not None or shift is not None:
            added = rounded(self.weight[..., :0], bias)
            if added is None:
                return "the new weights would not be finite, or be too small for their type"
            names += [""] * (3 - len(names))
            names[2] = graph.add_constant(f"{names[position]}/shifted", added)
        if not changes:
            return NodeTemplate(node.op_type, tuple(names), (result,), node.attributes)
        factors = blake2b(scale.tobytes(), digest_size=20).hexdigest()
        made_of = f"{node.op_type} {graph.constant_key(names[position])} scaled by {factors} {self._layout}"
        names[position] = graph.add_constant(f"{names[position]}/scaled", weight, made_of=made_of)
        return NodeTemplate(node.op_type, tuple(names), (result,), node.attributes)

    @property
    def alpha(self) -> float:
        """The magnitude of the factor that follows the product: alpha of a Gemm."""
        return abs(float(self.node.attributes.get("alpha", 1.0))) if self.node.op_type == "Gemm" else 1.0

    @property
    def beta(self) -> float:
        """Factor of the bias: beta of a Gemm."""
        return float(self.node.attributes.get("beta", 1.0)) if self.node.op_type == "Gemm" else 1.0

    @property
    def _layout(self) -> str:
        """Position of the channels among the weights' axes."""
        attributes = self.node.attributes
        return f"{attributes.get('group', 1)} {attributes.get('transB', 0)}"

    def _scaled(self, scale: Array) -> Array | None:
        """The weights with a factor for each channel. None if one leaves the range of their type."""
        node, weight = self.node, self.weight
        if node.op_type == "Conv":
            return _product_rounded(weight, scale.reshape(-1, *[1] * (weight.ndim - 1)))
        if node.op_type == "ConvTranspose":
            group = node.attributes.get("group", 1)
            split = weight.reshape(group, -1, *weight.shape[1:])
            made = _product_rounded(split, scale.reshape(group, 1, -1, *[1] * (weight.ndim - 2)))
            return None if made is None else made.reshape(weight.shape)
        if node.op_type == "Gemm" and node.attributes.get("transB", 0):
            return _product_rounded(weight, scale[:, None])
        return _product_rounded(weight, scale[None] if weight.ndim == 2 else scale)


def _product_rounded(weight: Array, factor: Array) -> Array | None:
    """`rounded` of a product, with no float64 array of its own: NumPy multiplies a part at a time."""
    result = aligned_empty(weight.shape, weight.dtype)
    limits = np.finfo(weight.dtype)
    with np.errstate(all="ignore"):  # numbers that are not finite are searched for
        np.multiply(weight, factor, out=result, dtype=np.float64, casting="same_kind")
        largest = float(np.maximum(-result.min(initial=0), result.max(initial=0)))
    if not largest <= float(limits.max):
        return None
    small = largest < limits.tiny / limits.eps
    return rounded(weight, weight.astype(np.float64) * factor) if small else result


def linear(node: NodeSpec, graph: GraphEditor) -> Linear | str:
    """The node with its constants; a reason where they cannot be changed."""
    if node.op_type == "BatchNormalization":
        reason = _trains(node, graph)
        if reason:
            return reason
    given = (*node.inputs, *[None] * (_INPUTS[node.op_type] - len(node.inputs)))
    weight, bias = graph.constant(given[1]), graph.constant(given[2]) if len(given) > 2 else None
    if weight is None:
        return "a weight is not constant"
    if len(given) > 2 and given[2] is not None and bias is None:
        return f"the bias of the {node.op_type} is not constant"
    if weight.dtype not in (np.float32, np.float64):
        return f"its weights are {weight.dtype}: rounding them twice would cost precision"
    if node.op_type != "BatchNormalization" and given[1] is not None and graph.uses(given[1]) != 1:
        return "the filters are shared with another node" if "Conv" in node.op_type else "its weights are shared"
    if node.op_type in ("Gemm", "MatMul"):
        return _product(node, weight, bias)
    groups = node.attributes.get("group", 1)
    return Linear(node, weight, bias, weight.shape[1] * groups if node.op_type == "ConvTranspose" else len(weight), 1)


def _product(node: NodeSpec, weight: Array, bias: Array | None) -> Linear | str:
    if weight.ndim != 2:
        return "its weights are not a matrix"
    channels = weight.shape[0 if node.attributes.get("transB", 0) else 1]
    if bias is not None:
        if bias.size not in (1, channels) or bias.shape[-1:] not in ((bias.size,), ()):
            return "its bias differs from row to row"
        bias = np.broadcast_to(bias.reshape(-1), (channels,))
    if node.op_type == "Gemm" and (not node.attributes.get("beta", 1.0) or node.since_version < 7):
        return "its bias does not count"
    return Linear(node, weight, bias, channels, -1)


def _trains(node: NodeSpec, graph: GraphEditor) -> str:
    """Explain why a BatchNormalization does not have fixed numbers; empty if it does."""
    if node.since_version >= 14 and node.attributes.get("training_mode", 0):
        return "it is in training mode"
    if node.since_version < 7 and not node.attributes.get("is_test", 0):
        return "it is in training mode"
    if not node.attributes.get("spatial", 1):
        return "it normalises each activation for itself"
    for extra in node.outputs[1:]:
        if extra is not None and graph.uses(extra):
            return f"its output '{extra.name}' is read"
    return ""


def per_channel(array: Array, one: Linear, rank: int | None) -> Array | str:
    """A constant as a number for each channel, float64; a reason where it is something else.

    Args:
        one: The node whose result it is combined with.
        rank: Rank of that result; None where it is unknown.
    """
    if array.dtype != one.weight.dtype:
        return "the constant is of another type"
    axis = array.ndim - 1 if one.axis < 0 else array.ndim + 1 - (rank if rank is not None else array.ndim + 2)
    if array.ndim > (1 if rank is None else rank) or (one.axis > 0 and rank is None and array.ndim):
        return "the constant may give the result another shape"
    if any(size != 1 for place, size in enumerate(array.shape) if place != axis):
        return "the constant differs along other axes than that of the channels"
    if array.size not in (1, one.channels):
        return "the constant gives the result another shape"
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (one.channels,))


def rounded(like: Array, exact: Array) -> Array | None:
    """Convert numbers to the type of `like`. None if one leaves its range at either end."""
    with np.errstate(all="ignore"):
        result = np.asarray(exact).astype(like.dtype, order="C")  # `ascontiguousarray` would give a scalar an axis
    tiny = np.finfo(like.dtype).tiny
    lost = (np.abs(result) < tiny) & (np.abs(exact) > 0) & (np.abs(exact) < tiny)
    if not np.isfinite(result).all() or (lost.any() and float(np.max(np.abs(exact))) < tiny / np.finfo(like.dtype).eps):
        return None
    return result


def operand_and_constant(node: NodeSpec) -> tuple[ValueSpec, ValueSpec] | None:
    """The computed operand and the constant one. None if the node has another form, or the constant comes first and
    must not.
    """
    if len(node.inputs) != 2:
        return None
    first, second = node.inputs
    if first is None or second is None or first.constant == second.constant:
        return None
    if second.constant:
        return first, second
    return (second, first) if node.op_type in ("Add", "Mul") else None
