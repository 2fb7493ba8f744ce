"""GatherBlockQuantized against onnxruntime, and a table that is dequantised as a whole."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, sample
from .closed_forms import contrib, rounded_once, runtime_with_initializers

_FOUR_BITS = (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4))
_FLOATS = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn")
)


def _scale_shape(shape: tuple[int, ...], axis: int, block: int) -> tuple[int, ...]:
    return tuple(-(-dim // block) if i == axis else dim for i, dim in enumerate(shape))


def _table(data: Any, scales: Any, zeros: Any, axis: int, block: int) -> Any:
    """The whole table in float64."""
    places = np.arange(data.shape[axis]) // block
    wide = data.astype(np.float64)
    if zeros is not None:
        wide = wide - np.take(zeros.astype(np.float64), places, axis)
    return wide * np.take(scales.astype(np.float64), places, axis)


@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (0, 2), (2, 2), (1, -1), (-1, 0)], ids=str)
@pytest.mark.parametrize("dtype", _FOUR_BITS, ids=str)
def test_four_bits(dtype: Any, axes: tuple[int, int], with_zeros: bool) -> None:
    """Gathered along any axis, the quantised one too; the last block is not full."""
    shape = (20, 18, 40)
    scales = _scale_shape(shape, axes[1] % 3, 16)
    inputs = [sample(shape, dtype, 0, 0, 7), np.array([[0, 3, -1], [-18, 17, 5]]), sample(scales, np.float32, 2)]
    if with_zeros:
        inputs.append(sample(scales, dtype, 3, 0, 7))
    attributes = {"gather_axis": axes[0], "quantize_axis": axes[1], "block_size": 16}
    constants = (0, 2, 3)[: 2 + with_zeros]
    expected = runtime_with_initializers("GatherBlockQuantized", inputs, constants, **attributes)
    assert_close(contrib("GatherBlockQuantized", inputs, **attributes), expected)


@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_bytes(bits: int, with_zeros: bool) -> None:
    """Values packed along the last axis; the default zero point is the middle; other indices give zeros."""
    rng = np.random.default_rng(bits)
    inputs = [rng.integers(0, 256, (20, 40 * bits // 8), dtype=np.uint8), np.array([0, -20, 19, 20, -21], np.int32)]
    inputs.append(sample((20, 3), np.float32))
    if with_zeros:
        inputs.append(rng.integers(0, 256, (20, -(-3 * bits // 8)), dtype=np.uint8))
    attributes = {"bits": bits, "quantize_axis": -1, "block_size": 16}
    constants = (0, 2, 3)[: 2 + with_zeros]
    expected = runtime_with_initializers("GatherBlockQuantized", inputs, constants, **attributes)
    (y,) = contrib("GatherBlockQuantized", inputs, **attributes)
    assert_close(y, expected[0])
    assert not y[3:].any()


@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("one", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("dtype", _FLOATS, ids=str)
def test_floating_point_tables(dtype: Any, one: bool, block: int) -> None:
    """No zero points; ``block_size=0`` is one block a row, and scales may be shared by all rows."""
    x = sample((9, 40), dtype, 0)
    scales = sample((1 if one else 9, 3 if block else 1), np.float32, 1)
    inputs = [x, np.array([3, -1, 9, 0]), scales]
    (y,) = contrib("GatherBlockQuantized", inputs, block_size=block)
    exact = _table(x, np.broadcast_to(scales, (9, scales.shape[1])), None, 1, block or 40)[[3, -1, 0, 0]]
    exact[2] = 0
    rounded_once(y, exact, np.float32)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=str)
def test_narrow_scales(dtype: Any) -> None:
    """The result has the scales' type and is rounded once."""
    data, scales = sample((6, 32), _FOUR_BITS[0]), sample((6, 2), dtype, 1)
    (y,) = contrib("GatherBlockQuantized", [data, np.array([5, 0, 2]), scales], block_size=16)
    rounded_once(y, _table(data, scales, None, 1, 16)[[5, 0, 2]], dtype)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(-3, 2),
    st.integers(-3, 2),
    st.lists(st.integers(0, 3), max_size=2),
    st.booleans(),
    st.integers(0, 99),
)
def test_any_axes(shape: list[int], gather: int, along: int, picked: list[int], zeros: bool, seed: int) -> None:
    """Tables of any rank, indices of any shape, none and scalars included."""
    rank = len(shape)
    gather, along = gather % rank, along % rank
    rng = np.random.default_rng(seed)
    data = sample(shape, _FOUR_BITS[0], seed)
    parameters = _scale_shape(tuple(shape), along, 16)
    inputs = [data, rng.integers(-shape[gather], shape[gather], picked), sample(parameters, np.float32, seed + 1)]
    inputs.append(sample(parameters, _FOUR_BITS[0], seed + 2) if zeros else None)
    (y,) = contrib("GatherBlockQuantized", inputs, gather_axis=gather, quantize_axis=along, block_size=16)
    rounded_once(y, np.take(_table(data, inputs[2], inputs[3], along, 16), inputs[1], gather), np.float32)


