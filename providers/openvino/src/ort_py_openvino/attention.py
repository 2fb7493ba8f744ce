"""Regions whose attention OpenVINO's code generator would compute over its own operands.

On the processor, OpenVINO makes one generated loop of a whole attention (product, Softmax, product), with the Transpose
of an operand inside. Where that operand has the shape of the result, as with as many tokens as heads, the loop writes
the result into the operand's memory while other threads still read it there. Seen with 2026.4, with known sizes only.
Such regions are compiled without generated loops.
"""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec

__all__ = ["overwrites_its_operand"]


def overwrites_its_operand(region: GraphView) -> bool:
    """Return whether a region may have such an attention.

    Args:
        region: The region.
    """
    softmax = any(node.op_type == "Softmax" or node.body is not None for node in region.nodes)
    return softmax and any(node.op_type == "Transpose" and _keeps_its_shape(node) for node in region.nodes)


def _keeps_its_shape(node: NodeSpec) -> bool:
    value, result = node.inputs[0], node.outputs[0]
    known = value is not None and value.shape is not None and all(isinstance(dim, int) for dim in value.shape)
    return known and value is not None and result is not None and value.shape == result.shape
