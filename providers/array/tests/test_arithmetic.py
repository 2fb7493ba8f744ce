"""Arithmetic: element types, broadcasting, C's integer division, Pow's mixed types, and any number of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_array.broadcasting import broadcast_shape

from .oracle import BF16, FLOATS, agree, bound, run, sample

_SHAPES = [((2, 3), (2, 3)), ((2, 1, 4), (3, 1)), ((), (3,)), ((), ()), ((0, 3), (1, 3))]


@pytest.mark.parametrize("opset", [7, 13, 14])
@pytest.mark.parametrize("shapes", _SHAPES, ids=str)
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
def test_binary_operators_broadcast(op_type: str, shapes: Any, opset: int) -> None:
    """The four operations agree with the reference for equal, broadcast, scalar and empty shapes."""
    agree(op_type, [sample(shapes[0], np.float32, 1), sample(shapes[1], np.float32, 2)], opset=opset)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.int32, np.int64, np.uint8, np.uint64], ids=str)
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Abs", "Min", "Max"])
def test_element_types(op_type: str, dtype: Any) -> None:
    """Each operator keeps the element type it is given."""
    kind = np.dtype(dtype).kind
    if op_type == "Neg" and kind == "u":
        pytest.skip("Neg has no unsigned types")
    if op_type == "Pow" and np.dtype(dtype) in (np.int8, np.uint8, np.uint64):
        pytest.skip("Pow has no such base types")
    x = sample((3, 4), dtype, 1, 1, 9)
    inputs = [x] if op_type in ("Neg", "Abs") else [x, sample((4,), dtype, 2, 1, 4)]
    attributes: dict[str, Any] = {"fmod": 1} if op_type == "Mod" and kind not in "iu" else {}
    agree(op_type, inputs, **attributes)


def test_integer_division_truncates_toward_zero() -> None:
    """-7 / 2 is -3, as in C and onnxruntime; the reference and NumPy's floor agree only for equal signs."""
    a, b = np.array([7, -7, 7, -7, 6], np.int32), np.array([2, 2, -2, -2, -3], np.int32)
    assert run("Div", [a, b])[0].tolist() == [3, -3, -3, 3, -2]
    assert run("Div", [a, b])[0].dtype == np.int32


@pytest.mark.parametrize("constants", [(), (1,)])
@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_integer_division_by_zero_is_refused(op_type: str, constants: Any) -> None:
    """A zero among integer divisors raises, fed or constant, and says where."""
    with pytest.raises(InvalidArgument, match=r"Integer division by zero\.\n  where: node 'D?M?\w+_under_test'"):
        run(op_type, [np.array([1, 2]), np.array([1, 0])], constants=constants)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int16, np.int64], ids=str)
@pytest.mark.parametrize("fmod", [0, 1])
def test_mod_signs(fmod: int, dtype: Any) -> None:
    """The result has the divisor's sign for fmod 0 and the dividend's for fmod 1, for integers and floats."""
    a, b = np.array([7, -7, 7, -7]).astype(dtype), np.array([4, 4, -4, -4]).astype(dtype)
    expected = [3, -3, 3, -3] if fmod else [3, 1, -1, -3]
    (result,) = run("Mod", [a, b], fmod=fmod, opset=28)
    assert result.astype(float).tolist() == expected
    assert result.dtype == np.dtype(dtype)


@pytest.mark.parametrize(("base", "exponent"), [("f4", "i8"), ("f4", "f8"), ("i4", "f4"), ("i8", "i4"), ("f2", "f4")])
def test_pow_has_the_type_of_its_base(base: str, exponent: str) -> None:
    """Mixed types give the base's type."""
    x, y = np.array([1, 2, 3]).astype(base), np.array([2, 3, 2]).astype(exponent)
    (result,) = run("Pow", [x, y])
    assert result.dtype == np.dtype(base)
    assert result.astype(float).tolist() == [1, 8, 9]


