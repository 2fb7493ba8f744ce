"""Sums of products of bytes over windows in machine code: whole numbers are exact for every size, type and geometry."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.integer_windows import (
    Residual,
    WindowSums,
    has_window_sums,
    packed_factors,
    packed_weights,
)
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.widening import Widening
from ort_py_onednn.execution.large_pages import aligned

Array: TypeAlias = np.ndarray[Any, Any]

TYPES = {Element.U8: np.uint8, Element.S8: np.int8, F32: np.float32}
LIMITS = {Element.U8: (0, 255), Element.S8: (-128, 127), F32: (-np.inf, np.inf)}
FENCE = 64


@pytest.fixture(autouse=True)
def has_code() -> None:
    """Skip where there is no code."""
    if not has_window_sums(engine().library):
        pytest.skip("the CPU has no AVX2, or AVX-512, or the system allows no executable memory")


def _run(code: OwnCode, arrays: dict[int, Array], threads: int) -> Array:
    """The bytes of the result, behind which nothing is written."""
    size = code.arguments[Argument.DST].nbytes
    given = {}
    for argument, array in arrays.items():
        given[argument] = aligned(array.nbytes)
        given[argument][:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    given[Argument.DST] = aligned(size + FENCE)
    given[Argument.DST][:] = 99
    for _ in range(threads):  # whoever comes second finds no work
        code.run(given)
    assert (given[Argument.DST][size:] == 99).all()
    return given[Argument.DST][:size]


def _widened(x: Array, pads: tuple[int, int, int, int], zero: int) -> tuple[Desc, Array]:
    source = Desc.channels_last(x.shape, Element.U8 if x.dtype == np.uint8 else Element.S8)
    code = Widening(engine().library, source, pads, zero)
    made = _run(code, {Argument.SRC: x.transpose(0, 2, 3, 1), Argument.SRC_1: code.table}, 1)
    desc = code.arguments[Argument.DST]
    return desc, made.view(np.int16).reshape(*desc.dims[:3], -1)


def _padded(x: Array, pads: tuple[int, int, int, int], zero: int) -> Array:
    above, left, below, right = pads
    return np.pad(x.astype(np.int64) - zero, ((0, 0), (0, 0), (above, below), (left, right)))


def _sums(x: Array, w: Array, strides: tuple[int, int], dilations: tuple[int, int]) -> Array:
    """Exact sums of products over the windows of a padded picture."""
    spans = [(size - 1) * step + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, (2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64)))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 12, 16, 20])
def test_a_picture_is_widened_with_zeroes_around_it(dtype: type[np.integer[Any]], channels: int) -> None:
    rng = np.random.default_rng(channels)
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, (2, channels, 5, 7), endpoint=True).astype(dtype)
    _, found = _widened(x, (1, 2, 0, 3), int(limits.max))
    wanted = _padded(x, (1, 2, 0, 3), int(limits.max)).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(found[..., :channels], wanted)
    assert not found[..., channels:].any()


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("result", [Element.U8, Element.S8, F32])
def test_sums_are_exact(seed: int, result: Element) -> None:
    """Largest numbers, too, of which two products do not fit into 16 bits; halves are rounded to even."""
    rng = np.random.default_rng(seed)
    channels = int(4 * rng.integers(1, 12) if seed % 3 else rng.integers(1, 4))
    outputs = int(8 * rng.integers(1, 8))
    kernel, dilations, strides = ((int(rng.integers(1, most)), int(rng.integers(1, most))) for most in (5, 3, 4))
    pads = (int(rng.integers(4)), int(rng.integers(4)), int(rng.integers(4)), int(rng.integers(4)))
    sizes = [int(rng.integers(1, 16)) + (one - 1) * step for one, step in zip(kernel, dilations, strict=True)]
    source = np.uint8 if rng.integers(2) else np.int8
    limits = np.iinfo(source)
    x = rng.integers(limits.min, limits.max, (int(rng.integers(1, 4)), channels, *sizes), endpoint=True).astype(source)
    w = rng.integers(-128, 127, (outputs, channels, *kernel), endpoint=True).astype(np.int8)
    if seed % 5 == 0:
        x[:], w[:] = limits.max, -128
    zero = int(rng.integers(limits.min, limits.max, endpoint=True))
    desc, wide = _widened(x, pads, zero)
    exact = _sums(_padded(x, pads, zero), w, strides, dilations)
    added = int(rng.integers(int(LIMITS[result][0]), int(LIMITS[result][1]), endpoint=True)) if result != F32 else 0
    low, high = (bound - added for bound in LIMITS[result])
    # Powers of two, so that real numbers are exact, and halves are halves.
    scales = 2.0 ** -rng.integers(4, 12, outputs)
    bias = rng.integers(-64, 64, outputs) / 2
    factors, packed = packed_factors(scales, bias, (low, high), added), packed_weights(w)
    target = Desc.channels_last(exact.shape, result)
    whole = Desc.plain(packed.shape, Element.S32), Desc.plain(factors.shape), target
    code = WindowSums(engine().library, desc, *whole, kernel, strides, dilations)
    given = {Argument.SRC: wide, Argument.SRC_1: code.table, Argument.WEIGHTS: packed, Argument.BIAS: factors}
    batch, _, height, width = exact.shape
    found = _run(code, given, 2).view(TYPES[result]).reshape(batch, height, width, outputs).transpose(0, 3, 1, 2)
    real = exact * scales[:, None, None] + bias[:, None, None]
    if result != F32:
        real = np.rint(np.clip(real, low, high)) + added
    np.testing.assert_array_equal(found, real.astype(TYPES[result]))


def test_bounds_hold_for_real_numbers() -> None:
    x, w = np.full((1, 4, 1, 3), 100, np.uint8), np.full((8, 4, 1, 1), 2, np.int8)
    x[..., 0], x[..., 2] = 0, 50
    desc, wide = _widened(x, (0, 0, 0, 0), 0)
    factors, packed = packed_factors(np.ones(8), np.zeros(8), (100.0, 500.0), 0), packed_weights(w)
    target = Desc.channels_last((1, 8, 1, 3))
    whole = Desc.plain(packed.shape, Element.S32), Desc.plain(factors.shape), target
    code = WindowSums(engine().library, desc, *whole, (1, 1), (1, 1), (1, 1))
    given = {Argument.SRC: wide, Argument.SRC_1: code.table, Argument.WEIGHTS: packed, Argument.BIAS: factors}
    found = _run(code, given, 1).view(np.float32).reshape(3, 8)
    np.testing.assert_array_equal(found, np.repeat(np.array([[100], [500], [400]], np.float32), 8, axis=1))


@pytest.mark.parametrize("outputs", [8, 24, 32])
@pytest.mark.parametrize("added", [Element.U8, Element.S8])
@pytest.mark.parametrize("rounds", [False, True])
def test_a_tensor_of_bytes_is_added(outputs: int, added: Element, rounds: bool) -> None:
    """Behind a rounding or not, and in front of a slope, bounds and the last rounding."""
    rng = np.random.default_rng(outputs)
    x = rng.integers(0, 255, (2, 4, 3, 5), endpoint=True).astype(np.uint8)
    w = rng.integers(-128, 127, (outputs, 4, 1, 1), endpoint=True).astype(np.int8)
    other = rng.integers(int(LIMITS[added][0]), int(LIMITS[added][1]), (2, outputs, 3, 5), endpoint=True).astype(
        TYPES[added]
    )
    desc, wide = _widened(x, (0, 0, 0, 0), 128)
    residual = Residual(added, rounds, (0.5, -3.0), (0.25, 8.0), (-37.0, 90.0))
    scales, bias = np.full(outputs, 2.0**-7), np.arange(outputs) / 4
    factors = packed_factors(scales, bias, (-128.0, 127.0), 37, residual)
    packed, target = packed_weights(w), Desc.channels_last(other.shape, Element.U8)
    whole = Desc.plain(packed.shape, Element.S32), Desc.plain(factors.shape), target
    code = WindowSums(engine().library, desc, *whole, (1, 1), (1, 1), (1, 1), residual)
    given = {Argument.SRC: wide, Argument.SRC_1: code.table, Argument.WEIGHTS: packed, Argument.BIAS: factors}
    given[Argument.post_op(0)] = other.transpose(0, 2, 3, 1)
    found = _run(code, given, 2).reshape(2, 3, 5, outputs).transpose(0, 3, 1, 2)
    real = _sums(_padded(x, (0, 0, 0, 0), 128), w, (1, 1), (1, 1)) * 2.0**-7 + bias[:, None, None]
    real = np.clip(real, -128, 127)
    real = np.rint(real) if rounds else real
    real = 0.25 * (0.5 * real - 3 + other) + 8
    np.testing.assert_array_equal(found, np.rint(np.clip(real, -37, 90)) + 37)
