"""The drawn calls hold what kernels stumble over: empty tensors, scalars, NaN, infinities, the ends of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .row import Draw, Given, Row, bounds, dtypes_of, for_each_call, is_floating, versions_of, wide

_NEWEST = versions_of("Identity")[-1]
_FLOATS = [dtype for dtype in dtypes_of("Identity", 13, "T") if dtype.kind == "f" or dtype.name == "bfloat16"]
_INTEGERS = [dtype for dtype in dtypes_of("Identity", 13, "T") if dtype.kind in "iu"]
_SMALL = [dtype for dtype in dtypes_of("DequantizeLinear", 25, "T1") if "4" in dtype.name or "2" in dtype.name]


def drawn(dtypes: Any) -> list[Any]:
    """All arrays that a row of one operator draws at its versions, as `test_versions` draws them."""
    arrays: list[Any] = []

    def look(call: Given) -> None:
        arrays.extend(call.inputs)

    row = Row("Identity", lambda d: Given([d.array(d.shape())]))
    for version in row.versions:
        for dtype in dtypes:
            for_each_call(row, version, dtype, look)
    return arrays


def test_calls_of_one_operator_hold_the_special_floats() -> None:
    """NaN, both infinities and a negative zero; tensors without elements and without axes."""
    arrays = drawn(_FLOATS)
    values = np.concatenate([wide(array).astype(np.float64).reshape(-1) for array in arrays])
    assert np.isnan(values).any()
    assert set(values[np.isinf(values)]) == {np.inf, -np.inf}
    assert np.signbit(values[values == 0]).any()
    assert {array.size for array in arrays} > {0, 1}
    assert {0, 1, 4} <= {array.ndim for array in arrays}


def test_calls_of_one_operator_hold_both_ends_of_integers() -> None:
    """The types are signed and unsigned integers of every width together; `test_draws_of_a_type` tests each type."""
    arrays = drawn(_INTEGERS)
    for end in (0, 1):
        assert any(bounds(array.dtype)[end] in array.reshape(-1).tolist() for array in arrays if array.size)


@pytest.mark.parametrize("dtype", [*_FLOATS, *_INTEGERS, *_SMALL], ids=str)
def test_draws_of_a_type(dtype: Any) -> None:
    """Every element type gets its special values, and ordinary ones, from enough draws."""
    seen: set[str] = set()

    def look(call: Given) -> None:
        numbers = [float(one) for one in call.inputs[0].reshape(-1)]
        seen.update(str(one) for one in numbers)

    row = Row("Identity", lambda d: Given([d.array((4,))]))
    for version in range(20):  # only a seed here
        for_each_call(row, version, dtype, look)
    ends = ("nan", "inf", "-inf") if is_floating(dtype) else tuple(str(float(end)) for end in bounds(dtype))
    if "float4" in dtype.name or "float8" in dtype.name:
        ends = ("0.0",)  # some have no infinity, some no NaN: casting has its own tests of what becomes of them
    assert set(ends) <= seen
    assert len(seen) > len(ends)


def test_values_without_special_ones_stay_in_their_range() -> None:
    """Where a row asks for none, or for a range, it gets what it asks for."""

    def look(call: Given) -> None:
        (x,) = call.inputs
        assert np.isfinite(x).all()
        assert ((x >= 1) & (x <= 2)).all()

    row = Row("Identity", lambda d: Given([d.array(d.shape(), low=1, high=2, special=False)]))
    for dtype in (np.dtype(np.float32), np.dtype(np.int8), np.dtype(np.uint64)):
        for_each_call(row, _NEWEST, dtype, look)


def test_every_version_and_type_has_draws_of_its_own() -> None:
    """Neighbours do not get the same shapes, and the same call comes again each time."""

    def shapes(version: int, dtype: Any) -> list[Any]:
        found: list[Any] = []

        def draw(d: Draw) -> Given:
            found.append(d.shape())
            return Given([])

        for_each_call(Row("Identity", draw), version, np.dtype(dtype), lambda _: None)
        return found

    assert shapes(13, np.float32) == shapes(13, np.float32)
    assert len({str(shapes(version, dtype)) for version in (13, 14) for dtype in (np.float32, np.int8)}) == 4