def test_pow_of_integers_to_negative_powers() -> None:
    """1/x**|y| cut to an integer: 1 for 1, alternating for -1, 0 for the rest; NumPy would raise."""
    x, y = np.array([1, -1, -1, 2, -5]), np.array([-3, -3, -2, -1, -1])
    assert run("Pow", [x, y])[0].tolist() == [1, -1, 1, 0, 0]


@pytest.mark.parametrize("exponent", [2.0, 0.5, -1.0, 1.0, 3.0])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pow_with_a_constant_exponent(dtype: Any, exponent: float) -> None:
    """The special ufuncs for constant exponents give what the power function gives."""
    agree("Pow", [sample((5,), dtype, 3, 0.1, 4), np.array(exponent).astype(dtype)], constants=(1,))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Min", "Max"])
def test_any_number_of_inputs(op_type: str, dtype: Any, count: int) -> None:
    """One to four inputs of different, broadcasting shapes."""
    shapes = [(2, 3), (3,), (2, 1), ()]
    inputs = [sample(shapes[number], dtype, number) for number in range(count)]
    agree(op_type, inputs)


@pytest.mark.parametrize("opset", [1, 6, 7])
@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Min", "Max"])
def test_nothing_broadcasts_before_opset_8(op_type: str, opset: int) -> None:
    """Inputs of one shape are combined; of others, a number included, the shapes are named."""
    x = sample((2, 3), np.float32)
    expected = run(op_type, [x, x[::-1], x])[0]
    np.testing.assert_array_equal(run(op_type, [x, x[::-1], x], opset=opset)[0], expected)
    for other in (x[0], x[:1], x[0, 0]):
        with pytest.raises(
            InvalidArgument, match=rf"{op_type} before opset 8 takes inputs of one shape.(.|\n)*\(2, 3\)"
        ):
            run(op_type, [x, x, np.asarray(other)], opset=opset)


def test_sum_rounds_narrow_floats_once() -> None:
    """2048 + 1 + 1 is 2050 in float16 only when it is not rounded in between."""
    parts = [np.array([value], np.float16) for value in (2048, 1, 1)]
    assert run("Sum", parts)[0].tolist() == [2050]
    assert run("Mean", parts)[0].dtype == np.float16


