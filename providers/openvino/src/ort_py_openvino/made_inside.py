"""Values inside of a region that may be not-a-number though its inputs are finite, and a flag that tells in each run.

Log, Sqrt, Div and their kin make not-a-number and infinities out of numbers. Where the same region loses them again
(see `not_finite`), no output shows that they were there. So the region's model gets one more output: a number that is
not 0 where one of these values is not finite. It costs a pass over these values.

Results of Div are looked at in every region: OpenVINO multiplies by the reciprocal, which is infinite for divisors that
are so small that they are no normal numbers, while the quotient may be any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec
from ort_py.dtypes import DataType
from ort_py.errors import EPFail
from ort_py_openvino.elements import module_once
from ort_py_openvino.graph_walk import is_nonnegative, is_positive
from ort_py_openvino.not_finite import Looks, has

__all__ = ["add_flag", "made_inside"]

_REAL = frozenset({DataType.BFLOAT16, DataType.DOUBLE, DataType.FLOAT, DataType.FLOAT16})
"""Types that have not-a-number."""


def made_inside(region: GraphView, looks: Looks) -> list[str]:
    """Names of the values to look at: where the region loses nothing, those of Div.

    Args:
        region: The region.
        looks: What its instances look for.
    """
    nodes = [node for node in region.nodes if looks.inside or node.op_type == "Div"]
    infinite = any(_reads_not_finite(node, region) for node in nodes)
    makers = [node for node in nodes if _makes(node, region, infinities=looks.changed, infinite=infinite)]
    return [node.outputs[0].name for node in makers if node.outputs[0] is not None]


def add_flag(model: Any, names: Sequence[str]) -> None:
    """Give a model one more output: the largest number is not 0 where one of some values is not finite.

    Args:
        model: OpenVINO's model; changed.
        names: The values.

    Raises:
        EPFail: The model does not have one of them.
    """
    openvino = module_once()
    operations = openvino.opset13
    # A result has the names of what it returns, and nothing may read it.
    makers = [one for one in model.get_ops() if one.get_type_name() != "Result"]
    found = {name: output for one in makers for output in one.outputs() for name in output.get_names()}
    flags = []
    for name in names:
        value = found.get(name)
        if value is None:
            raise EPFail(f"OpenVINO's model does not have the value '{name}'.", fix="run it with another provider")
        difference = operations.subtract(value, value)  # 0, or not-a-number, also of infinities
        flag = operations.convert(operations.is_nan(difference), "f32")
        axes = operations.constant(np.arange(value.get_partial_shape().rank.get_length(), dtype=np.int64))
        flags.append(operations.reduce_max(flag, axes, False))
    total = flags[0]
    for flag in flags[1:]:
        total = operations.maximum(total, flag)
    model.add_results([operations.result(total)])


def _reads_not_finite(node: NodeSpec, region: GraphView) -> bool:
    constants = (region.constant(value.name) for value in node.inputs if value is not None)
    return any(constant is not None and has(constant, infinities=True) for constant in constants)


def _makes(node: NodeSpec, graph: GraphView, *, infinities: bool, infinite: bool) -> bool:
    """Return whether a node may make not-a-number, or infinities, out of finite numbers.

    Args:
        node: The node.
        graph: The region.
        infinities: Whether a result of Exp that overflows counts, too.
        infinite: Whether constants of the region, weights included, are infinite or not-a-number.
    """
    result = node.outputs[0]
    if node.domain or node.body is not None or result is None or result.data_type not in _REAL:
        return False
    names = [value.name for value in node.inputs if value is not None]
    constants = [graph.constant(name) for name in names]
    if node.attributes.get("epsilon", 1.0) == 0 or (infinite and _reads_not_finite(node, graph)):
        return True
    match node.op_type:
        case "Log":
            return not is_positive(names[0], graph)
        case "Sqrt":
            return not is_nonnegative(names[0], graph)
        case "Div" | "Mod":
            divisor = constants[1]
            return not is_positive(names[1], graph) and not (divisor is not None and bool((divisor != 0).all()))
        case "Pow":
            exponent = constants[1]
            whole = exponent is not None and bool(((exponent % 1 == 0) & (exponent >= 0)).all())
            return not whole and not is_positive(names[0], graph)
        case "BatchNormalization":
            variance = constants[4]
            return variance is None or bool((variance < 0).any())
        case "Acos" | "Asin" | "Acosh" | "Atanh" | "Reciprocal" | "ReduceLogSum":
            return True
        case "Softmax" | "LogSoftmax":
            return infinite
    return node.op_type == "Exp" and infinities
