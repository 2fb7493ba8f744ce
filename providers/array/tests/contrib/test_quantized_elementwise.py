"""QLinearAdd and QLinearMul: the integers of onnxruntime and of a float64 formula."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import run
from ..runtime_oracle import runtime_outputs
from .near_ties import DOMAIN, agree_but_for_ties, assert_quantized, number, on_device, random_eight

TYPES = [np.uint8, np.int8]
PARAMETERS = (1, 2, 4, 5, 6, 7)

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), ()),
    ((5,), ()),
    ((), (3, 4)),
    ((3, 4), (3, 4)),
    ((2, 1, 4), (3, 1)),
    ((0, 4), (1, 4)),
    ((1, 70, 50, 20), (70, 1, 1)),
    ((70_000,), (70_000,)),
    ((70_000,), (1,)),
    ((3, 30_000), (3, 1)),
    ((1, 1), (300, 300)),
]


def given_inputs(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    dtype: Any,
    scales: Any = (0.031, 0.017, 0.043),
    zeros: Any = (3, 7, 5),
) -> list[Any]:
    """A, its scale and zero point, B, its scale and zero point, C's scale and zero point."""
    a, b = random_eight(shapes[0], dtype), random_eight(shapes[1], dtype, 1)
    (sa, sb, sc), (za, zb, zc) = map(number, scales), (number(zero, dtype) for zero in zeros)
    return [a, sa, za, b, sb, zb, sc, zc]


def exact(op_type: str, inputs: list[Any]) -> Any:
    """The formula in float64, before it is rounded."""
    a, sa, za, b, sb, zb, sc, zc = (np.asarray(0 if x is None else x, np.float64) for x in inputs)
    left, right = (a - za) * sa, (b - zb) * sb
    return (left + right if op_type == "QLinearAdd" else left * right) / sc + zc


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_equals_onnxruntime(op_type: str, shapes: Any, dtype: Any) -> None:
    """Scalars, broadcasting either way, nothing at all, and more than one block."""
    inputs = given_inputs(shapes, dtype)
    agree_but_for_ties(op_type, inputs, exact(op_type, inputs))


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_parameters_known_at_planning_change_nothing(op_type: str) -> None:
    """The same integers, also where only some are known."""
    inputs = given_inputs(((4, 9), (9,)), np.int8)
    (fed,) = run(op_type, inputs, domain=DOMAIN, opset=1)
    for known in (PARAMETERS, PARAMETERS[:3]):
        (planned,) = run(op_type, inputs, domain=DOMAIN, opset=1, constants=known)
        np.testing.assert_array_equal(planned, fed)


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_absent_zero_points_are_zero(op_type: str) -> None:
    """All three, the last by ending the list of inputs. (onnxruntime refuses them, against its own schema.)"""
    inputs = given_inputs(((6, 7), (7,)), np.uint8)
    inputs[2] = inputs[5] = None
    for known in ((), (1, 4, 6)):
        (y,) = run(op_type, inputs[:7], domain=DOMAIN, opset=1, constants=known)
        assert_quantized(y, exact(op_type, [*inputs[:7], None]), np.uint8)


def test_equal_scales_round_the_sum_with_its_zero_point() -> None:
    """Half steps are exact here: (1 + 0) / 2 + 1 is rounded to 2, not 0 + 1."""
    a, zero, one = np.array([1, 3, 5], np.uint8), number(0, np.uint8), number(1, np.uint8)
    inputs = [a, number(0.5), zero, a * 0, number(0.5), zero, number(1.0), one]
    (y,) = run("QLinearAdd", inputs, domain=DOMAIN, opset=1)
    assert y.tolist() == [2, 2, 4]
    np.testing.assert_array_equal(runtime_outputs("QLinearAdd", inputs, opset=1, domain=DOMAIN)[0], y)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(TYPES),
    shapes=st.sampled_from(SHAPES[:6]),
    scales=st.tuples(*[st.floats(2.0**-10, 1.0, width=32)] * 3),
    zeros=st.tuples(*[st.integers(0, 127)] * 3),
    op_type=st.sampled_from(["QLinearAdd", "QLinearMul"]),
)
def test_any_scales_and_zero_points(dtype: Any, shapes: Any, scales: Any, zeros: Any, op_type: str) -> None:
    """Saturating at both ends or not."""
    inputs = given_inputs(shapes, dtype, scales, zeros)
    agree_but_for_ties(op_type, inputs, exact(op_type, inputs))


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_a_tiny_scale_saturates(op_type: str) -> None:
    """Values beyond int32, which onnxruntime turns into the least value, saturate on their own side."""
    inputs = given_inputs(((500,), (500,)), np.int8, scales=(1.0, 1.0, 1e-30))
    (y,) = run(op_type, inputs, domain=DOMAIN, opset=1)
    assert_quantized(y, exact(op_type, inputs), np.int8)
    assert {-128, 127} <= set(y.tolist())


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_on_another_array_module(op_type: str) -> None:
    """Nothing of NumPy's own is used."""
    on_device(op_type, given_inputs(((3, 4), (4,)), np.int8))
    on_device(op_type, given_inputs(((), ()), np.uint8), constants=PARAMETERS)


@pytest.mark.parametrize("index", [1, 7])
def test_several_scales_are_refused(index: int) -> None:
    """With the input and its shape."""
    inputs = given_inputs(((3,), (3,)), np.uint8)
    inputs[index] = np.repeat(inputs[index], 3)
    with pytest.raises(
        InvalidArgument, match=re.escape(f"Input {index} ('x{index}') has shape [3]; QLinearAdd knows one")
    ):
        run("QLinearAdd", inputs, domain=DOMAIN, opset=1)


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("Shapes (3,) and (4,) cannot be broadcast together")):
        run("QLinearMul", given_inputs(((3,), (4,)), np.uint8), domain=DOMAIN, opset=1)
