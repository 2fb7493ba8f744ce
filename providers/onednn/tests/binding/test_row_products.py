"""Products of a row in machine code: closed forms for every size, sums in front and behind, threads' pieces, NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import CallList
from ort_py_onednn.binding.constants import Argument, Binary, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.picture_products import picture_product
from ort_py_onednn.binding.primitive import Accumulate, Function, Operand, PostOp, Primitive, Unimplemented
from ort_py_onednn.binding.row_products import RowProduct
from ort_py_onednn.execution.elements import as_bytes

Array = np.ndarray[Any, Any]


class Form(NamedTuple):
    """A layout of weights.

    Attributes:
        bare: Makes the primitive whose weights have it: of rows, depth and columns.
        packed: Puts (depth, columns) into it, with zeroes behind the last column.
        multiple: What the depth is a multiple of.
    """

    bare: Callable[..., Primitive]
    packed: Callable[[Array], Array]
    multiple: int


def _picture(rows: int, depth: int, columns: int, *, bias: bool = False) -> Primitive:
    vector = Desc.plain((1, columns)) if bias else None
    weights = Desc.any((columns, depth, 1, 1))
    return picture_product(Desc.plain((rows, depth)), weights, vector, Desc.plain((rows, columns)), "jit_1x1:avx2", ())


def _matrix(rows: int, depth: int, columns: int, *, bias: bool = False) -> Primitive:
    """A product whose weights have the layout that oneDNN chooses with AVX-512."""
    vector = Desc.plain((1, columns)) if bias else None
    found = primitives.matmul(
        Desc.plain((rows, depth)), Desc.any((depth, columns)), vector, Desc.plain((rows, columns)), ()
    )
    if "avx512" not in found.implementation:
        pytest.skip("oneDNN has this layout with AVX-512 only")
    return found


def _eights(weights: Array) -> Array:
    weights = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 8)))
    depth, columns = weights.shape
    return np.ascontiguousarray(weights.reshape(depth // 8, 8, columns // 8, 8).transpose(2, 0, 1, 3))


def _sixty_fours(weights: Array) -> Array:
    weights = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 64)))
    depth, columns = weights.shape
    return np.ascontiguousarray(weights.reshape(depth, columns // 64, 64).transpose(1, 0, 2))


@pytest.fixture(params=[Form(_picture, _eights, 8), Form(_matrix, _sixty_fours, 16)], ids=["eights", "sixty-fours"])
def form(request: pytest.FixtureRequest) -> Form:
    """A layout, where there is code for it."""
    found: Form = request.param
    try:
        made = RowProduct.made(engine().library, found.bare(1, 16, 8), ())
    except Unimplemented:
        made = None
    if made is None:
        pytest.skip("the CPU has no AVX2, or oneDNN has another layout, or the system allows no executable memory")
    return found


def _drawn(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _product(
    form: Form, row: Array, weights: Array, bias: Array | None, added: Array | None, posts: list[PostOp]
) -> Array:
    depth, columns = weights.shape
    made = RowProduct.made(engine().library, form.bare(1, depth, columns, bias=bias is not None), posts)
    assert made is not None
    result = np.full(columns + 72, 7, np.float32)
    arrays = {Argument.SRC: row, Argument.WEIGHTS: form.packed(weights), Argument.DST: result}
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


@pytest.mark.parametrize("units", [1, 2, 3, 9, 32, 125])
@pytest.mark.parametrize("columns", [2, 3, 8, 20, 24, 32, 39, 40, 63, 64, 65, 128, 517, 520, 1153])
def test_sizes(form: Form, units: int, columns: int) -> None:
    """Around the blocks that a thread takes at once; a bias and a residual alone and together."""
    depth = units * form.multiple
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
        found = _product(form, row, weights, start, more, posts)
        exact = _exact(row, weights, start, more)
        assert np.abs(found - exact).max() <= 2e-6 * np.abs(row.astype(np.float64)) @ np.abs(weights).max(axis=1) + 1e-6


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("columns", [40, 1153, 4096])
def test_threads_share_the_blocks(form: Form, columns: int, threads: int) -> None:
    row, weights = _drawn(64, seed=1), _drawn(64, columns, seed=2)
    made = RowProduct.made(engine().library, form.bare(1, 64, columns), ())
    assert made is not None
    packed, result = form.packed(weights), np.zeros(columns, np.float32)
    arrays = {Argument.SRC: row, Argument.WEIGHTS: packed, Argument.DST: result}
    calls = made.calls({code: array.ctypes.data for code, array in arrays.items()}, threads)
    run = CallList(calls, ["prepare", "product"])
    for place, code in made.bound:
        run.pointers[CallList.place(0, place)] = ffi.cast("void *", arrays[code].ctypes.data)
    for _ in range(2):
        result[:] = 0
        run.run()
        np.testing.assert_allclose(result, _exact(row, weights), rtol=1e-5, atol=1e-4)


def test_what_is_not_finite_stays_in_its_columns(form: Form) -> None:
    """Infinities times zero are NaN, and no neighbour notices."""
    row, weights = _drawn(64, seed=5), _drawn(64, 48, seed=6)
    weights[3, 17], weights[9, 18] = np.nan, np.inf
    row[20] = np.inf
    weights[20] = 1
    weights[20, 5] = 0
    found = _product(form, row, weights, None, None, [])
    wanted = np.full(48, np.inf)
    wanted[[17, 5]] = np.nan
    wanted[18] = np.inf if row[9] > 0 else np.nan
    np.testing.assert_array_equal(found, wanted)


def test_what_there_is_no_code_for(form: Form) -> None:
    """Several rows, a depth that is no whole number of units, and other functions behind."""
    library = engine().library
    assert RowProduct.made(library, form.bare(2, 16, 16), ()) is None
    assert RowProduct.made(library, form.bare(1, 20, 16), ()) is None
    bare = form.bare(1, 16, 16)
    column = Operand(Binary.ADD, Desc.plain((1, 1)))
    for post in (Function(Eltwise.RELU), Operand(Binary.MUL, Desc.any((1, 16))), column, Accumulate(0.5)):
        assert RowProduct.made(library, bare, [post]) is None
    assert RowProduct.made(library, bare, [Accumulate(), Function(Eltwise.RELU)]) is None


def test_reach_has_all_that_is_read(form: Form) -> None:
    made = RowProduct.made(engine().library, form.bare(1, 16, 16, bias=True), [Operand(Binary.ADD, Desc.any((1, 16)))])
    assert made is not None
    codes = [one[0] for one in made.reach if not one[3]]
    assert codes == [Argument.SRC, Argument.WEIGHTS, Argument.BIAS, Argument.post_op(0)]
