"""Reductions: axes as attribute and as input, element types, empty sets, no-ops, and their error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import FLOATS, agree, i64, run, sample

_ALL = [
    f"Reduce{name}" for name in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
]
_AXES: list[tuple[int, ...] | None] = [None, (0,), (-1,), (0, 2), (1, -1)]


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", _AXES, ids=str)
@pytest.mark.parametrize("op_type", _ALL)
def test_axes_as_input(op_type: str, axes: Any, keepdims: int) -> None:
    """The newest version reads the axes from an input, fed or constant."""
    inputs = [sample((2, 3, 4), np.float32, 1, 0.5, 2), *([i64(*axes)] if axes else [])]
    agree(op_type, inputs, keepdims=keepdims)
    agree(op_type, inputs, keepdims=keepdims, constants=(1,) if axes else ())


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", _AXES, ids=str)
@pytest.mark.parametrize("op_type", _ALL)
def test_axes_as_attribute(op_type: str, axes: Any, keepdims: int) -> None:
    """Version 11 has the axes as an attribute."""
    agree(
        op_type,
        [sample((2, 3, 4), np.float32, 1, 0.5, 2)],
        opset=11,
        keepdims=keepdims,
        **({"axes": axes} if axes else {}),
    )


@pytest.mark.parametrize("keepdims", [2, -1])
@pytest.mark.parametrize("op_type", [*_ALL, "ArgMax", "ArgMin"])
def test_only_one_keeps_axes(op_type: str, keepdims: int) -> None:
    """The specification keeps reduced axes where `keepdims` equals 1. Inference and onnxruntime drop them otherwise."""
    x = sample((2, 3, 4), np.float32, 1, 0.5, 2)
    place: dict[str, Any] = {"axis": 1} if op_type.startswith("Arg") else {"axes": (1,)}
    (other,) = run(op_type, [x], opset=11, keepdims=keepdims, **place)
    (dropped,) = run(op_type, [x], opset=11, keepdims=0, **place)
    assert other.shape == (2, 4)
    np.testing.assert_array_equal(other, dropped)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32, np.int64, np.uint32], ids=str)
@pytest.mark.parametrize("op_type", _ALL)
def test_element_types(op_type: str, dtype: Any) -> None:
    """The result has the data's type; integers that need a root or quotient are cut."""
    x = sample((3, 5), dtype, 1, 1, 4)
    opset = 18  # version 28 took integers from the logarithms
    (result,) = run(op_type, [x, i64(1)], opset=opset)
    (wide,) = run(op_type, [x.astype(np.float64), i64(1)], opset=opset)
    assert result.dtype == np.dtype(dtype)
    tolerance = 1.6e-2 if result.dtype.itemsize == 2 else 1e-5
    expected = np.trunc(wide) if result.dtype.kind in "iu" else wide
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_bool(op_type: str) -> None:
    """From version 20 on, truth values are ordered too."""
    agree(op_type, [np.array([[True, False], [True, True]]), i64(1)])


@pytest.mark.parametrize("op_type", _ALL)
def test_noop_with_empty_axes(op_type: str) -> None:
    """Without axes nothing is reduced, but the element-wise part of the formula still happens."""
    x = sample((2, 3), np.float32, 1, 0.5, 2)
    parts = {
        "ReduceL1": np.abs(x),
        "ReduceL2": np.abs(x),
        "ReduceLogSum": np.log(x),
        "ReduceSumSquare": x * x,
    }
    for inputs in ([x], [x, i64()]):
        (result,) = run(op_type, inputs, noop_with_empty_axes=1)
        np.testing.assert_allclose(result, parts.get(op_type, x), rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [
        ("ReduceSum", 0),
        ("ReduceProd", 1),
        ("ReduceMax", -np.inf),
        ("ReduceMin", np.inf),
        ("ReduceL1", 0),
        ("ReduceL2", 0),
        ("ReduceLogSum", -np.inf),
        ("ReduceLogSumExp", -np.inf),
        ("ReduceSumSquare", 0),
        ("ReduceMean", np.nan),
    ],
)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_empty_sets(op_type: str, expected: float, keepdims: int) -> None:
    """Nothing reduces to the neutral element, with the right shape."""
    (result,) = run(op_type, [np.zeros((2, 0, 3), np.float32), i64(-2)], keepdims=keepdims)
    np.testing.assert_array_equal(result, np.full((2, 1, 3) if keepdims else (2, 3), expected, np.float32))


@pytest.mark.parametrize(("op_type", "expected"), [("ReduceMax", -128), ("ReduceMin", 127)])
def test_empty_sets_of_integers(op_type: str, expected: int) -> None:
    """Integers have no infinity: the type's other end stands for it."""
    assert run(op_type, [np.zeros((0, 2), np.int8), i64(0)], keepdims=0)[0].tolist() == [expected] * 2


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_narrow_floats_accumulate_wide(dtype: Any) -> None:
    """4,000 ones add up to about 4,000; in the narrow type itself the sum would stop growing at 256 or 2,048."""
    (result,) = run("ReduceSum", [np.ones(4000).astype(dtype)], keepdims=0)
    assert abs(float(result) - 4000) <= 16


def test_log_sum_exp_is_stable() -> None:
    """Great numbers do not overflow, and rows of infinities keep them."""
    x = np.array([[1000, 1000], [-np.inf, -np.inf], [np.inf, 1]], np.float32)
    (result,) = run("ReduceLogSumExp", [x, i64(1)], keepdims=0)
    np.testing.assert_allclose(result, [1000 + np.log(2), -np.inf, np.inf], rtol=1e-6)


def test_scalar() -> None:
    assert run("ReduceMean", [np.array(3.0, np.float32)])[0].tolist() == 3


@pytest.mark.parametrize(("axes", "message"), [((3,), "Axis 3 is out of range for rank 2"), ((0, -2), "twice")])
@pytest.mark.parametrize("op_type", _ALL)
def test_bad_axes(op_type: str, axes: Any, message: str) -> None:
    """Axes that do not exist or repeat are refused."""
    with pytest.raises(InvalidArgument, match=message):
        run(op_type, [np.ones((2, 2), np.float32), i64(*axes)])
