"""Known types and shapes of the results of 8-bit operators before a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.dtypes import DataType, Shape, TensorType, data_type_of
from ort_py_array.contrib.schemas import schemas
from ort_py_kit.kernel_runner import make_node_spec

from ...oracle import run, sample

SCHEMAS = {schema.op_type: schema for schema in schemas() if schema.domain == "com.microsoft"}

S8, F32 = np.zeros((), np.int8), np.zeros((), np.float32)


def eight(*shape: int) -> Any:
    """An int8 tensor."""
    return np.ones(shape, np.int8)


CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("QuantizeLinear", [sample((2, 3), np.float32), F32 + 1], {}),
    ("QuantizeLinear", [sample((2, 3), np.float32), F32 + 1, np.zeros((), np.int16)], {}),
    ("DequantizeLinear", [eight(2, 3), np.ones((), np.float16)], {}),
    ("DynamicQuantizeMatMul", [sample((5, 2, 3), np.float32), eight(3, 4), F32], {}),
    ("MatMulIntegerToFloat", [eight(2, 3), eight(5, 3, 4), F32, F32], {}),
    ("QGemm", [eight(2, 3), F32, S8, eight(4, 3), F32, S8], {"transB": 1}),
    ("QGemm", [eight(3, 2), F32, S8, eight(3, 4), F32, S8, None, F32 + 1, S8], {"transA": 1}),
    ("QLinearConv", [eight(1, 3, 7, 6), F32, S8, eight(4, 3, 3, 3), F32, S8, F32 + 1, S8], {"pads": (1, 0, 1, 0)}),
    ("QLinearConv", [eight(1, 7, 6, 3), F32, S8, eight(4, 3, 3, 3), F32, S8, F32 + 1, S8], {"channels_last": 1}),
    ("QLinearAveragePool", [eight(1, 3, 7, 6), F32, S8, F32 + 1, S8], {"kernel_shape": (3, 3), "strides": (2, 2)}),
    ("QLinearGlobalAveragePool", [eight(2, 3, 7, 6), F32, S8, F32 + 1, S8], {}),
    ("QLinearGlobalAveragePool", [eight(2, 3, 7, 6), F32, S8, F32 + 1, S8], {"channels_last": 1}),
    ("NhwcMaxPool", [eight(2, 7, 6, 3)], {"kernel_shape": (3, 3), "ceil_mode": 1, "strides": (2, 2)}),
    ("QLinearAdd", [eight(2, 1), F32, S8, eight(3), F32, S8, F32 + 1, S8], {}),
    ("QLinearConcat", [F32 + 1, S8, eight(2, 3), F32, S8, eight(2, 5), F32, S8], {"axis": -1}),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes"), CASES, ids=[case[0] for case in CASES])
def test_the_result_is_what_was_inferred(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    node = make_node_spec(op_type, inputs, domain="com.microsoft", attributes=attributes)
    infer = SCHEMAS[op_type].infer
    assert infer is not None
    (inferred,) = infer(node)
    (y,) = run(op_type, inputs, domain="com.microsoft", opset=1, **attributes)
    assert isinstance(inferred, TensorType)
    assert (inferred.data_type, inferred.shape) == (data_type_of(y.dtype), y.shape)


def symbolic(op_type: str, shapes: Sequence[Shape | None], **attributes: Any) -> list[Any]:
    """Shapes inferred from shapes with names in them."""
    values = tuple(ValueSpec(f"x{i}", TensorType(DataType.INT8, shape)) for i, shape in enumerate(shapes))
    node = NodeSpec(
        index=0,
        name="n",
        op_type=op_type,
        domain="com.microsoft",
        since_version=1,
        inputs=values,
        outputs=(ValueSpec("y"),),
        attributes=attributes,
    )
    infer = SCHEMAS[op_type].infer
    assert infer is not None
    return [found.shape for found in infer(node) if isinstance(found, TensorType)]


def test_names_are_carried_along() -> None:
    """A batch of unknown size; an axis of unknown size has an unknown result."""
    assert symbolic("NhwcMaxPool", [("n", 5, 5, 3)], kernel_shape=(2, 2)) == [("n", 4, 4, 3)]
    assert symbolic("NhwcMaxPool", [("n", "h", 5, 3)], kernel_shape=(2, 2)) == [("n", None, None, 3)]
    assert symbolic("QLinearConv", [("n", 3, 5), (), (), (4, 3, 2), (), (), (), ()]) == [("n", 4, 4)]
    assert symbolic("QLinearConcat", [(), (), ("n", 3), (), (), (2, 4), (), ()], axis=1) == [("n", 7)]
    assert symbolic("QLinearConcat", [(), (), ("n", 3), (), (), (2, "k"), (), ()], axis=1) == [("n", None)]


def test_what_cannot_be_said_is_left_open() -> None:
    """Unknown ranks, and windows that do not fit: the kernel says what is wrong."""
    assert symbolic("NhwcMaxPool", [None], kernel_shape=(2, 2)) == [None]
    assert symbolic("NhwcMaxPool", [(1, 2, 2, 3)], kernel_shape=(3, 3)) == [(1, None, None, 3)]
    assert symbolic("QGemm", [(2, 3), (), (), None, (), ()]) == [None]
    assert symbolic("QLinearGlobalAveragePool", [None, (), (), (), ()]) == [None]
    assert symbolic("QLinearConcat", [(), (), None, (), ()], axis=1) == [None]
    assert symbolic("QLinearConcat", [(), (), (2,), (), ()], axis=1) == [None]
