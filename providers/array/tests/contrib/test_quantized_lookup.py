"""QLinearSigmoid, QLinearLeakyRelu, QLinearWhere and QLinearConcat: every one of 256 values, against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import run
from ..runtime_oracle import agree_with_runtime
from .near_ties import DOMAIN, agree_but_for_ties, number, on_device, random_eight

TYPES = [np.uint8, np.int8]
KNOWN = (1, 2, 3, 4)


def every_value(dtype: Any) -> Any:
    """All 256 of them."""
    return np.arange(256, dtype=np.uint8).view(dtype).reshape(2, 128)


@pytest.mark.parametrize("constants", [(), KNOWN], ids=["fed", "constant"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("x_scale", [0.05, 0.5, 40.0])
def test_sigmoid(x_scale: float, dtype: Any, constants: tuple[int, ...]) -> None:
    """Steep or flat; the logistic function of onnxruntime is an approximation, so ties may go either way."""
    x, zero = every_value(dtype), number(4, dtype)
    exact = 1 / (1 + np.exp(-(x.astype(np.float64) - 4) * np.float32(x_scale))) / np.float32(1 / 256)
    exact = exact - 128 if dtype is np.int8 else exact
    y_zero = number(-128 if dtype is np.int8 else 0, dtype)
    inputs = [x, number(x_scale), zero, number(1 / 256), y_zero]
    agree_but_for_ties("QLinearSigmoid", inputs, exact, constants=constants)


@pytest.mark.parametrize("constants", [(), KNOWN], ids=["fed", "constant"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("attributes", [{}, {"alpha": 0.3}, {"alpha": -2.0}])
def test_leaky_relu(attributes: dict[str, Any], dtype: Any, constants: tuple[int, ...]) -> None:
    inputs = [every_value(dtype), number(0.031), number(17, dtype), number(0.043), number(9, dtype)]
    agree_with_runtime("QLinearLeakyRelu", inputs, opset=1, domain=DOMAIN, constants=constants, **attributes)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("op_type", ["QLinearSigmoid", "QLinearLeakyRelu"])
def test_absent_zero_points_are_zero(op_type: str, dtype: Any) -> None:
    """They may have either type and be known at planning or not. (onnxruntime ends the process when the last one is
    missing.)
    """
    x, zero = every_value(dtype), number(0, dtype)
    (wanted,) = run(op_type, [x, number(0.1), zero, number(0.02), zero], domain=DOMAIN, opset=1)
    for constants in ((), (1, 3)):
        (y,) = run(op_type, [x, number(0.1), None, number(0.02)], domain=DOMAIN, opset=1, constants=constants)
        np.testing.assert_array_equal(y, wanted)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(TYPES),
    shape=st.lists(st.integers(0, 4), max_size=4),
    scales=st.tuples(*[st.floats(2.0**-20, 8.0, width=32)] * 2),
    zeros=st.tuples(*[st.integers(0, 127)] * 2),
)
def test_leaky_relu_of_any_shape(dtype: Any, shape: list[int], scales: Any, zeros: Any) -> None:
    x = random_eight(shape, dtype)
    inputs = [x, number(scales[0]), number(zeros[0], dtype), number(scales[1]), number(zeros[1], dtype)]
    agree_with_runtime("QLinearLeakyRelu", inputs, opset=1, domain=DOMAIN)


def test_large_tensors_are_looked_up_in_blocks() -> None:
    """More than one block, the last not full."""
    inputs = [random_eight((3, 33_333), np.int8), number(0.1), number(1, np.int8), number(0.02), number(2, np.int8)]
    agree_with_runtime("QLinearLeakyRelu", inputs, opset=1, domain=DOMAIN, constants=KNOWN)


def where_inputs(dtype: Any, condition: Any, x: Any, y: Any, scales: Any = (0.02, 0.03, 0.04)) -> list[Any]:
    """condition, X, Y and Z with scales and zero points."""
    sx, sy, sz = map(number, scales)
    zx, zy, zz = (number(value, dtype) for value in (3, 5, 3))
    return [condition, x, sx, zx, y, sy, zy, sz, zz]


@pytest.mark.parametrize("constants", [(), (2, 3, 5, 6, 7, 8), (2, 3, 7, 8)], ids=["fed", "constant", "only X"])
@pytest.mark.parametrize("scales", [(0.02, 0.03, 0.04), (0.04, 0.04, 0.04)], ids=str)
@pytest.mark.parametrize("dtype", TYPES)
def test_where(dtype: Any, scales: Any, constants: tuple[int, ...]) -> None:
    """Broadcasting three ways; X has Z's quantisation in one case, and is copied."""
    condition = np.random.default_rng(3).random((2, 1, 5)) < 0.5
    x, y = random_eight((4, 1), dtype), random_eight((5,), dtype, 1)
    inputs = where_inputs(dtype, condition, x, y, scales)
    agree_with_runtime("QLinearWhere", inputs, opset=1, domain=DOMAIN, constants=constants)