@pytest.mark.parametrize("op_type", ["Min", "Max"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extrema_keep_nan(op_type: str, dtype: Any) -> None:
    """A NaN in any input is the result, whichever side it is on."""
    a, b = np.array([np.nan, 1, np.inf]).astype(dtype), np.array([1, np.nan, 2]).astype(dtype)
    assert np.isnan(run(op_type, [a, b])[0].astype(float)).tolist() == [True, True, False]


@pytest.mark.parametrize("bound_shape", [(), (1,), (1, 1, 1, 1)], ids=str)
@pytest.mark.parametrize("number", [0.5, -np.inf, np.inf, np.nan])
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("op_type", ["Min", "Max"])
def test_extrema_of_many_and_a_constant(
    op_type: str, position: int, number: float, bound_shape: tuple[int, ...]
) -> None:
    """A known number on either side, with more axes too, is a bound: infinite, NaN, and over NaN and infinities."""
    x = sample((3, 1000), np.float32)
    x[0, :3] = np.nan, np.inf, -np.inf
    inputs = [x, np.full(bound_shape, number, np.float32)]
    agree(op_type, inputs if position else inputs[::-1], constants=(position,))


def test_single_input_is_copied() -> None:
    """Sum of one tensor is a tensor of its own: the kernel does not declare views."""
    x = sample((3,), np.float32)
    assert not np.shares_memory(run("Sum", [x])[0], x)


@pytest.mark.parametrize(
    ("op_type", "count"), [("Add", 2), ("Div", 2), ("Max", 2), ("Max", 3), ("Mean", 3), ("Sum", 1)]
)
def test_outputs_are_written_where_asked(op_type: str, count: int) -> None:
    """A kernel that declares `out` writes to the array it is given behind its inputs."""
    inputs = [sample((2, 3), np.float32, number, 1, 5) for number in range(count)]
    definition, kernel = bound(op_type, inputs)
    out = np.empty((2, 3), np.float32)
    assert definition.out
    kernel(*inputs, out)
    np.testing.assert_array_equal(out, kernel(*inputs))


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Max", "Mean", "Mod", "Div"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32], ids=str)
def test_declared_pairs_may_share_memory(op_type: str, dtype: Any, position: int) -> None:
    """Writing over an input that is declared in place gives the same numbers."""
    if op_type == "Mean" and dtype is np.int32:
        pytest.skip("Mean has no integers")
    inputs = [sample((4,), dtype, number, 1, 9) for number in range(2)]
    definition, kernel = bound(op_type, inputs, **({"fmod": 1} if op_type == "Mod" else {}))
    expected = np.array(kernel(*inputs))
    if (position, 0) in definition.inplace:
        kernel(*inputs, inputs[position])
        np.testing.assert_array_equal(inputs[position], expected)
    else:
        assert (op_type, dtype) == ("Div", np.int32)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
def test_broadcasting_before_opset_7(op_type: str) -> None:
    """With `broadcast`, the second operand covers the first's axes from `axis` on."""
    a, b = sample((2, 3, 4), np.float32, 1, 1, 2), sample((3,), np.float32, 2, 1, 2)
    (result,) = run(op_type, [a, b], opset=6, broadcast=1, axis=1)
    (expected,) = run(op_type, [a, b.reshape(3, 1)])
    np.testing.assert_array_equal(result, expected)


def test_broadcasting_before_opset_7_at_the_end() -> None:
    """Without `axis` the last axes are covered, and integers divide as today."""
    a, b = np.array([[7, -7]], np.int32), np.array([2, 2], np.int32)
    assert run("Div", [a, b], opset=6, broadcast=1)[0].tolist() == [[3, -3]]


def test_no_broadcasting_before_opset_7_unless_asked_for() -> None:
    """Different shapes without the attribute are refused."""
    with pytest.raises(InvalidArgument, match="does not ask for broadcasting"):
        run("Add", [sample((2, 3), np.float32), sample((3,), np.float32)], opset=6)


def test_misplaced_operand_before_opset_7() -> None:
    """An operand that does not fit at `axis` is refused with both shapes."""
    with pytest.raises(InvalidArgument, match=r"Shape \(3,\) does not fit into \(2, 4\) at axis 1"):
        run("Add", [sample((2, 4), np.float32), sample((3,), np.float32)], opset=6, broadcast=1, axis=1)


def test_shapes_that_do_not_broadcast() -> None:
    """The declared output shape names the axis and both sizes."""
    with pytest.raises(InvalidArgument, match="axis -1 has the sizes 3 and 4") as caught:
        broadcast_shape(np.zeros((2, 3)), np.zeros((2, 4)))
    assert "(2, 3) and (2, 4) cannot be broadcast" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64], ids=str)
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(dtype: Any, direction: str) -> None:
    """Shifts by less than the width agree with Python's; right shifts of signed numbers keep the sign."""
    x, y = np.array([1, 6, 100]).astype(dtype), np.array([0, 2, 3]).astype(dtype)
    x = -x if np.dtype(dtype).kind == "i" else x
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    expected = np.array([a << b if direction == "LEFT" else a >> b for a, b in pairs]).astype(dtype)
    np.testing.assert_array_equal(run("BitShift", [x, y], direction=direction, opset=28)[0], expected)


def test_bit_shift_without_direction() -> None:
    """A missing direction is refused when the node is bound."""
    with pytest.raises(InvalidArgument, match="Attribute direction is None"):
        run("BitShift", [np.array([1], np.uint8), np.array([1], np.uint8)])


def test_bfloat16_arithmetic_stays_bfloat16() -> None:
    """The ufuncs of ml_dtypes are found for operands, scalars included."""
    assert run("Mul", [np.array([3], BF16), np.array(2, BF16)])[0].dtype == BF16
