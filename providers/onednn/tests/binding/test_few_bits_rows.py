"""Products of several rows with weights of 4 and 8 bits in machine code: closed forms, sums around them, threads."""

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
from ort_py_onednn.binding.few_bits import has_dots, has_few_bits
from ort_py_onednn.binding.few_bits_rows import FewBitsRows, RoundedRows
from ort_py_onednn.binding.primitive import Accumulate, Function, Operand, PostOp, Unimplemented
from ort_py_onednn.execution.elements import as_bytes
from ort_py_onednn.execution.few_bits_panels import panels
from ort_py_onednn.execution.large_pages import aligned

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _needs_code() -> None:
    if not has_few_bits(engine().library, 4, 32):
        pytest.skip("the CPU has no AVX2, or the system allows no executable memory")


@pytest.fixture(params=[True, False], ids=["dots", "pairs"])
def _either_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code for AVX-512 with VNNI, where there is that, and the one for AVX2."""
    if request.param and not has_dots(engine().library):
        pytest.skip("the CPU has no AVX-512 with VNNI")
    monkeypatch.setattr("ort_py_onednn.binding.few_bits_rows.has_dots", lambda _: request.param)


def _case(bits: int, rows: int, dims: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    """Rows, weights that use all their bits, and scales of both signs."""
    count, size, columns = dims
    rng = np.random.default_rng(rows + count * size + columns)
    half = 1 << (bits - 1)
    weights = rng.integers(-half, half, dims).astype(np.int8)
    weights[0, 0, 0], weights[-1, -1, -1] = -half, half - 1
    source = (rng.standard_normal((rows, count * size)) * np.exp(rng.standard_normal(count * size))).astype(np.float32)
    return source, weights, rng.standard_normal((count, 1, columns)).astype(np.float32)


def _exact(source: Array, weights: Array, scales: Array) -> tuple[Array, Array]:
    """The products, and the sums of the sizes of their terms."""
    real = (weights * scales.astype(np.float64)).reshape(source.shape[1], -1)
    return source.astype(np.float64) @ real, np.abs(source.astype(np.float64)) @ np.abs(real)


def _product(
    bits: int,
    source: Array,
    weights: Array,
    scales: Array,
    bias: Array | None = None,
    added: Array | None = None,
    posts: Sequence[PostOp] = (),
    *,
    rounded: bool = False,
    threads: int = 1,
) -> Array:
    """The products, run by a list of calls, twice."""
    library, rows, columns = engine().library, len(source), weights.shape[2]
    made = FewBitsRows(
        library,
        bits,
        rows,
        weights.shape,
        rounded=rounded,
        biased=bias is not None,
        posts=posts,
        threads=threads,
    )
    result = np.full(rows * columns + 72, 7, np.float32)
    arrays: dict[int, Array] = {
        Argument.SRC: source,
        Argument.WEIGHTS: panels(weights, scales, bits),
        Argument.DST: result,
        Argument.SCRATCHPAD: aligned(made.arguments[Argument.SCRATCHPAD].nbytes),
    }
    if rounded:
        rounding = RoundedRows(library, bits, rows, *weights.shape[:2])
        arrays[Argument.SRC_1] = aligned(rounding.arguments[Argument.DST].nbytes)
        rounding.run({Argument.SRC: as_bytes(source), Argument.DST: arrays[Argument.SRC_1]})
    if bias is not None:
        arrays[Argument.BIAS] = bias
    if added is not None and posts != [Accumulate()]:
        arrays[Argument.post_op(0)] = added
    calls = made.calls({code: array.ctypes.data for code, array in arrays.items()}, threads)
    run = CallList(calls, ["product"] * len(calls))
    for place, one in made.bound:
        run.pointers[CallList.place(0, place)] = ffi.cast("void *", arrays[one].ctypes.data)
    for _ in range(2):
        result[:] = 7
        if posts == [Accumulate()] and added is not None:
            result[: rows * columns] = added.reshape(-1)
        run.run()
    assert (result[rows * columns :] == 7).all()
    return result[: rows * columns].reshape(rows, columns)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("count", "size"), [(1, 16), (3, 32), (2, 96), (5, 64), (2, 256)])
@pytest.mark.parametrize("columns", [1, 8, 63, 64, 65, 200])
@pytest.mark.parametrize("rows", [2, 5, 6, 13, 37, 80])
def test_sizes(bits: int, rows: int, count: int, size: int, columns: int) -> None:
    """Around the rows of a tile and of a group, and the columns of a panel; sums in front, behind, and both."""
    source, weights, scales = _case(bits, rows, (count, size, columns))
    exact, largest = _exact(source, weights, scales)
    rng = np.random.default_rng(1)
    bias = rng.standard_normal(columns).astype(np.float32)
    residual = rng.standard_normal((rows, columns)).astype(np.float32)
    behind: list[PostOp] = [Operand(Binary.ADD, Desc.plain((rows, columns)))]
    nothing: list[PostOp] = []
    summing: list[PostOp] = [Accumulate()]
    for start, more, posts in (
        (None, None, nothing),
        (bias, None, nothing),
        (None, residual, behind),
        (bias, residual, summing),
    ):
        found = _product(bits, source, weights, scales, start, more, posts)
        wanted = exact + sum(one.astype(np.float64) for one in (start, more) if one is not None)
        assert (np.abs(found - wanted) <= 4e-6 * largest + 1e-6).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_a_panel_of_the_rest_is_computed_as_others_are(bits: int) -> None:
    """A column gives the same bits whether its panel is full or not, and a row whatever rows stand beside it."""
    source, weights, scales = _case(bits, 40, (6, 32, 64))
    whole = _product(bits, source, weights, scales)
    part = _product(bits, source[:17], weights[..., :63], scales[..., :63])
    np.testing.assert_array_equal(part, whole[:17, :63])


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("columns", [40, 1153])
def test_threads_share_the_panels(columns: int, threads: int, rounded: bool) -> None:
    source, weights, scales = _case(4, 7, (2, 32, columns))
    wanted = _product(4, source, weights, scales, rounded=rounded)
    found = _product(4, source, weights, scales, rounded=rounded, threads=threads)
    np.testing.assert_array_equal(found, wanted)


def _bytes_of(source: Array, size: int) -> tuple[Array, Array]:
    """Rows as bytes times the scale of their block; and how far another rounding of numbers in the middle is away."""
    blocks = source.astype(np.float64).reshape(len(source), -1, size)
    units = np.maximum(np.abs(blocks).max(axis=2, keepdims=True), 2.0**-119) / 127
    places = blocks / units
    middle = np.abs(places - np.floor(places) - 0.5) < 1e-4
    return (np.rint(places) * units).reshape(source.shape), (middle * units).reshape(source.shape)


@pytest.mark.usefixtures("_either_code")
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("count", "size"), [(1, 16), (18, 32), (2, 96), (1, 256)])
@pytest.mark.parametrize("columns", [64, 65, 192])
@pytest.mark.parametrize("rows", [2, 5, 6, 13, 80])
def test_rounded_rows(bits: int, rows: int, count: int, size: int, columns: int) -> None:
    """Products of rows as bytes are exact but for the rounding of sums."""
    source, weights, scales = _case(bits, rows, (count, size, columns))
    weights[0, :, 1], source[1, :size] = -(1 << (bits - 1)), 3  # the largest sums of products that there are
    weights[0, :, 2], source[0, :size] = (1 << (bits - 1)) - 1, -3
    bias = np.random.default_rng(2).standard_normal(columns).astype(np.float32)
    found = _product(bits, source, weights, scales, bias, rounded=True)
    of_bytes, middle = _bytes_of(source, size)
    real = (weights * scales.astype(np.float64)).reshape(source.shape[1], -1)
    _, largest = _exact(source, weights, scales)
    assert (np.abs(found - (of_bytes @ real + bias)) <= middle @ np.abs(real) + 4e-6 * largest + 1e-6).all()


@pytest.mark.usefixtures("_either_code")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rounded_rows_that_are_not_finite_are_exact(bad: float) -> None:
    """So are those of their group."""
    source, weights, scales = _case(4, 7, (2, 32, 128))
    source[4, 40] = bad
    found = _product(4, source, weights, scales, rounded=True)
    np.testing.assert_array_equal(found, _product(4, source, weights, scales))


@pytest.mark.parametrize("bits", [4, 8])
def test_what_is_not_finite_stays_in_its_columns_and_rows(bits: int) -> None:
    """Infinity times a weight of zero is NaN, and a scale that is NaN makes one column NaN."""
    source, weights, scales = _case(bits, 3, (2, 16, 70))
    weights[weights == 0] = 1
    source[1, 5] = np.inf
    weights[0, 5, 3] = 0
    scales[1, 0, 66] = np.nan
    scales[0] = np.abs(scales[0]) + 1
    found = _product(bits, source, weights, scales)
    wanted = np.where(weights[0, 5] > 0, np.inf, -np.inf)
    wanted[[3, 66]] = np.nan
    np.testing.assert_array_equal(found[1], wanted)
    assert np.isfinite(np.delete(found[[0, 2]], 66, axis=1)).all()


def test_more_than_an_addition_behind_is_refused() -> None:
    refused: list[list[PostOp]] = [
        [Function(Eltwise.RELU)],
        [Operand(Binary.MUL, Desc.plain((2, 64)))],
        [Operand(Binary.ADD, Desc.plain((1, 64)))],
        [Accumulate(), Accumulate()],
    ]
    for posts in refused:
        with pytest.raises(Unimplemented):
            FewBitsRows(engine().library, 4, 2, (1, 32, 64), rounded=False, biased=False, posts=posts, threads=1)
