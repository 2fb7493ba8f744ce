"""Pad in front of a convolution or pooling: the operator pads by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext


class FoldPad(RewriteRule):
    """Zeros in front of Conv and AveragePool, minus infinity in front of MaxPool, along spatial axes only.

    An AveragePool that counted no padding counts it then: the zeros were part of its input.
    """

    name = "Pad_Fusion"
    op_types = frozenset({"AveragePool", "Conv", "MaxPool"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        pad = graph.producer(node.inputs[0])
        if node.domain or pad is None or pad.op_type != "Pad" or pad.domain:
            return False
        padded, source, result = node.inputs[0], pad.inputs[0], node.outputs[0]
        if padded is None or source is None or result is None:
            return False
        widths = self._widths(pad, graph)
        reason = widths if isinstance(widths, str) else _unfit(node, widths, _value(pad, graph))
        if reason or isinstance(widths, str):
            return reason
        if graph.uses(padded) != 1:
            return "the padded values are read elsewhere too"
        half = len(widths) // 2
        own = _own_pads(node, len(widths) - 4)
        spatial = (*widths[2:half], *widths[half + 2 :])
        attributes = dict(node.attributes)
        attributes.pop("auto_pad", None)
        attributes["pads"] = tuple([int(a) + int(b) for a, b in zip(own, spatial, strict=True)])
        if node.op_type == "AveragePool":
            attributes["count_include_pad"] = 1
        inputs = (source.name, *["" if value is None else value.name for value in node.inputs[1:]])
        outputs = tuple(["" if value is None else value.name for value in node.outputs])
        graph.replace_nodes([pad, node], [NodeTemplate(node.op_type, inputs, outputs, attributes)])
        return True

    @staticmethod
    def _widths(pad: NodeSpec, graph: GraphEditor) -> tuple[int, ...] | str:
        """Begins, then ends, of all axes; a reason where they are not known."""
        if pad.attributes.get("mode", "constant") != "constant":
            return f"the padding is '{pad.attributes['mode']}'"
        given: Any
        if pad.since_version < 11:
            given = pad.attributes.get("pads", pad.attributes.get("paddings"))
        else:
            given = graph.constant(pad.inputs[1])
        source = pad.inputs[0]
        if given is None or source is None or source.shape is None:
            return "the widths of the padding are not known"
        widths = [int(width) for width in given]
        if len(pad.inputs) > 3 and pad.inputs[3] is not None:
            axes = graph.constant(pad.inputs[3])
            if axes is None:
                return "the axes of the padding are not known"
            rank = len(source.shape)
            whole = [0] * (2 * rank)
            for place, axis in enumerate(int(axis) % rank for axis in axes):
                whole[axis], whole[rank + axis] = widths[place], widths[len(axes) + place]
            widths = whole
        return tuple(widths)


def _own_pads(node: NodeSpec, count: int) -> tuple[int, ...]:
    """Padding that the operator already applies."""
    return tuple(node.attributes.get("pads", ())) or (0,) * count


def _value(pad: NodeSpec, graph: GraphEditor) -> float | None:
    """The fill value of the padding, or None if it is not known."""
    if pad.since_version < 11:
        return float(pad.attributes.get("value", 0.0))
    if len(pad.inputs) < 3 or pad.inputs[2] is None:
        return 0.0
    value = graph.constant(pad.inputs[2])
    return None if value is None else float(np.reshape(value, ()))


def _unfit(node: NodeSpec, widths: tuple[int, ...], value: float | None) -> str:
    """Explain why the operator cannot pad this way; empty if it can."""
    half = len(widths) // 2
    own = _own_pads(node, 2 * half - 4)
    if node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return f"the {node.op_type} pads by itself: '{node.attributes['auto_pad']}'"
    if node.attributes.get("auto_pad") == "VALID" and any(own):
        return f"the {node.op_type} pads by itself and says it does not"
    if half < 3 or any(widths[axis] or widths[half + axis] for axis in (0, 1)):
        return "more than spatial axes are padded"
    if any(width < 0 for width in widths):
        return "something is cut off"
    if len(own) != 2 * half - 4:
        return f"the {node.op_type} contradicts the padding"
    wanted = -math.inf if node.op_type == "MaxPool" else 0.0
    if value != wanted:
        return f"it is padded with {'something unknown' if value is None else value}, not with {wanted}"
    if node.op_type == "Conv":
        return ""
    if node.attributes.get("ceil_mode", 0):
        return "windows may reach over the end"
    if node.op_type == "AveragePool":
        if node.since_version < 7 or (any(own) and not node.attributes.get("count_include_pad", 0)):
            return "the AveragePool does not count its own padding"
        if any(size != 1 for size in node.attributes.get("dilations", (1,))):
            return "the AveragePool is dilated"
    elif len(node.outputs) > 1 and node.outputs[1] is not None:
        return "the indices of the MaxPool count the padding"
    kernel = node.attributes.get("kernel_shape", ())
    spatial = (*widths[2:half], *widths[half + 2 :])
    if any(a + b >= size for a, b, size in zip(spatial, own, (*kernel, *kernel), strict=True)):
        return "a window would lie in the padding alone"
    return ""