@pytest.mark.parametrize("gather", [0, 1])
def test_many_slices(gather: int) -> None:
    """They are dequantised in parts, along any axis."""
    data, scales = sample((30, 40, 64), _FOUR_BITS[0]), sample((30, 40, 4), np.float32, 1)
    indices = np.random.default_rng(0).integers(0, 30, 500)
    (y,) = contrib("GatherBlockQuantized", [data, indices, scales], gather_axis=gather, quantize_axis=2, block_size=16)
    rounded_once(y, np.take(_table(data, scales, None, 2, 16), indices, gather), np.float32)


def test_an_empty_axis() -> None:
    """No index is in range there, so all slices are zeros."""
    inputs = [np.zeros((0, 16), np.uint8), np.array([0, 1]), np.zeros((0, 2), np.float32)]
    (y,) = contrib("GatherBlockQuantized", inputs, block_size=16)
    np.testing.assert_array_equal(y, np.zeros((2, 32)))


_DATA = np.zeros((4, 16), np.uint8)


@pytest.mark.parametrize(
    ("data", "scales", "zeros", "attributes", "message"),
    [
        (_DATA, (4, 2), None, {"block_size": 8}, r"block_size is 8[\s\S]*at least 16\."),
        (_DATA.astype(_FLOATS[0]), (4, 1), None, {"block_size": 8}, r"block_size is 8[\s\S]*or 0 for one block"),
        (_DATA, (4, 2), None, {"bits": 3, "block_size": 16}, r"bits is 3 for data of type uint8[\s\S]*2, 4 or 8"),
        (_DATA.astype(_FOUR_BITS[0]), (4, 1), None, {"bits": 8, "block_size": 16}, "bits is 8 for data of type int4"),
        (_DATA, (4, 2), None, {"gather_axis": 1, "block_size": 16}, "gather_axis is 1 and quantize_axis 1 for uint8"),
        (_DATA, (4, 3), None, {"block_size": 16}, r"The scales need the shape \(4, 2\)"),
        (_DATA, (4, 2), (4, 2), {"block_size": 16}, r"The zero points need the shape \(4, 1\)"),
        (_DATA.astype(_FLOATS[0]), (4, 1), (4, 1), {"block_size": 16}, "There are zero points for data of type float8"),
        (_DATA, (4, 2), None, {"quantize_axis": 2, "block_size": 16}, "Axis 2 is out of range"),
    ],
)
def test_what_does_not_fit_is_refused(
    data: Any, scales: Any, zeros: Any, attributes: dict[str, int], message: str
) -> None:
    """Attributes, and shapes of scales and zero points."""
    inputs = [data, np.array([0]), np.ones(scales, np.float32)]
    if zeros is not None:
        inputs.append(np.ones(zeros, data.dtype))
    with pytest.raises(InvalidArgument, match=message):
        contrib("GatherBlockQuantized", inputs, **attributes)
