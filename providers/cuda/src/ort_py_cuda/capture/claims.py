"""The nodes that go into captured regions, and the reasons why others do not.

A captured kernel is launched again and again with the arguments it had: so it may not wait for the device, read a value
on the host, draw random numbers, or make arrays whose shapes the data decide. Kernels of this package are written for
it and say in their module's `WAITS` which operators are not; of the array library, only operators that are listed here
are known to be so. It does not depend on devices. Comes before `program`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from ort_py.contracts import Claim, ClaimKind, GraphView, KernelCatalog, KernelDef, KernelLookup, NodeSpec, RegionView
from ort_py.contracts.region_provider import convex_groups
from ort_py.dtypes import TensorType
from ort_py_cuda import float8
from ort_py_cuda.settings import current

__all__ = ["definition_of", "group_refusal", "groups", "owns", "refusal"]

REASON = "captured as a CUDA graph"
"""What claims say, before how many nodes go together."""

_LEAST = 2
"""Nodes that a region has at least: one launch of a graph costs as much as that of one kernel."""

_OURS = "ort_py_cuda."

_NAMES = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
    "CastLike Ceil Celu Clip Concat Constant Cos Cosh DequantizeLinear Div Elu Equal Erf Exp Expand Flatten Floor "
    "Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LayerNormalization LeakyRelu Less "
    "LessOrEqual Log LogSoftmax Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear RMSNormalization "
    "Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare Relu Reshape Round Selu Sigmoid Sign Sin Sinh Slice Softmax Softplus Softsign "
    "Split Sqrt Squeeze Sub Sum Swish Tan Tanh ThresholdedRelu Tile Transpose Unsqueeze Where Xor "
    "com.microsoft:BiasGelu com.microsoft:FastGelu com.microsoft:Gelu com.microsoft:QuickGelu "
    "com.microsoft:SkipLayerNormalization com.microsoft:SkipSimplifiedLayerNormalization "
    "SimplifiedLayerNormalization"
)
_CAPTURABLE = frozenset(_NAMES.split())
"""Operators of the array library that only enqueue work: they read shapes and constants on the host, never values."""

_RANDOM = frozenset({"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                     "RandomUniformLike"})  # fmt: skip
_BY_VALUE = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Range", "StringSplit", "Unique"})


def refusal(node: NodeSpec, definition: KernelDef) -> str | None:
    """Explain why a node is not captured, or return None.

    Args:
        node: The node.
        definition: The kernel that runs it.
    """
    name = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    if definition.subgraphs:
        return f"{name} runs graphs of its own, which the host decides about"
    if node.op_type in _RANDOM:
        return f"{name} draws random numbers: a captured one would draw the same in each run"
    if node.op_type in _BY_VALUE:
        return f"the shape of what {name} makes depends on values"
    if definition.host_outputs:
        return f"{name} makes its result on the host"
    for position in definition.host_inputs:
        value = node.inputs[position] if position < len(node.inputs) else None
        if value is not None and not value.constant:
            return f"{name} reads '{value.name}' on the host, and it is not a constant"
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.type is not None and not isinstance(value.type, TensorType):
            return f"'{value.name}' is not a tensor"
    if definition.implementation.startswith(_OURS):
        module = sys.modules.get(definition.implementation.partition(":")[0])
        if node.op_type in getattr(module, "WAITS", ()):
            return f"the kernel of {name} waits for the device"
    elif name not in _CAPTURABLE:
        return f"{name} is not known to do all of its work on the device's stream"
    return None


def groups(
    graph: GraphView, able: Collection[int], kernels: KernelLookup, whole: Sequence[tuple[int, ...]] = ()
) -> Sequence[Claim]:
    """Regions to capture.

    Args:
        graph: The graph.
        able: Nodes that have a kernel and whose values the device can hold.
        kernels: Finds the kernels.
        whole: Further nodes, in groups that only run together: what no kernel runs by itself, see `float8`.
    """
    taken = []
    for index in able:
        definition = kernels.find(graph.nodes[index]).kernel
        if definition is not None and refusal(graph.nodes[index], definition) is None:
            taken.append(index)
    inside, apart = list(whole), list[tuple[int, ...]]()
    while True:
        found = convex_groups(graph, [*taken, *(index for unit in inside for index in unit)])
        split = [unit for unit in inside if not any(set(unit) <= set(group) for group in found)]
        if not split:
            break
        inside = [unit for unit in inside if unit not in split]
        apart += split  # between two regions, as one of its own
    return [
        Claim(group, ClaimKind.COMPILE, f"{REASON}, one of {len(group)} nodes")
        for group in (*found, *apart)
        if len(group) >= _LEAST
    ]


def group_refusal(nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
    """Explain why the rest of a claim is not worth a graph, or return None.

    Args:
        nodes: What is left.
        graph: The graph.
    """
    if len(nodes) < _LEAST:
        return "a graph of one kernel is launched no faster than the kernel"
    indices = {node.index for node in nodes}
    products = float8.find(graph, indices, current().capability).groups
    bare = [node for node in nodes if not any(node.index in unit and indices.issuperset(unit) for unit in products)]
    return "only a part of a float8 product is left, which no kernel computes" if float8.owns(bare) else None


def definition_of(node: NodeSpec, kernels: KernelCatalog) -> KernelDef | None:
    """The kernel of a catalogue that covers a node's version and types."""
    for definition in kernels.kernels_of(node.domain, node.op_type):
        if definition.since <= node.since_version <= definition.last and all(
            node.type_bindings.get(variable) in {None, *allowed} for variable, allowed in definition.types.items()
        ):
            return definition
    return None


def owns(region: RegionView, kernels: KernelCatalog | None = None) -> bool:
    """Return whether a region is one to capture: all of its nodes can be, or are of products of float8.

    Args:
        region: The region.
        kernels: The provider's kernels; those of a session with default settings where None.
    """
    if kernels is None:
        from ort_py_cuda.kernels.catalog import CudaKernels

        kernels = CudaKernels()
    everything = range(len(region.nodes))
    inside = set[int]().union(*float8.find(region, everything, current().capability).groups)
    for node in region.nodes:
        if node.index in inside:
            continue
        definition = definition_of(node, kernels)
        if definition is None or refusal(node, definition) is not None:
            return False
    return True
