"""Regions whose attention OpenVINO's code generator would compute wrongly, or end the process over.

On the processor, OpenVINO makes one generated loop of a whole attention (product, Softmax, product), with the Transpose
of an operand inside. Where that operand has the shape of the result, as with as many tokens as heads, the loop writes
the result into the operand's memory while other threads still read it there. Where the result of the attention, or
what is computed of it element by element, is read more than once, the generator may crash. Both were seen with 2026.4,
with known sizes only. Where the number of keys is not known, a run with one key spoils the next with more. Such regions
are compiled without generated loops.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ort_py.contracts import NodeSpec, RegionView
from ort_py_openvino.graph_walk import MOVES

__all__ = ["needs_plain_loops"]

_PRODUCTS = frozenset({"FusedMatMul", "MatMul"})


def needs_plain_loops(region: RegionView, looked_at: Sequence[str] = ()) -> bool:
    """Return whether a region may have such an attention.

    Args:
        region: The region.
        looked_at: Values that are read once more: see `made_inside`.
    """
    if not any(node.op_type == "Softmax" or node.body is not None for node in region.nodes):
        return False
    if any(node.op_type == "Transpose" and _keeps_its_shape(node) for node in region.nodes):
        return True
    if any(_may_have_one_key(node) for node in region.nodes):
        return True
    readers: dict[str, list[NodeSpec]] = defaultdict(list)
    for node in region.nodes:
        for value in node.inputs:
            if value is not None:
                readers[value.name].append(node)
    others = Counter([*looked_at, *(value.name for value in region.outputs)])
    pending = [node for node in region.nodes if node.op_type in _PRODUCTS and _reads_softmax(node, region)]
    while pending:
        result = pending.pop().outputs[0]
        if result is None:
            continue
        if len(readers[result.name]) + others[result.name] > 1:
            return True
        pending += [one for one in readers[result.name] if one.op_type not in MOVES | _PRODUCTS]
    return False


def _reads_softmax(node: NodeSpec, region: RegionView) -> bool:
    made = [region.producer(value.name) for value in node.inputs if value is not None]
    makers = [region.nodes[index] for index in made if index is not None]
    return any(
        maker.op_type == "Softmax"
        or (maker.body is not None and any(inner.op_type == "Softmax" for inner in maker.body.nodes))
        for maker in makers
    )


def _may_have_one_key(node: NodeSpec) -> bool:
    """Return whether the last size of a Softmax is unknown; of one in a body, whether anything is."""
    if node.op_type == "Softmax":
        return not (node.inputs[0] and node.inputs[0].shape and isinstance(node.inputs[0].shape[-1], int))
    if node.body is None or all(inner.op_type != "Softmax" for inner in node.body.nodes):
        return False
    shapes = [value.shape for value in node.inputs if value is not None]
    return any(shape is None or not all(isinstance(size, int) for size in shape) for shape in shapes)


def _keeps_its_shape(node: NodeSpec) -> bool:
    value, result = node.inputs[0], node.outputs[0]
    known = value is not None and value.shape is not None and all(isinstance(dim, int) for dim in value.shape)
    return known and value is not None and result is not None and value.shape == result.shape
