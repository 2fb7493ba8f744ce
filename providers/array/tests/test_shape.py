"""Shape, Size, Reshape, Flatten, Squeeze, Unsqueeze, Identity: results, views, versions, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import BF16, agree, i64, run, sample

_TYPES = [np.float32, BF16, np.int8, np.bool_, np.complex64, object]
_WAYS = pytest.mark.parametrize("constants", [(), (1,)], ids=["fed", "constant"])


@pytest.mark.parametrize("attributes", [{}, {"start": 1}, {"end": -1}, {"start": -2, "end": 9}, {"start": 5}], ids=str)
def test_shape(attributes: dict[str, Any]) -> None:
    """All axes or a range of them, cut to what there is."""
    agree("Shape", [sample((2, 3, 4), np.float32)], **attributes)


@pytest.mark.parametrize("op_type", ["Shape", "Size"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_shape_and_size_are_int64_on_the_host(op_type: str, shape: Any) -> None:
    """int64 arrays, for scalars and empty tensors too."""
    agree(op_type, [sample(shape, np.float32)])


@_WAYS
@pytest.mark.parametrize("target", [(6, 4), (-1, 3), (0, -1), (0, 0, 4, 1), (24,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("opset", [5, 13, 14, 25])
def test_reshape(opset: int, target: Any, constants: Any) -> None:
    """Zeros copy sizes and -1 is worked out, in all versions."""
    x = sample((2, 3, 4), np.float32)
    agree("Reshape", [x, i64(*target)], opset=opset, constants=constants)
    assert np.shares_memory(run("Reshape", [x, i64(*target)], constants=constants)[0], x)


@_WAYS
def test_reshape_to_a_scalar(constants: Any) -> None:
    """An empty shape is a scalar's."""
    assert run("Reshape", [np.ones((1, 1)), i64()], constants=constants)[0].shape == ()


@_WAYS
@pytest.mark.parametrize(
    ("target", "allowzero", "expected"),
    [((3, 0), 1, (3, 0)), ((-1, 0), 0, (0, 4)), ((7, -1), 0, (7, 0)), ((-1,), 0, (0,)), ((0, 0, 5), 0, (0, 4, 5))],
)
def test_reshape_of_empty_tensors(target: Any, allowzero: int, expected: Any, constants: Any) -> None:
    """With `allowzero` a zero is a size; -1 is what the sizes beside it leave."""
    x = np.zeros((0, 4), np.float32)
    assert run("Reshape", [x, i64(*target)], allowzero=allowzero, constants=constants)[0].shape == expected


@_WAYS
@pytest.mark.parametrize(
    ("target", "allowzero", "why"),
    [
        ((0, -1), 0, "whatever stands for -1"),
        ((0, -1, 3, 1), 0, "whatever stands for -1"),
        ((0, -1), 1, "whatever stands for -1"),
        ((4, -1, 0), 0, "a 0 copies the size at its place, and the input has 2 axes"),
    ],
)
def test_an_open_size_beside_a_size_of_zero_is_refused(target: Any, allowzero: int, why: str, constants: Any) -> None:
    """No elements do not tell what -1 stands for; onnx.reference and onnxruntime refuse it too."""
    with pytest.raises(InvalidArgument, match=why):
        run("Reshape", [np.zeros((0, 4), np.float32), i64(*target)], allowzero=allowzero, constants=constants)


@_WAYS
@pytest.mark.parametrize("target", [(5, 5), (-1, 5), (0, 5)], ids=str)
def test_reshape_to_another_number_of_elements(target: Any, constants: Any) -> None:
    """The message has both shapes and the number of elements."""
    with pytest.raises(InvalidArgument, match=r"shape \(2, 3\) cannot be reshaped") as caught:
        run("Reshape", [np.zeros((2, 3)), i64(*target)], constants=constants)
    assert "it has 6 elements" in str(caught.value)


@pytest.mark.parametrize("constants", [(), (1,)], ids=["fed", "constant"])
def test_reshape_to_a_negative_size(constants: Any) -> None:
    """Only -1 stands for a size that is worked out; NumPy would take -2 for it too."""
    with pytest.raises(InvalidArgument, match=r"to \(-2, 4\)\.(.|\n)*a size is below -1(.|\n)*One size may be -1"):
        run("Reshape", [np.zeros((3, 4), np.float32), i64(-2, 4)], constants=constants)


