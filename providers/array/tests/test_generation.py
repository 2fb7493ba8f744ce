"""Constant, ConstantOfShape, Range, EyeLike, OneHot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.contracts.kernel import KernelContext, KernelForms
from ort_py.devices import Device
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument, LimitError, NotImplemented  # noqa: A004 - onnxruntime's name
from ort_py_array import generation
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .oracle import BF16, DEFINITIONS, FLOATS, agree, i64, run, sample


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value": np.array([[1, 2]], np.int8)}, np.array([[1, 2]], np.int8)),
        ({"value": np.array(1.5, BF16)}, np.array(1.5, BF16)),
        ({"value": np.array(["a"], object)}, np.array(["a"], object)),
        ({"value_float": 1.5}, np.array(1.5, np.float32)),
        ({"value_floats": (1.5, 2.5)}, np.array([1.5, 2.5], np.float32)),
        ({"value_int": 3}, np.array(3)),
        ({"value_ints": (3, 4)}, np.array([3, 4])),
        ({"value_string": "a"}, np.array("a", object)),
        ({"value_strings": ("a", "bc")}, np.array(["a", "bc"], object)),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_constant(attributes: dict[str, Any], expected: Any) -> None:
    """Each form gives its tensor and type."""
    (result,) = run("Constant", [], **attributes)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


def test_constant_is_fresh_each_time() -> None:
    """A later kernel that writes in place does not change the next run's constant."""
    node = make_node_spec("Constant", [], attributes={"value": np.zeros(2)})
    definition = next(item for item in DEFINITIONS if item.op_type == "Constant")
    kernel = definition.factory(LocalKernelContext(node))
    kernel()[:] = 1
    assert kernel().tolist() == [0, 0]


@pytest.mark.parametrize("attributes", [{}, {"value_int": 1, "value_float": 1.0}], ids=str)
def test_constant_needs_one_value(attributes: dict[str, Any]) -> None:
    """None or two values are refused by number."""
    with pytest.raises(InvalidArgument, match=f"Constant has {len(attributes)} values"):
        run("Constant", [], **attributes)


def test_sparse_constant() -> None:
    """Sparse values are not implemented, and say so."""
    with pytest.raises(NotImplemented, match="sparse"):
        run("Constant", [], sparse_value=object())


@pytest.mark.parametrize("value", [None, np.array([3], np.int64), np.array([1.5], BF16), np.array([True])], ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (0,), ()], ids=str)
def test_constant_of_shape(shape: tuple[int, ...], value: Any) -> None:
    """The shape comes from the input, type and number from the attribute, float32 zeros by default."""
    (result,) = run("ConstantOfShape", [i64(*shape)], **({} if value is None else {"value": value}))
    assert result.dtype == (np.float32 if value is None else value.dtype)
    assert result.shape == shape
    assert (result == (0 if value is None else value[0])).all()


def test_constant_of_negative_shape() -> None:
    with pytest.raises(InvalidArgument, match=r"The shape \(2, -1\) has a negative size"):
        run("ConstantOfShape", [i64(2, -1)])


@pytest.mark.parametrize(
    "numbers", [(0, 5, 1), (5, 0, -2), (0, 5, -1), (1, 1, 1), (-3, 4, 3), (0, 1, 0.1), (2.5, 0, -0.5)], ids=str
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.int32, np.int64], ids=str)
def test_range(dtype: Any, numbers: Any) -> None:
    """Up, down and empty ranges, in the input's type."""
    if np.dtype(dtype).kind == "i" and any(number != int(number) for number in numbers):
        pytest.skip("fractions need floats")
    agree("Range", [np.array(number).astype(dtype) for number in numbers], opset=11)


