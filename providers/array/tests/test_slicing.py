"""Slice: ranges, steps, cuts at the ends, constants, versions, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import BF16, agree, i64, run, sample
from .runtime_oracle import agree_with_runtime

_MAX, _MIN = np.iinfo(np.int64).max, np.iinfo(np.int64).min
_CASES: list[tuple[Any, ...]] = [
    ((0,), (2,)),
    ((1, 0), (2, 3)),
    ((0,), (_MAX,), (1,)),
    ((-2,), (_MAX,), (-1,)),
    ((1,), (-1,), (0,), (1,)),
    ((-1,), (_MIN,), (2,), (-1,)),
    ((100,), (-100,), (1,), (-2,)),
    ((-100,), (100,), (-2,), (3,)),
    ((0, 0), (1, 2), (2, -3)),
    ((3,), (1,), (0,)),
    ((-1, -1), (_MIN, _MIN), (-1, -2), (-1, -1)),
]


@pytest.mark.parametrize("known", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize("case", _CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.int32, np.int64], ids=str)
def test_slice(case: Any, dtype: Any, known: bool) -> None:
    """Starts and ends beyond the axis are cut, negative ones count from the end, steps go both ways. A view."""
    x = sample((4, 5, 6), np.float32)
    limits = np.iinfo(dtype)
    parts = [np.array([min(max(value, limits.min), limits.max) for value in part], dtype) for part in case]
    constants = range(1, len(parts) + 1) if known else ()
    agree("Slice", [x, *parts], constants=constants)
    (result,) = run("Slice", [x, *parts], constants=constants)
    assert result.size == 0 or np.shares_memory(result, x)


@pytest.mark.parametrize("opset", [10, 11, 13])
@pytest.mark.parametrize("dtype", [np.float32, BF16, object], ids=str)
def test_versions_and_types(dtype: Any, opset: int) -> None:
    """All versions with inputs are one, for all element types."""
    x = np.arange(6).astype(dtype)
    assert run("Slice", [x, i64(1), i64(5), None, i64(2)], opset=opset)[0].tolist() == [1, 3]


@pytest.mark.parametrize("axes", [None, (1, 0), (-1,)], ids=str)
def test_version_1(axes: Any) -> None:
    count = 2 if axes is None else len(axes)
    attributes = {"starts": (1, 0)[:count], "ends": (9, 2)[:count], **({} if axes is None else {"axes": axes})}
    agree("Slice", [sample((3, 4), np.float32)], opset=9, **attributes)


@pytest.mark.parametrize("known", [False, True], ids=["fed", "constant"])
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (((0,), (1,), (2,)), "Axis 2 is out of range for rank 2"),
        (((0,), (1,), (-3,)), "Axis -3 is out of range for rank 2"),
        (((0,), (1,), (_MAX,)), f"Axis {_MAX} is out of range for rank 2"),
        (((0,), (1,), (_MIN,)), f"Axis {_MIN} is out of range for rank 2"),
        (((0, 0), (1, 1), (0, _MAX)), f"Axis {_MAX} is out of range for rank 2"),
        (((0,), (1,), (0,), (0,)), "step of 0"),
        (((0, 0), (1,)), "2 starts, 1 ends"),
        (((0,), (1,), (0, 1)), "1 starts, 1 ends, 2 axes"),
        (((0, 0), (1, 1), (1, 1)), "twice"),
        (((0, 0), (1, 1), (1, -1)), "twice"),
        (((0,), (1,), (0,), (1, 1)), "2 steps"),
    ],
    ids=str,
)
def test_bad_slices(parts: Any, message: str, known: bool) -> None:
    """Missing and repeated axes, steps of 0 and uneven lists are refused."""
    with pytest.raises(InvalidArgument, match=message):
        run(
            "Slice",
            [np.zeros((2, 2)), *(i64(*part) for part in parts)],
            constants=range(1, len(parts) + 1) if known else (),
        )


@pytest.mark.parametrize("constants", [(), (1, 2, 3, 4)], ids=["fed", "constant"])
@pytest.mark.parametrize("start", [-3, -4, -9])
def test_a_start_before_the_axis_moves_to_its_first_element_where_the_step_is_negative(
    start: int, constants: tuple[int, ...]
) -> None:
    """So says the specification, and onnxruntime; Python's slices take nothing, and neither does `onnx.reference`."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (y,) = run("Slice", [x, i64(start), i64(-9), i64(1), i64(-1)], opset=13, constants=constants)
    assert y.tolist() == [[0.0], [3.0]]
    agree_with_runtime("Slice", [x, i64(start), i64(-9), i64(1), i64(-1)], opset=13, constants=constants)