@pytest.mark.parametrize("constants", [(), (1,)], ids=["fed", "constant"])
def test_a_list_of_sizes_has_one_axis(constants: Any) -> None:
    """Sizes and axes that come as a matrix are refused, whatever the operator."""
    with pytest.raises(InvalidArgument, match=r"An input of shape \(1, 2\) was given for a list of sizes"):
        run("Reshape", [np.zeros((3, 4), np.float32), np.array([[4, 3]])], constants=constants)


def test_reshape_of_version_1() -> None:
    """The shape was an attribute once."""
    assert run("Reshape", [np.zeros((2, 3), np.float32)], opset=4, shape=(3, -1))[0].shape == (3, 2)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_flatten(axis: int) -> None:
    """Axes before and from `axis` on."""
    agree("Flatten", [sample((2, 3, 4), np.float32)], axis=axis)


def test_flatten_axis_out_of_range() -> None:
    """One past the last axis is the end."""
    with pytest.raises(InvalidArgument, match=r"Axis 4 is out of range for rank 3.\n.*\n.*\[-3, 3\]"):
        run("Flatten", [np.zeros((2, 3, 4))], axis=4)


@_WAYS
@pytest.mark.parametrize("axes", [(0,), (0, 2), (-2,), (2, 0)], ids=str)
def test_squeeze(axes: Any, constants: Any) -> None:
    """The axes named go, in all versions."""
    x = sample((1, 3, 1, 4), np.float32)
    agree("Squeeze", [x, i64(*axes)], constants=constants)
    # The reference takes version 11's axes one after the other, which is right only in some orders.
    np.testing.assert_array_equal(run("Squeeze", [x], opset=11, axes=axes)[0], run("Squeeze", [x, i64(*axes)])[0])


def test_squeeze_all() -> None:
    """Without axes, all of size 1 go."""
    agree("Squeeze", [sample((1, 3, 1), np.float32)])
    assert run("Squeeze", [np.ones((1, 1))])[0].shape == ()


@_WAYS
@pytest.mark.parametrize(
    ("axes", "message"), [((1,), r"Axes \(1,\) of shape \(1, 3\)"), ((5,), "Axis 5"), ((0, -2), "twice")]
)
def test_bad_squeeze(axes: Any, message: str, constants: Any) -> None:
    """Other sizes, missing and repeated axes are refused."""
    with pytest.raises(InvalidArgument, match=message):
        run("Squeeze", [np.zeros((1, 3)), i64(*axes)], constants=constants)


@_WAYS
@pytest.mark.parametrize("axes", [(0,), (0, 3), (-1,), (1, -1), (2, 1), (-3, -1)], ids=str)
def test_unsqueeze(axes: Any, constants: Any) -> None:
    """New axes at the places named, counted in the result, in all versions."""
    x = sample((3, 4), np.float32)
    agree("Unsqueeze", [x, i64(*axes)], constants=constants)
    # As above for the reference's version 11.
    np.testing.assert_array_equal(run("Unsqueeze", [x], opset=11, axes=axes)[0], run("Unsqueeze", [x, i64(*axes)])[0])


@_WAYS
def test_unsqueeze_of_a_scalar(constants: Any) -> None:
    """A scalar becomes a vector; no axes change nothing."""
    assert run("Unsqueeze", [np.array(1.0), i64(0)], constants=constants)[0].shape == (1,)
    assert run("Unsqueeze", [np.array(1.0), i64()], constants=constants)[0].shape == ()


@_WAYS
@pytest.mark.parametrize(
    ("axes", "message"), [((4,), "Axis 4 is out of range for rank 3"), ((1, 1), "twice"), ((0, -4), "twice")]
)
def test_bad_unsqueeze(axes: Any, message: str, constants: Any) -> None:
    """Missing and repeated places are refused."""
    with pytest.raises(InvalidArgument, match=message):
        run("Unsqueeze", [np.zeros((2, 2)), i64(*axes)], constants=constants)


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize(
    ("op_type", "second"),
    [("Reshape", (6, 1)), ("Squeeze", (1,)), ("Unsqueeze", (0,)), ("Identity", None), ("Flatten", None)],
)
def test_views_of_every_type(op_type: str, second: Any, dtype: Any) -> None:
    """All element types, strings included, share their memory with the input."""
    x = np.ones((2, 1, 3)).astype(dtype)
    (result,) = run(op_type, [x, *([] if second is None else [i64(*second)])])
    assert result.dtype == np.dtype(dtype)
    assert np.shares_memory(result, x)


def test_identity_of_a_sequence() -> None:
    value = [np.ones(1, np.float32)]
    assert run("Identity", [value])[0] is value
