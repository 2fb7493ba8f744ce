"""Element types side by side with onnxruntime: which go in and come out, which operators compute with, and rounding."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ort_py
from tests.drop_in.both_runtimes import OURS, THEIRS, Case, expect_agreement, expect_difference

CPU = ["CPUExecutionProvider"]
NUMBERS = np.array([1, 2, 4], np.float32)

LOW: dict[str, Any] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8e8m0": ml_dtypes.float8_e8m0fnu,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
    "int2": ml_dtypes.int2,
    "uint2": ml_dtypes.uint2,
}
"""Types that NumPy lacks, as ml_dtypes has them."""

REAL = sorted(set(LOW) - {"int2", "uint2", "int4", "uint4"})


def number_of(name: str) -> int:
    return int(getattr(TensorProto, name.upper()))


def opened(
    runtime: Any, nodes: list[onnx.NodeProto], inputs: str, output: str, options: Any = None, *, opset: int = 25
) -> Any:
    """A session of some nodes from `a` and `b`, of one type each, to `y`."""
    names = "ab"[: len(inputs.split())]
    given = [
        helper.make_tensor_value_info(name, number_of(kind), ["N"])
        for name, kind in zip(names, inputs.split(), strict=True)
    ]
    graph = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("y", number_of(output), ["N"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=12)
    return runtime.InferenceSession(model.SerializeToString(), options, providers=CPU)


def passed_on(runtime: Any, kind: str, value: Any) -> Any:
    return opened(runtime, [helper.make_node("Identity", ["a"], ["y"])], kind, kind).run(None, {"a": value})


def cast_to(runtime: Any, kind: str) -> Any:
    node = helper.make_node("Cast", ["a"], ["y"], to=number_of(kind))
    return opened(runtime, [node], "float", kind).run(None, {"a": NUMBERS})


@pytest.mark.parametrize("name", sorted(LOW))
def test_types_numpy_lacks_go_in(name: str) -> None:
    """They are arrays of ml_dtypes, which onnxruntime refuses."""
    array = np.array([1, 0, 1] if name != "float8e8m0" else [1, 2, 4], LOW[name])
    expect_difference(lambda runtime: passed_on(runtime, name, array), [array])


@pytest.mark.parametrize("name", REAL)
def test_types_numpy_lacks_come_out(name: str) -> None:
    """They are arrays of ml_dtypes; onnxruntime gives bare bits for one of them and refuses the others."""
    expect_difference(lambda runtime: cast_to(runtime, name), [NUMBERS.astype(LOW[name])])


@pytest.mark.parametrize("bits", [np.uint8, np.int8, np.uint16, np.int16], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", sorted(LOW))
def test_bits_are_no_values(name: str, bits: Any) -> None:
    """An array of integers is refused for an input of one of these types, so that its meaning is never ambiguous."""
    case: Case = lambda runtime: passed_on(runtime, name, np.zeros(2, bits))  # noqa: E731 - as the tables have it
    with pytest.raises(ort_py.InvalidArgument, match=f"the model declares {name}"):
        case(OURS)
    with pytest.raises(Exception, match=r"INVALID_ARGUMENT|NOT_IMPLEMENTED"):
        case(THEIRS)


def packed_constant(runtime: Any) -> Any:
    """int4 weights into DequantizeLinear."""
    text = """<ir_version: 10, opset_import: ["": 21]>
        g (float[N] x) => (float[N] y) <float s = {0.5}> { d = DequantizeLinear(w, s) y = Add(x, d) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [4], [1, -8, 7, 0]))
    return runtime.InferenceSession(model.SerializeToString(), providers=CPU).run(None, {"x": np.zeros(4, np.float32)})


def test_packed_constants_are_read_alike() -> None:
    """Two elements a byte, low bits first."""
    expect_agreement(packed_constant)


# -- which operators compute with which types ----------------------------------------------------------------------

ONLY_HERE = [
    *(("Add", 2, "bfloat16"), ("MatMul", 2, "bfloat16"), ("Relu", 1, "bfloat16"), ("Tanh", 1, "bfloat16")),
    *(("Gelu", 1, "double"), ("Erf", 1, "double")),
]
"""Operators, how many inputs they have, and types that ONNX allows and onnxruntime's CPU provider has no kernel for."""

ON_BOTH = [("Sign", 1, "bfloat16"), ("Add", 2, "int16"), ("Add", 2, "uint8"), ("Exp", 1, "float16")]


def loaded(op_type: str, count: int, kind: str) -> Case:
    """A case that opens a model of one node, and gives the types it declares."""

    def case(runtime: Any) -> Any:
        node = helper.make_node(op_type, list("ab"[:count]), ["y"])
        found = opened(runtime, [node], " ".join([kind] * count), kind)
        return [argument.type for argument in (*found.get_inputs(), *found.get_outputs())]

    return case


@pytest.mark.parametrize(("op_type", "count", "kind"), ONLY_HERE)
def test_kernels_that_onnxruntime_lacks(op_type: str, count: int, kind: str) -> None:
    """Every operator computes with every type ONNX gives it, where onnxruntime has no implementation."""
    expect_difference(loaded(op_type, count, kind), [f"tensor({kind})"] * (count + 1))


@pytest.mark.parametrize(("op_type", "count", "kind"), ON_BOTH)
def test_kernels_of_both(op_type: str, count: int, kind: str) -> None:
    """Where onnxruntime has an implementation, the model loads on both."""
    expect_agreement(loaded(op_type, count, kind))


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_complex_values_are_passed_on(kind: str) -> None:
    """onnxruntime refuses a model that has any."""
    array = np.array([1 + 2j], kind)
    expect_difference(lambda runtime: passed_on(runtime, kind, array), [array])


# -- rounding ------------------------------------------------------------------------------------------------------

HALVES = np.random.default_rng(0).standard_normal(2000).astype(np.float16)


def multiplied(runtime: Any, *more: onnx.NodeProto) -> Any:
    product = helper.make_node("Mul", ["a", "a"], ["p" if more else "y"])
    return opened(runtime, [product, *more], "float16", "float16").run(None, {"a": HALVES})


def test_one_float16_operator_rounds_once() -> None:
    """A single operator gives the same numbers."""
    expect_agreement(multiplied)


def test_two_float16_operators_round_once() -> None:
    """Both compute a chain in float32 and round its end."""
    expect_agreement(lambda runtime: multiplied(runtime, helper.make_node("Add", ["p", "a"], ["y"])))


def test_each_float16_operator_rounds_where_nothing_is_optimised() -> None:
    """The specification requires this; onnxruntime rounds once at every level."""

    def plainly(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        nodes = [helper.make_node("Mul", ["a", "a"], ["p"]), helper.make_node("Add", ["p", "a"], ["y"])]
        return opened(runtime, nodes, "float16", "float16", options).run(None, {"a": HALVES})

    expect_difference(plainly, [HALVES * HALVES + HALVES])
