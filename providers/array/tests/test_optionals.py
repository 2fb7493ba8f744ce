"""Optionals at every version and with every kind of value: present values are returned, and absence is reported."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import ort_py
from ort_py.errors import InvalidArgument

from .backend_cases import cases, compare, run_case
from .oracle import BF16, run

OPERATORS = {"Optional", "OptionalGetElement", "OptionalHasElement"}
VALUES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.zeros((0, 2), np.int64),
    np.array(1, np.uint8),
    np.array(["a", ""], object),
    np.ones(2, BF16),
    np.ones(2, ml_dtypes.float8_e5m2),
    np.ones(2, np.complex64),
    [np.zeros(2), np.ones(3)],
    [],
]


@pytest.mark.parametrize("name", sorted(name for name, case in cases().items() if case.op_type in OPERATORS))
def test_backend_case(name: str) -> None:
    case = cases()[name]
    for left, right in zip(run_case(case), case.expected, strict=True):
        compare(left, right, case)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(getattr(value, "dtype", "sequence")))
@pytest.mark.parametrize("opset", [15, 18, 28])
def test_what_goes_in_comes_out(value: Any, opset: int) -> None:
    """The very same value, a tensor or a sequence; and it is there."""
    (wrapped,) = run("Optional", [value], opset=opset)
    assert wrapped is value
    (there,) = run("OptionalHasElement", [wrapped], opset=opset)
    assert (there.dtype, there.shape, bool(there)) == (np.bool_, (), True)
    assert run("OptionalGetElement", [wrapped], opset=opset)[0] is value


@pytest.mark.parametrize("opset", [15, 18, 28])
def test_an_empty_optional(opset: int) -> None:
    """It says what it could hold, holds nothing, and asking for that is an error that tells what to do."""
    assert run("Optional", [], opset=opset, type="tensor(float)") == [None]
    (there,) = run("OptionalHasElement", [None], opset=opset)
    assert (there.dtype, there.shape, bool(there)) == (np.bool_, (), False)
    with pytest.raises(InvalidArgument, match="The optional is empty") as caught:
        run("OptionalGetElement", [None], opset=opset)
    assert "OptionalHasElement" in str(caught.value)
    assert caught.value.location.op_type == "OptionalGetElement"


@pytest.mark.parametrize("opset", [18, 28])
def test_no_input_is_no_element(opset: int) -> None:
    """From 18 on the input may be absent altogether."""
    assert not run("OptionalHasElement", [], opset=opset)[0]


def test_an_optional_of_nothing_known_is_refused() -> None:
    """Neither an input nor a type."""
    with pytest.raises(InvalidArgument, match="does not say what it could hold"):
        run("Optional", [])


@pytest.mark.parametrize("opset", [15, 18, 21])
def test_through_a_session(opset: int) -> None:
    """A model that makes an optional, asks, and unwraps in a branch; the result is a copy of the feed."""
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    some = helper.make_node("Optional", ["x"], ["o"])
    none = helper.make_node("Optional", [], ["e"], type=tensor)
    there = helper.make_node("OptionalHasElement", ["o"], ["there"])
    gone = helper.make_node("OptionalHasElement", ["e"], ["gone"])
    result = helper.make_tensor_value_info("r", TensorProto.FLOAT, [2])
    other = helper.make_tensor_value_info("n", TensorProto.FLOAT, [2])
    branch = helper.make_node(
        "If",
        ["there"],
        ["y"],
        then_branch=helper.make_graph([helper.make_node("OptionalGetElement", ["o"], ["r"])], "t", [], [result]),
        else_branch=helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "e", [], [other]),
    )
    graph = helper.make_graph(
        [some, none, there, gone, branch],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("gone", TensorProto.BOOL, []),
            helper.make_value_info("o", helper.make_optional_type_proto(tensor)),
            helper.make_value_info("e", helper.make_optional_type_proto(tensor)),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    x = np.array([1, 2], np.float32)
    with ort_py.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]) as session:
        y, gone_, o, e = session.run(None, {"x": x})
    assert y.tolist() == o.tolist() == [1, 2]
    assert not np.shares_memory(y, x)
    assert not np.shares_memory(y, o)
    assert (bool(gone_), e) == (False, None)