def test_range_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many numbers are computed piece by piece, each from its own place: steps do not accumulate."""
    monkeypatch.setattr(generation, "_AT_A_TIME", 7)
    numbers = [np.array(number, np.float32) for number in (3, 8, 0.1)]
    (result,) = run("Range", numbers)
    np.testing.assert_array_equal(result, (3 + np.arange(len(result)) * np.float64(np.float32(0.1))).astype(np.float32))
    assert len(result) == 50


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_range_of_narrow_floats(dtype: Any) -> None:
    """Steps do not accumulate in the narrow type."""
    (result,) = run("Range", [np.array(number).astype(dtype) for number in (0, 300, 1)])
    np.testing.assert_array_equal(result, np.arange(300).astype(dtype))


@pytest.mark.parametrize("numbers", [(0.0, 5.0, 0.0), (0.0, np.inf, 1.0), (np.nan, 1.0, 1.0)], ids=str)
def test_endless_range(numbers: Any) -> None:
    """A step of 0, or a number that is not finite, is refused."""
    with pytest.raises(InvalidArgument, match="Range from"):
        run("Range", [np.array(number, np.float32) for number in numbers])


def test_range_of_integers_without_a_step() -> None:
    """A step of 0 is refused for whole numbers too."""
    with pytest.raises(InvalidArgument, match="Range from 0 to 5 in steps of 0"):
        run("Range", [np.array(number) for number in (0, 5, 0)])


@pytest.mark.parametrize("k", [0, 1, -2])
@pytest.mark.parametrize("dtype", [None, DataType.INT32, DataType.BFLOAT16, DataType.BOOL], ids=str)
def test_eye_like(dtype: DataType | None, k: int) -> None:
    """A diagonal of ones in the input's or another type."""
    x = np.zeros((3, 4), np.float32)
    (result,) = run("EyeLike", [x], k=k, **({} if dtype is None else {"dtype": int(dtype)}))
    np.testing.assert_array_equal(result.astype(np.float32), np.eye(3, 4, k))


def test_eye_like_needs_a_matrix() -> None:
    with pytest.raises(InvalidArgument, match="EyeLike needs a matrix"):
        run("EyeLike", [np.zeros(3, np.float32)])


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("kinds", [("i8", "i8", "f4"), ("f4", "f4", "i4"), ("i4", "u1", "f2")], ids=str)
def test_one_hot(kinds: tuple[str, str, str], axis: int) -> None:
    """Any types of indices, depth and values, and any place for the new axis."""
    indices, depth = np.array([[0, 2], [1, 1]]).astype(kinds[0]), np.array(3).astype(kinds[1])
    agree("OneHot", [indices, depth, np.array([5, 7]).astype(kinds[2])], axis=axis)


def test_one_hot_outside() -> None:
    """Negative indices count from the end once; beyond that, everything is off. Depth may be a vector of one."""
    (result,) = run("OneHot", [i64(-1, -4, 3), i64(3), np.array(["off", "on"], object)])
    assert result.tolist() == [["off", "off", "on"], ["off"] * 3, ["off"] * 3]


@pytest.mark.parametrize("index", [0, 2, -1, -3])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_one_hot_of_one_index(shape: tuple[int, ...], index: int) -> None:
    """One index, as a loop has at each step, from either end."""
    agree("OneHot", [np.full(shape, index), np.array(3), np.array([0.5, 2], np.float32)])


@pytest.mark.parametrize("index", [3, -4])
def test_one_hot_of_one_index_outside(index: int) -> None:
    """One index that is out of range is off everywhere too."""
    (result,) = run("OneHot", [i64(index), i64(3), np.array(["off", "on"], object)])
    assert result.tolist() == [["off"] * 3]


