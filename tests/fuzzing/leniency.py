"""Results of onnxruntime and the reference beyond the specification, and those that onnxruntime writes otherwise.

A rule of this file excuses a difference only if the case itself shows the cause: operands of a named operator that the
specification does not let broadcast, or an operator that is defined by two others. This file knows nothing of the
sessions that are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper

from tests.fuzzing.cases import Case
from tests.fuzzing.runners import run_numpy, run_onnxruntime

__all__ = ["forgives", "padding_written_out", "sizes_by_shapes"]


def forgives(case: Case, run: int, refusal: str) -> bool:
    """Whether a refusal names an operator whose operands the specification rules out, and the case has such operands.

    onnxruntime and the reference also enlarge the first operand of an operator that broadcasts to one side only, and
    give half of the spectrum of a complex signal. Sizes that differ from run to run make such operands of valid ones.

    Args:
        case: The case.
        run: Which of its feeds was refused.
        refusal: What the provider said.
    """
    for node in case.model.graph.node:
        rule = _FORGIVEN.get(node.op_type) if not node.domain else None
        if (
            rule
            and f"operator {node.op_type}" in refusal
            and f"'{node.output[0]}'" in refusal
            and rule(case, run, node)
        ):
            return True
    return False


def _enlarges(case: Case, run: int, node: onnx.NodeProto) -> bool:
    """Whether the second operand is larger along some axis than the first, to which it is broadcast."""
    shapes = _shapes(case, run, node.input[:2])
    try:
        return shapes is not None and np.broadcast_shapes(*shapes) != shapes[0]
    except ValueError:
        return False


def _halves(case: Case, run: int, node: onnx.NodeProto) -> bool:
    """Whether half of the spectrum of a complex signal is asked for, of which the other half does not follow."""
    given = {"onesided": int(node.op_type == "STFT"), "inverse": 0} | {one.name: one.i for one in node.attribute}
    shapes = _shapes(case, run, node.input[:1])
    return bool(given["onesided"]) and not given["inverse"] and shapes is not None and shapes[0][-1:] == (2,)


_FORGIVEN = {"DFT": _halves, "PRelu": _enlarges, "STFT": _halves}


def _shapes(case: Case, run: int, names: Sequence[str]) -> list[tuple[int, ...]] | None:
    """Shapes of values in a run, as onnxruntime has them; None where it refuses."""
    shown = onnx.ModelProto()
    shown.CopyFrom(case.model)
    del shown.graph.output[:]
    for place, name in enumerate(names):
        shown.graph.node.append(helper.make_node("Identity", [name], [f"{name}_operand_{place}"]))
        shown.graph.output.append(helper.make_empty_tensor_value_info(f"{name}_operand_{place}"))
    (ran,) = run_onnxruntime(replace(case, model=shown, feeds=[case.feeds[run]]))
    return None if ran.outputs is None else [np.shape(one) for one in ran.outputs]


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
    """The case with `pads` in place of SAME_UPPER and SAME_LOWER, where other runtimes have formulas of their own.

    The formula of the specification gives a negative padding for windows that are smaller than their strides, and the
    specification allows none below 0. onnxruntime refuses it in some kernels, takes it for cropping in others, and for
    0 in SAME_LOWER of a Conv. Pools of onnxruntime and of the reference leave dilations out of the formula. A
    ConvTranspose gets what its windows leave out as output padding; onnxruntime gives a result of another size, and the
    reference shifts it. With the padding of the specification, 0 or more, all must agree.

    Args:
        case: The case.
        run: Which of its feeds is looked at: the padding depends on their sizes.

    Returns:
        The case of this run alone; None if the formulas agree.
    """
    nodes = [
        one
        for one in case.model.graph.node
        if any(a.name == "auto_pad" and a.s.startswith(b"SAME") for a in one.attribute)
        and not any(a.name == "output_shape" for a in one.attribute)
    ]
    names = list(dict.fromkeys(name for node in nodes for name in node.input[:2]))
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    del made.graph.output[:]
    made.graph.node.extend([helper.make_node("Identity", [name], [f"{name}_operand"]) for name in names])
    made.graph.output.extend([helper.make_empty_tensor_value_info(f"{name}_operand") for name in names])
    shown = replace(case, model=made, feeds=[case.feeds[run]])
    operands = run_numpy(shown).outcomes[0].outputs if names else None
    if operands is None and names:  # NumPy refuses what follows
        operands = run_onnxruntime(shown)[0].outputs
    if operands is None:
        return None
    shapes = {name: np.shape(operand)[2:] for name, operand in zip(names, operands, strict=True)}
    written, differs = onnx.ModelProto(), False
    written.CopyFrom(case.model)
    for node in written.graph.node:
        if node not in nodes:
            continue
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        size = np.array(shapes[node.input[0]])
        kernel = np.array(given.get("kernel_shape") or shapes[node.input[1]])
        strides, dilations = (np.array(given.get(name) or [1] * len(size)) for name in ("strides", "dilations"))
        span = (kernel - 1) * dilations + 1
        more = []
        if node.op_type == "ConvTranspose":
            extra = np.array(given.get("output_padding") or [0] * len(size))
            total = span + extra - strides
            more = [helper.make_attribute("output_padding", [int(one) for one in extra - np.minimum(total, 0)])]
        else:
            total = (-(-size // strides) - 1) * strides + span - size
        small, large = np.maximum(total, 0) // 2, -(-np.maximum(total, 0) // 2)
        before, after = (small, large) if given["auto_pad"] == b"SAME_UPPER" else (large, small)
        differs = differs or bool((total < 0).any()) or (node.op_type.endswith("Pool") and bool((dilations > 1).any()))
        kept = [a for a in node.attribute if a.name not in ("auto_pad", "output_padding", "pads")]
        del node.attribute[:]
        node.attribute.extend([*kept, *more, helper.make_attribute("pads", [int(one) for one in (*before, *after)])])
    return replace(case, model=written, feeds=[case.feeds[run]]) if differs else None
