"""Known type and shape of a FusedConv's result before a run."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.dtypes import DataType, Shape, TensorType
from ort_py_array.contrib.schemas import schemas

(FUSED_CONV,) = (schema for schema in schemas() if schema.op_type == "FusedConv")


def _inferred(x: Shape | None, w: Shape | None, **attributes: Any) -> Shape | None:
    values = tuple(ValueSpec(name, TensorType(DataType.FLOAT, shape)) for name, shape in (("x", x), ("w", w)))
    node = NodeSpec(0, "n", "FusedConv", "com.microsoft", 1, values, (ValueSpec("y"),), attributes)
    assert FUSED_CONV.infer is not None
    (found,) = FUSED_CONV.infer(node)
    assert isinstance(found, TensorType)
    return found.shape


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": (1, 2, 3, 0)},
        {"strides": (2, 3)},
        {"dilations": (3, 1), "pads": (2, 2, 2, 2)},
        {"strides": (2, 1), "pads": (1, 1, 1, 1)},
    ],
)
def test_sizes_are_those_of_a_convolution(attributes: dict[str, Any]) -> None:
    """ONNX's own inference of Conv says the same."""
    x, w = (2, 4, 11, 9), (6, 4, 3, 2)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x), ("w", w))]
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (output,) = onnx.shape_inference.infer_shapes(model).graph.output
    assert _inferred(x, w, **attributes) == tuple(dim.dim_value for dim in output.type.tensor_type.shape.dim)


@pytest.mark.parametrize(
    ("x", "w", "attributes", "expected"),
    [
        (("N", 4, "T"), (6, 4, 3), {}, ("N", 6, None)),
        (None, (6, 4, 3, 3), {}, (None, 6, None, None)),
        (("N", 4, 9), (6, 4, 3), {"auto_pad": "SAME_UPPER"}, ("N", 6, None)),
        (("N", 4, 9), None, {}, None),
        (("N", 4, 9), (6, 4, 3, 3), {}, None),
    ],
)
def test_what_cannot_be_told_is_left_open(
    x: Shape | None, w: Shape | None, attributes: dict[str, Any], expected: Shape | None
) -> None:
    """The rank is the weight's even where nothing is known of the input."""
    assert _inferred(x, w, **attributes) == expected