def test_one_hot_of_no_index() -> None:
    """No index gives a tensor without elements, of the depth's width."""
    assert run("OneHot", [np.zeros((0,), np.int64), i64(3), np.array([0.0, 1.0])])[0].shape == (0, 3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot_on_a_device(axis: int) -> None:
    """Away from the host indices are compared, so that nothing waits for the device, with the same result."""
    inputs = [np.array([[0, 2, -1], [5, -7, 1]]), i64(3), np.array([2.0, 5], np.float32)]
    context = LocalKernelContext(make_node_spec("OneHot", inputs, attributes={"axis": axis}))
    context.device = Device("fake", 0)
    definition = next(one for one in DEFINITIONS if one.op_type == "OneHot")
    np.testing.assert_array_equal(definition.factory(context)(*inputs), run("OneHot", inputs, axis=axis)[0])


@pytest.mark.parametrize("indices", [[[0, 2], [1, -1]], [[1]], [[4, 0]]], ids=str)
def test_one_hot_is_written_where_it_is_told(indices: Any) -> None:
    """With a constant depth the shape is known, and the result may be written over what was there."""
    inputs = [np.array(indices), i64(3), np.array([2.0, 5], np.float32)]
    context = LocalKernelContext(make_node_spec("OneHot", inputs), constants={1: inputs[1]})
    definition = next(one for one in DEFINITIONS if one.op_type == "OneHot")
    kernel = definition.factory(context)
    assert isinstance(kernel, KernelForms)
    assert kernel.into is not None
    out = np.full((*inputs[0].shape, 3), np.nan, np.float32)
    assert kernel.into(*inputs, out) is out
    np.testing.assert_array_equal(out, run("OneHot", inputs)[0])


def test_one_hot_of_a_depth_that_is_fed_is_never_written_to() -> None:
    """A depth that changes from run to run changes the shape."""
    inputs = [i64(1), i64(3), np.array([0.0, 1.0])]
    definition = next(one for one in DEFINITIONS if one.op_type == "OneHot")
    kernel = definition.factory(LocalKernelContext(make_node_spec("OneHot", inputs)))
    assert isinstance(kernel, KernelForms)
    assert kernel.into is None


@pytest.mark.parametrize("depth", [i64(0), i64(2, 3), i64(-1)], ids=str)
def test_one_hot_depth(depth: Any) -> None:
    """The depth must be one positive number."""
    with pytest.raises(InvalidArgument, match="OneHot has the depth"):
        run("OneHot", [i64(0), depth, np.array([0.0, 1.0])])


class _Limited(LocalKernelContext):
    """A context that allows a thousand elements."""

    def check_allocation(self, shape: Any, dtype: Any) -> None:
        if np.prod(shape, dtype=float) > 1000:
            raise LimitError(f"{tuple(shape)} of {dtype} is too much.")


_LARGE: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("ConstantOfShape", [i64(10**12)], {}),
    ("Range", [np.array(0), np.array(10**15), np.array(1)], {}),
    ("Range", [np.array(0.0), np.array(1e15), np.array(1.0)], {}),
    ("OneHot", [i64(0), np.array(10**12), np.array([0.0, 1.0])], {}),
    ("Expand", [np.zeros(1), i64(10**12)], {}),
    ("Tile", [np.zeros(1), i64(10**12)], {}),
    ("Pad", [np.zeros(1), i64(0, 10**12)], {}),
    ("Pad", [np.zeros(1), i64(0, 10**12)], {"mode": "edge"}),
    ("GatherND", [np.zeros((2, 2000)), i64(0)], {}),
    ("Gather", [np.zeros((1, 70000)), i64(0)], {}),
    ("EyeLike", [np.broadcast_to(np.float32(0), (200, 200))], {}),
    ("Concat", [np.zeros(40000), np.zeros(40000)], {"axis": 0}),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes"), _LARGE, ids=[case[0] for case in _LARGE])
def test_sizes_decided_by_data_are_announced(op_type: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """Before anything is allocated, the limit is asked, and its refusal passes through."""
    node = make_node_spec(op_type, inputs, attributes=attributes)
    context: KernelContext = _Limited(node)
    definition = next(item for item in DEFINITIONS if item.op_type == op_type and item.last >= node.since_version)
    with pytest.raises(LimitError, match="is too much"):
        definition.factory(context)(*inputs)


def test_sample_covers_integers() -> None:
    """`sample` gives integer types whole numbers."""
    assert sample((3,), np.int8).dtype == np.int8


@pytest.mark.parametrize("values", [[1], [0, 1, 2], [[0, 1]]], ids=str)
def test_one_hot_values_are_two(values: Any) -> None:
    """Off and on: the specification has exactly two elements in one axis."""
    with pytest.raises(InvalidArgument, match=r"OneHot has values of shape .*(.|\n)*They must be two"):
        run("OneHot", [i64(0, 1), np.array(3), np.array(values, np.float32)])


@pytest.mark.parametrize("start", [[0.0, 1.0], []], ids=str)
def test_range_takes_one_number_each(start: Any) -> None:
    """One element in an axis passes for a scalar, as in onnxruntime; several or none do not."""
    one = np.array([1], np.float32)
    np.testing.assert_array_equal(run("Range", [one, np.array(3, np.float32), one])[0], [1, 2])
    with pytest.raises(InvalidArgument, match="Range takes one number each"):
        run("Range", [np.array(start, np.float32), np.array(3, np.float32), one])


@pytest.mark.parametrize("shape", [[[2, 3]], 3], ids=str)
def test_constant_of_shape_takes_a_list(shape: Any) -> None:
    """The specification has a tensor with one axis."""
    with pytest.raises(InvalidArgument, match=r"The shape was given as a tensor of shape (.|\n)*one axis"):
        run("ConstantOfShape", [np.array(shape)])
