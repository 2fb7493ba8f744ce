"""TensorScatter-24: the reference over axes, places and modes; every element type; what is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument

from ..oracle import BF16, agree, i64, run, sample

CACHE, UPDATE = sample((2, 3, 5, 4), np.float32), sample((2, 3, 2, 4), np.float32, 1)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_it_agrees_with_the_reference(data: st.DataObject) -> None:
    """Any rank and axis, any length of the update, both modes, with places and without."""
    shape = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    axis = data.draw(st.integers(1, len(shape) - 1))
    count = data.draw(st.integers(1, shape[axis]))
    mode = data.draw(st.sampled_from(["linear", "circular"]))
    inputs = [sample(shape, np.float32), sample([*shape[:axis], count, *shape[axis + 1 :]], np.float32, 1)]
    if data.draw(st.booleans()):
        last = shape[axis] - count if mode == "linear" else 9
        inputs.append(i64(*data.draw(st.lists(st.integers(0, last), min_size=shape[0], max_size=shape[0]))))
    agree("TensorScatter", inputs, axis=data.draw(st.sampled_from([axis, axis - len(shape)])), mode=mode)


def test_the_cache_is_left_alone() -> None:
    """The result is new, whatever is written."""
    before = CACHE.copy()
    for update in (UPDATE, UPDATE[:, :, :0]):
        (y,) = run("TensorScatter", [CACHE, update, i64(1, 3)])
        assert not np.shares_memory(y, CACHE)
    np.testing.assert_array_equal(CACHE, before)


@pytest.mark.parametrize(
    "dtype",
    [
        *(np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64, np.bool_, object),
        *(np.float16, BF16, np.float64, np.complex64, np.complex128, ml_dtypes.int4, ml_dtypes.uint4),
        *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz),
        *(ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu),
    ],
    ids=str,
)
def test_every_element_type(dtype: Any) -> None:
    cache, update = np.array([[0, 1, 1, 0]] * 2), np.array([[1, 0]] * 2)
    values = [x.astype(str).astype(object) if dtype is object else x.astype(dtype) for x in (cache, update)]
    (y,) = run("TensorScatter", [*values, i64(2, 3)], axis=1, mode="circular")
    expected = np.array([[0, 1, 1, 0], [0, 1, 1, 1]])
    expected = expected.astype(str).astype(object) if dtype is object else expected.astype(dtype)
    assert y.dtype == expected.dtype
    if dtype is object:
        np.testing.assert_array_equal(y, expected)
    else:
        assert y.tobytes() == expected.tobytes()  # one of the types has no zero, and NaN instead


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_empty_tensors(shape: tuple[int, ...]) -> None:
    """A cache without elements stays one, in both modes."""
    x = np.zeros(shape, np.float32)
    for mode in ("linear", "circular"):
        (y,) = run("TensorScatter", [x, x, np.zeros(shape[0], np.int64)], mode=mode)
        assert y.shape == shape


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        ([CACHE, UPDATE], {"axis": 0}, "cannot write along axis 0"),
        ([CACHE, UPDATE], {"axis": -4}, "cannot write along axis 0"),
        ([CACHE, UPDATE], {"axis": 4}, "Axis 4 is out of range"),
        ([CACHE, UPDATE], {"mode": "round"}, "mode is 'round'"),
        ([CACHE, UPDATE], {"axis": 1}, "update does not fit into the cache"),
        ([CACHE, UPDATE[0]], {}, "update does not fit into the cache"),
        ([UPDATE, CACHE], {}, "update does not fit into the cache"),
        ([CACHE, UPDATE, i64(0)], {}, "not one place per batch entry"),
        ([CACHE, UPDATE, i64(0, 4)], {}, "2 positions from 4 on are not all in a cache of 5"),
        ([CACHE, UPDATE, i64(-1, 0)], {}, "2 positions from -1 on"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    """The message names the node and says what to do."""
    with pytest.raises(InvalidArgument, match=message) as caught:
        run("TensorScatter", inputs, **attributes)
    assert "TensorScatter_under_test" in str(caught.value)
    assert caught.value.fix
