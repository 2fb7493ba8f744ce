"""Products of a row with weights of 4 and 8 bits in machine code: closed forms, sums in front and behind, threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import CallList
from ort_py_onednn.binding.constants import Argument, Binary, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.executable import executable
from ort_py_onednn.binding.few_bits import FewBitsProduct, has_few_bits, panels_of
from ort_py_onednn.binding.primitive import Accumulate, Function, Operand, PostOp, Unimplemented
from ort_py_onednn.binding.row_few_bits import code
from ort_py_onednn.execution.elements import as_bytes
from ort_py_onednn.execution.few_bits_panels import panels

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _needs_code() -> None:
    if not has_few_bits(engine().library, 4, 32):
        pytest.skip("the CPU has no AVX2, or the system allows no executable memory")


def _case(bits: int, dims: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    """A row, weights that use all their bits, and scales of both signs."""
    count, size, columns = dims
    rng = np.random.default_rng(count * size + columns)
    half = 1 << (bits - 1)
    weights = rng.integers(-half, half, dims).astype(np.int8)
    weights[0, 0, 0], weights[-1, -1, -1] = -half, half - 1
    row = (rng.standard_normal(count * size) * np.exp(rng.standard_normal(count * size))).astype(np.float32)
    return row, weights, rng.standard_normal((count, 1, columns)).astype(np.float32)


def _exact(row: Array, weights: Array, scales: Array) -> tuple[Array, Array]:
    """The product, and the sum of the sizes of its terms."""
    real = (weights * scales.astype(np.float64)).reshape(len(row), -1)
    return row.astype(np.float64) @ real, np.abs(row.astype(np.float64)) @ np.abs(real)


def _product(
    bits: int,
    row: Array,
    weights: Array,
    scales: Array,
    bias: Array | None = None,
    added: Array | None = None,
    posts: Sequence[PostOp] = (),
    *,
    coarse: bool = False,
) -> Array:
    count, size, columns = weights.shape
    made = FewBitsProduct(
        engine().library, bits, (count, size, columns), coarse=coarse, biased=bias is not None, posts=posts
    )
    result = np.full(columns + 72, 7, np.float32)
    arrays = {Argument.SRC: row, Argument.WEIGHTS: panels(weights, scales, bits), Argument.DST: result}
    if bias is not None:
        arrays[Argument.BIAS] = bias
    if posts == [Accumulate()] and added is not None:
        result[:columns] = added
    elif added is not None:
        arrays[Argument.post_op(0)] = added
    made.run({code: as_bytes(array) for code, array in arrays.items()})
    assert (result[columns:] == 7).all()
    return result[:columns]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("count", "size"), [(1, 16), (3, 16), (1, 32), (18, 32), (5, 64), (2, 256)])
@pytest.mark.parametrize("columns", [1, 7, 8, 31, 32, 33, 63, 64, 65, 128, 200, 577])
def test_sizes(bits: int, count: int, size: int, columns: int) -> None:
    """Around the columns of a panel and of its registers; a bias and a residual alone and together."""
    row, weights, scales = _case(bits, (count, size, columns))
    exact, largest = _exact(row, weights, scales)
    rng = np.random.default_rng(1)
    bias, residual = (rng.standard_normal(columns).astype(np.float32) for _ in range(2))
    behind: list[PostOp] = [Operand(Binary.ADD, Desc.plain((1, columns)))]
    nothing: list[PostOp] = []
    summing: list[PostOp] = [Accumulate()]
    for start, more, posts in (
        (None, None, nothing),
        (bias, None, nothing),
        (None, residual, behind),
        (bias, residual, summing),
    ):
        found = _product(bits, row, weights, scales, start, more, posts)
        wanted = exact + sum(one.astype(np.float64) for one in (start, more) if one is not None)
        assert (np.abs(found - wanted) <= 4e-6 * largest + 1e-6).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_a_panel_of_the_rest_is_computed_as_others_are(bits: int) -> None:
    """A column gives the same bits whether its panel is full, which has wider code on some CPUs, or not."""
    row, weights, scales = _case(bits, (6, 32, 64))
    whole = _product(bits, row, weights, scales)
    part = _product(bits, row, weights[..., :63], scales[..., :63])
    np.testing.assert_array_equal(part, whole[:63])


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", [16, 32, 96, 128])
def test_code_for_avx2_gives_the_same_bits(bits: int, size: int, coarse: bool) -> None:
    """Also where this CPU has more: what narrower code gives is not a matter of the machine."""
    count, columns = 3, 192
    row, weights, scales = _case(bits, (count, size, columns))
    weights[0], row[:size] = -(1 << (bits - 1)), 3  # the largest sums of products that there are
    weights[1], row[size : 2 * size] = (1 << (bits - 1)) - 1, -3
    made = FewBitsProduct(engine().library, bits, (count, size, columns), coarse=coarse, biased=False, posts=[])
    address = executable(code(bits, size, wide=False, rounded=coarse))
    held, result = panels(weights, scales, bits), np.empty(columns, np.float32)
    work = made.work({Argument.WEIGHTS: held.ctypes.data})
    work[0], work[1] = row.ctypes.data, result.ctypes.data
    ffi.cast("void (*)(void *)", address)(work)
    np.testing.assert_array_equal(result, _product(bits, row, weights, scales, coarse=coarse))


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("columns", [40, 1153, 4096])
def test_threads_share_the_panels(columns: int, threads: int, coarse: bool) -> None:
    dims = (2, 32, columns)
    row, weights, scales = _case(4, dims)
    made = FewBitsProduct(engine().library, 4, dims, coarse=coarse, biased=False, posts=[])
    result = np.zeros(columns, np.float32)
    arrays = {Argument.SRC: row, Argument.WEIGHTS: panels(weights, scales, 4), Argument.DST: result}
    calls = made.calls({code: array.ctypes.data for code, array in arrays.items()}, threads)
    run = CallList(calls, ["prepare", "product"])
    for place, one in made.bound:
        run.pointers[CallList.place(0, place)] = ffi.cast("void *", arrays[one].ctypes.data)
    wanted = _product(4, row, weights, scales, coarse=coarse)
    for _ in range(2):
        result[:] = 0
        run.run()
        np.testing.assert_array_equal(result, wanted)


def _rounded(row: Array, size: int) -> Array:
    """The row as bytes times the scale of their block: what accuracy level 4 allows."""
    blocks = row.astype(np.float64).reshape(-1, size)
    scales = np.maximum(np.abs(blocks).max(axis=1, keepdims=True), 2.0**-119) / 127
    return np.asarray((np.rint(blocks / scales) * scales).reshape(-1))


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("count", "size"), [(1, 16), (3, 32), (18, 32), (2, 128), (1, 256)])
@pytest.mark.parametrize("columns", [64, 65, 192, 256])
def test_coarse_products(bits: int, count: int, size: int, columns: int) -> None:
    """They are those of the row itself, or of the row as bytes where there is code for that, and nothing in between."""
    row, weights, scales = _case(bits, (count, size, columns))
    found = _product(bits, row, weights, scales, coarse=True)
    exact, largest = _exact(row, weights, scales)
    real = (weights * scales.astype(np.float64)).reshape(len(row), -1)
    of_bytes = _rounded(row, size) @ real
    allowed = 2e-5 * largest + 1e-6  # a number at the middle of two bytes may become either of them in float32
    steps = np.repeat(np.abs(row.reshape(-1, size)).max(axis=1) / 127, size) @ (np.abs(real) * _halves(row, size))
    near = np.minimum(np.abs(found - exact), np.maximum(np.abs(found - of_bytes) - steps, 0))
    assert (near <= allowed).all()


def _halves(row: Array, size: int) -> Array:
    """1 for numbers that lie in the middle of two bytes but for the rounding of float32, else 0."""
    blocks = row.astype(np.float64).reshape(-1, size)
    places = blocks / (np.maximum(np.abs(blocks).max(axis=1, keepdims=True), 2.0**-119) / 127)
    return np.asarray((np.abs(places - np.floor(places) - 0.5) < 1e-4).astype(np.float64).reshape(-1, 1))


@pytest.mark.parametrize("scale", [1e-45, 1e-37, 1e-30, 1.0, 1e30])
def test_coarse_products_of_any_size(scale: float) -> None:
    """Rows of zeroes, of subnormal numbers and of very large ones."""
    row, weights, scales = _case(4, (2, 32, 64))
    row = (row / np.abs(row).max() * scale).astype(np.float32)
    row[32:] = 0
    found = _product(4, row, weights, scales, coarse=True)
    exact, largest = _exact(row, weights, scales)
    # Half a step of a byte for each number; a step is a normal number.
    half = max(float(np.abs(row).max()), 2.0**-119) / 254
    assert (np.abs(found - exact) <= 1.001 * half * np.abs(weights * scales).sum(axis=(0, 1)) + 1e-6 * largest).all()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_coarse_products_of_what_is_not_finite_are_exact(bad: float) -> None:
    row, weights, scales = _case(4, (2, 32, 128))
    row[40] = bad
    np.testing.assert_array_equal(
        _product(4, row, weights, scales, coarse=True), _product(4, row, weights, scales, coarse=False)
    )


@pytest.mark.parametrize("bits", [4, 8])
def test_what_is_not_finite_stays_in_its_columns(bits: int) -> None:
    """Infinity times a weight of zero is NaN, and a scale that is NaN makes one column NaN."""
    row, weights, scales = _case(bits, (2, 16, 70))
    weights[weights == 0] = 1
    row[5] = np.inf
    weights[0, 5, 3] = 0
    scales[1, 0, 66] = np.nan
    scales[0] = np.abs(scales[0]) + 1
    found = _product(bits, row, weights, scales)
    wanted = np.where(weights[0, 5] > 0, np.inf, -np.inf)
    wanted[[3, 66]] = np.nan
    np.testing.assert_array_equal(found, wanted)


def test_more_than_an_addition_behind_is_refused() -> None:
    refused: list[list[PostOp]] = [
        [Function(Eltwise.RELU)],
        [Operand(Binary.MUL, Desc.plain((1, 64)))],
        [Accumulate(), Accumulate()],
    ]
    for posts in refused:
        with pytest.raises(Unimplemented):
            FewBitsProduct(engine().library, 4, (1, 32, 64), coarse=False, biased=False, posts=posts)


def test_blocks_of_other_sizes_have_no_code() -> None:
    assert not has_few_bits(engine().library, 4, 24)


@pytest.mark.parametrize(("bits", "wanted"), [(4, (3, 2 * 5 * 256)), (8, (3, 2 * 9 * 256))])
def test_layout_of_panels(bits: int, wanted: tuple[int, int]) -> None:
    """Whole panels of 64 columns; a block has rows of 256 bytes and one of scales."""
    assert panels_of(bits, (2, 32, 130)).dims == wanted
