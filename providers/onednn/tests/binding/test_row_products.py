"""Products of a row in machine code: closed forms for every size, sums in front and behind, threads' pieces, NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_onednn.binding.constants import Argument, Binary, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.picture_products import picture_product
from ort_py_onednn.binding.primitive import Accumulate, Function, Operand, PostOp, Primitive, Unimplemented
from ort_py_onednn.binding.row_products import RowProduct
from ort_py_onednn.execution.elements import as_bytes

Array = np.ndarray[Any, Any]


def _bare(rows: int, depth: int, columns: int, *, bias: bool = False) -> Primitive:
    vector = Desc.plain((1, columns)) if bias else None
    weights = Desc.any((columns, depth, 1, 1))
    return picture_product(Desc.plain((rows, depth)), weights, vector, Desc.plain((rows, columns)), "jit_1x1:avx2", ())


@pytest.fixture(autouse=True)
def has_code() -> None:
    """Skip where there is no code."""
    try:
        found = RowProduct.made(engine().library, _bare(1, 8, 8), ())
    except Unimplemented:
        found = None
    if found is None:
        pytest.skip("the CPU has no AVX2, or better code, or the system allows no executable memory")


def _drawn(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _packed(weights: Array) -> Array:
    """(depth, columns) in blocks of eight columns and eight numbers of each, with zeroes behind the last column."""
    weights = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 8)))
    depth, columns = weights.shape
    return np.ascontiguousarray(weights.reshape(depth // 8, 8, columns // 8, 8).transpose(2, 0, 1, 3))


def _product(row: Array, weights: Array, bias: Array | None, added: Array | None, posts: list[PostOp]) -> Array:
    depth, columns = weights.shape
    made = RowProduct.made(engine().library, _bare(1, depth, columns, bias=bias is not None), posts)
    assert made is not None
    result = np.full(columns + 16, 7, np.float32)
    arrays = {Argument.SRC: row, Argument.WEIGHTS: _packed(weights), Argument.DST: result}
    if bias is not None:
        arrays[Argument.BIAS] = bias
    if posts == [Accumulate()] and added is not None:
        result[:columns] = added
    elif added is not None:
        arrays[Argument.post_op(0)] = added
    made.run({code: as_bytes(array) for code, array in arrays.items()})
    assert (result[columns:] == 7).all()
    return result[:columns]


def _exact(row: Array, weights: Array, *more: Array | None) -> Array:
    exact = row.astype(np.float64) @ weights.astype(np.float64)
    return np.asarray(exact + sum(one.astype(np.float64) for one in more if one is not None))


@pytest.mark.parametrize("depth", [8, 16, 24, 72, 256, 1000])
@pytest.mark.parametrize("columns", [3, 8, 20, 24, 32, 39, 40, 64, 517, 520, 1153])
def test_sizes(depth: int, columns: int) -> None:
    """Around the blocks that a thread takes at once; a bias and a residual alone and together."""
    row, weights = _drawn(depth, seed=depth), _drawn(depth, columns, seed=columns)
    bias, residual = _drawn(columns, seed=1), _drawn(columns, seed=2)
    behind: list[PostOp] = [Operand(Binary.ADD, Desc.any((1, columns)))]
    summing: list[PostOp] = [Accumulate()]
    nothing: list[PostOp] = []
    for start, more, posts in (
        (None, None, nothing),
        (bias, None, nothing),
        (None, residual, behind),
        (bias, residual, behind),
        (bias, residual, summing),
    ):
        found = _product(row, weights, start, more, posts)
        exact = _exact(row, weights, start, more)
        assert np.abs(found - exact).max() <= 2e-6 * np.abs(row.astype(np.float64)) @ np.abs(weights).max(axis=1) + 1e-6


def test_what_is_not_finite_stays_in_its_columns() -> None:
    """Infinities times zero are NaN, and no neighbour notices."""
    row, weights = _drawn(64, seed=5), _drawn(64, 48, seed=6)
    weights[3, 17], weights[9, 18] = np.nan, np.inf
    row[20] = np.inf
    weights[20] = 1
    weights[20, 5] = 0
    found = _product(row, weights, None, None, [])
    wanted = np.full(48, np.inf)
    wanted[[17, 5]] = np.nan
    wanted[18] = np.inf if row[9] > 0 else np.nan
    np.testing.assert_array_equal(found, wanted)


def test_what_there_is_no_code_for() -> None:
    """Several rows, a depth that is no multiple of eight, and other functions behind."""
    library = engine().library
    assert RowProduct.made(library, _bare(2, 16, 16), ()) is None
    assert RowProduct.made(library, _bare(1, 12, 16), ()) is None
    bare = _bare(1, 16, 16)
    column = Operand(Binary.ADD, Desc.plain((1, 1)))
    for post in (Function(Eltwise.RELU), Operand(Binary.MUL, Desc.any((1, 16))), column, Accumulate(0.5)):
        assert RowProduct.made(library, bare, [post]) is None
    assert RowProduct.made(library, bare, [Accumulate(), Function(Eltwise.RELU)]) is None


def test_reach_has_all_that_is_read() -> None:
    made = RowProduct.made(engine().library, _bare(1, 16, 16, bias=True), [Operand(Binary.ADD, Desc.any((1, 16)))])
    assert made is not None
    codes = [one[0] for one in made.reach if not one[3]]
    assert codes == [Argument.SRC, Argument.WEIGHTS, Argument.BIAS, Argument.post_op(0)]