@pytest.mark.parametrize("constants", [(), range(11)], ids=["fed", "constant"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(axis: int, dtype: Any, constants: Any) -> None:
    """Three tensors, one of which has the output's quantisation and one of which is empty."""
    shapes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    shapes[1][axis], shapes[2][axis] = 5, 0
    zero = number(3, dtype)
    inputs = [number(0.04), zero]
    for i, (shape, scale) in enumerate(zip(shapes, (0.04, 0.1, 0.001), strict=True)):
        inputs += [random_eight(shape, dtype, i), number(scale), zero]
    agree_with_runtime("QLinearConcat", inputs, opset=1, domain=DOMAIN, constants=list(constants), axis=axis)


def test_a_single_tensor_is_copied() -> None:
    """The result is never the input itself, even where nothing changes."""
    x, zero = random_eight((2, 3), np.uint8), number(3, np.uint8)
    inputs = [number(0.04), zero, x, number(0.04), zero]
    (y,) = run("QLinearConcat", inputs, domain=DOMAIN, opset=1, constants=(0, 1, 3, 4), axis=0)
    assert not np.shares_memory(x, y)
    np.testing.assert_array_equal(x, y)


def test_on_another_array_module() -> None:
    """Nothing of NumPy's own is used."""
    zero, scale = number(3, np.int8), number(0.04)
    x = random_eight((2, 3), np.int8)
    on_device("QLinearSigmoid", [x, scale, zero, scale, zero])
    on_device("QLinearSigmoid", [x, scale, zero, scale, zero], constants=KNOWN)
    on_device("QLinearLeakyRelu", [x, scale, zero, scale, zero])
    on_device("QLinearWhere", where_inputs(np.int8, x > 0, x, x[:1]))
    for constants in ((), (0, 1, 3, 4)):
        on_device("QLinearConcat", [scale, zero, x, scale, zero, x, scale, zero], constants=constants, axis=1)


def test_inputs_that_do_not_come_in_threes_are_refused() -> None:
    """A tensor without its zero point."""
    scale, zero, x = number(0.1), number(0, np.uint8), np.zeros((2, 2), np.uint8)
    with pytest.raises(InvalidArgument, match="QLinearConcat has 2 inputs after the output's scale and zero point"):
        run("QLinearConcat", [scale, zero, x, scale], domain=DOMAIN, opset=1, axis=0)


@pytest.mark.parametrize(
    ("shape", "axis", "text"), [((3, 3), 1, "along axis 1"), ((2,), 0, "along axis 0"), ((2, 2), 2, "Axis 2")]
)
def test_shapes_that_do_not_concatenate_are_refused(shape: tuple[int, ...], axis: int, text: str) -> None:
    """Other sizes or ranks, and an axis that does not exist."""
    scale, zero = number(0.1), number(0, np.uint8)
    inputs = [scale, zero, np.zeros((2, 2), np.uint8), scale, zero, np.zeros(shape, np.uint8), scale, zero]
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("QLinearConcat", inputs, domain=DOMAIN, opset=1, axis=axis)


def test_mixed_types_are_refused() -> None:
    """A schema that allows both for each input does not see it."""
    scale, zero, x = number(0.1), number(0, np.uint8), np.zeros((2, 2), np.int8)
    with pytest.raises(InvalidArgument, match="Zero points of types int8, uint8 meet values of type int8"):
        run("QLinearConcat", [scale, zero, x, scale, number(0, np.int8)], domain=DOMAIN, opset=1, axis=0)


def test_several_scales_are_refused() -> None:
    """With the input and its shape."""
    zero = number(0, np.uint8)
    inputs = [np.zeros(4, np.uint8), np.ones(4, np.float32), zero, number(0.1), zero]
    with pytest.raises(InvalidArgument, match=re.escape("Input 1 ('x1') has shape [4]; QLinearSigmoid knows one")):
        run("QLinearSigmoid", inputs, domain=DOMAIN, opset=1)
