"""Results of onnxruntime and the reference beyond the specification, and those that onnxruntime writes otherwise.

A rule of this file excuses a difference only if the case itself shows the cause: operands of a named operator that the
specification does not let broadcast, or an operator that is defined by two others. This file knows nothing of the
sessions that are compared.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from tests.fuzzing.cases import Case
from tests.fuzzing.runners import run_numpy, run_onnxruntime

__all__ = ["padding_written_out", "sizes_by_shapes", "spreads_both_ways"]

_ONE_SIDED = {"PRelu": (0, 1)}
"""Operators whose second operand is broadcast to the first, but never the other way; where the two are."""


def spreads_both_ways(case: Case, run: int, refusal: str) -> bool:
    """Whether a refusal names an operator that broadcasts to one side only, and the case has operands that do not fit.

    onnxruntime and the reference enlarge the first operand, too, which the specification rules out. Sizes that differ
    from run to run make such operands of valid ones.

    Args:
        case: The case.
        run: Which of its feeds was refused.
        refusal: What the provider said.
    """
    nodes = [one for one in case.model.graph.node if not one.domain and one.op_type in _ONE_SIDED]
    return any(
        f"operator {node.op_type}" in refusal and f"'{node.output[0]}'" in refusal and _enlarges(case, run, node)
        for node in nodes
    )


def _enlarges(case: Case, run: int, node: onnx.NodeProto) -> bool:
    names = [node.input[place] for place in _ONE_SIDED[node.op_type]]
    shown = onnx.ModelProto()
    shown.CopyFrom(case.model)
    del shown.graph.output[:]
    shown.graph.node.extend(
        [helper.make_node("Identity", [name], [f"{name}_operand"]) for name in dict.fromkeys(names)]
    )
    operands = [f"{name}_operand" for name in dict.fromkeys(names)]
    shown.graph.output.extend([helper.make_empty_tensor_value_info(name) for name in operands])
    (ran,) = run_onnxruntime(replace(case, model=shown, feeds=[case.feeds[run]]))
    if ran.outputs is None:
        return False
    found = dict(zip(operands, ran.outputs, strict=True))
    target, spread = (np.shape(found[f"{name}_operand"]) for name in names)
    try:
        return bool(np.broadcast_shapes(target, spread) != target)
    except ValueError:
        return False


def sizes_by_shapes(case: Case) -> Case:
    """The case with each Size as the product of a Shape, as ONNX defines it.

    onnxruntime at its default level does not run nodes that only a Shape reads. It has no such rule for Size.
    """
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    del made.graph.node[:]
    for node in case.model.graph.node:
        if node.op_type == "Size" and not node.domain:
            shape = f"{node.output[0]}_shape"
            made.graph.node.append(helper.make_node("Shape", [node.input[0]], [shape]))
            made.graph.node.append(helper.make_node("ReduceProd", [shape], [node.output[0]], keepdims=0))
        else:
            made.graph.node.append(node)
    return replace(case, model=made)


def padding_written_out(case: Case, run: int) -> Case | None:
    """The case with `pads` in place of SAME_UPPER and SAME_LOWER, where the windows are too small for their strides.

    The formula of the specification gives a negative padding for them, and the specification allows none below 0.
    onnxruntime refuses it in some kernels, takes it for cropping in others, and for 0 in SAME_LOWER of a Conv. What
    has the padding of 0 that both allow must agree.

    Args:
        case: The case.
        run: Which of its feeds is looked at: the padding depends on their sizes.

    Returns:
        The case of this run alone; None if no window is too small.
    """
    nodes = [
        one
        for one in case.model.graph.node
        if any(a.name == "auto_pad" and a.s.startswith(b"SAME") for a in one.attribute)
        and one.op_type != "ConvTranspose"
    ]
    names = list(dict.fromkeys(name for node in nodes for name in node.input[:2]))
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    del made.graph.output[:]
    made.graph.node.extend([helper.make_node("Identity", [name], [f"{name}_operand"]) for name in names])
    made.graph.output.extend([helper.make_empty_tensor_value_info(f"{name}_operand") for name in names])
    shown = replace(case, model=made, feeds=[case.feeds[run]])
    operands = run_numpy(shown).outcomes[0].outputs if names else None
    if operands is None:
        return None
    shapes = {name: np.shape(operand)[2:] for name, operand in zip(names, operands, strict=True)}
    written, cropped = onnx.ModelProto(), False
    written.CopyFrom(case.model)
    for node in written.graph.node:
        if node not in nodes:
            continue
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        size = np.array(shapes[node.input[0]])
        kernel = np.array(given.get("kernel_shape") or shapes[node.input[1]])
        strides, dilations = (np.array(given.get(name) or [1] * len(size)) for name in ("strides", "dilations"))
        total = (-(-size // strides) - 1) * strides + (kernel - 1) * dilations + 1 - size
        small, large = np.maximum(total, 0) // 2, -(-np.maximum(total, 0) // 2)
        before, after = (small, large) if given["auto_pad"] == b"SAME_UPPER" else (large, small)
        cropped = cropped or bool((total < 0).any())
        kept = [a for a in node.attribute if a.name not in ("auto_pad", "pads")]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("pads", [int(one) for one in (*before, *after)])])
    return replace(case, model=written, feeds=[case.feeds[run]]) if cropped else None
