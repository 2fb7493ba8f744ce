"""GridSample: all modes, paddings and alignments against the reference and onnxruntime; types; what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_array.vision import grid_sample
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from ..oracle import BF16, agree, bound, run, sample
from ..runtime_oracle import agree_with_runtime
from ..standin import array_module, to_device, to_host

PADDINGS = ("zeros", "border", "reflection")
PIXEL = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)


def grid_of(*positions: float, rank: int = 1) -> Any:
    """A grid of one image with one row of positions, each the same along all axes."""
    values = np.array(positions, np.float32).reshape((1,) * rank + (-1, 1))
    return np.repeat(values, rank, axis=-1)


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    size=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    out=st.lists(st.integers(1, 2), min_size=3, max_size=3),
    batch=st.integers(1, 2),
    align_corners=st.integers(0, 1),
    seed=st.integers(0, 1000),
)
def test_any_number_of_axes_equals_the_reference(
    mode: str, padding_mode: str, size: list[int], out: list[int], batch: int, align_corners: int, seed: int
) -> None:
    """Lines, pictures and volumes, at positions far inside and far outside."""
    rank = len(size)
    x = sample((batch, 2, *size), np.float32, seed)
    grid = sample((batch, *out[:rank], rank), np.float32, seed + 1, low=-2.5, high=2.5)
    agree("GridSample", [x, grid], opset=20, mode=mode, padding_mode=padding_mode, align_corners=align_corners)


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("channels", [1, 3, 9])
def test_the_first_version_equals_onnxruntime(mode: str, padding_mode: str, align_corners: int, channels: int) -> None:
    """Its spelling of the modes, with few and many channels.

    Where one coordinate of a position is outside, onnxruntime moves both onto the border, which only a cubic shows; the
    reference moves only the one. There, positions have both coordinates on the same side.
    """
    x = sample((2, channels, 5, 7), np.float32)
    grid = sample((2, 6, 4, 2), np.float32, 1, low=-2, high=2)
    if (mode, padding_mode) == ("bicubic", "border"):
        grid = np.where(np.abs(grid).max(axis=-1, keepdims=True) > 1, np.sign(grid) * 1.5, grid)
    agree_with_runtime(
        "GridSample", [x, grid], opset=16, mode=mode, padding_mode=padding_mode, align_corners=align_corners
    )


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_volumes_equal_onnxruntime(mode: str, padding_mode: str) -> None:
    x, grid = sample((2, 3, 4, 5, 6), np.float32), sample((2, 3, 4, 5, 3), np.float32, 1, low=-1.5, high=1.5)
    agree_with_runtime("GridSample", [x, grid], opset=20, mode=mode, padding_mode=padding_mode)


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_double_positions_are_kept(mode: str, padding_mode: str) -> None:
    """Like onnxruntime, doubles have positions and weights in double; the reference rounds positions to float32."""
    x, grid = sample((1, 2, 6, 5), np.float64), sample((1, 4, 4, 2), np.float64, 1, low=-0.9, high=0.9)
    agree_with_runtime("GridSample", [x, grid], opset=22, mode=mode, padding_mode=padding_mode)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_narrow_floats_are_rounded_once(mode: str, dtype: Any) -> None:
    """Against the reference in double precision."""
    x, grid = sample((1, 2, 4, 4), dtype), sample((1, 3, 3, 2), dtype, 1, low=-1.2, high=1.2)
    agree("GridSample", [x, grid], opset=22, mode=mode, padding_mode="border")


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64, np.bool_, np.complex64, np.float64])
@pytest.mark.parametrize("padding_mode", PADDINGS)
def test_nearest_of_any_numbers(dtype: Any, padding_mode: str) -> None:
    """No arithmetic: every type passes through."""
    x, grid = sample((1, 2, 4, 3), dtype), sample((1, 3, 3, 2), np.float32, 1, low=-2, high=2)
    agree("GridSample", [x, grid], opset=20, mode="nearest", padding_mode=padding_mode)


def test_nearest_of_strings() -> None:
    """Outside there are empty strings, or those of the border."""
    x = np.array(["a", "b", "c"], object).reshape(1, 1, 3)
    grid = grid_of(-5.0, -1.0, 0.0, 1.0, 5.0)
    (zeros,) = run("GridSample", [x, grid], opset=20, mode="nearest", align_corners=1)
    (border,) = run("GridSample", [x, grid], opset=20, mode="nearest", padding_mode="border", align_corners=1)
    assert zeros[0, 0].tolist() == ["", "a", "b", "c", ""]
    assert border[0, 0].tolist() == ["a", "a", "b", "c", "c"]


def test_interpolated_integers_are_cut_off() -> None:
    """Computed as floating point and cast at the end: towards zero."""
    x = np.array([[[-3, 0, 3, 4]]], np.int32)
    (y,) = run("GridSample", [x, grid_of(-2 / 3, 0.0, 2 / 3)], opset=20, align_corners=1)
    assert y.dtype == np.int32
    assert y[0, 0].tolist() == [-1, 1, 3]


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint64])
def test_integers_beyond_their_range_saturate(dtype: Any) -> None:
    greatest = np.iinfo(dtype).max
    x = np.array([[[0, greatest, greatest, 0]]], dtype)
    (y,) = run("GridSample", [x, grid_of(0.0)], opset=20, mode="cubic", align_corners=1)
    assert int(y[0, 0, 0]) >= greatest - (2048 if greatest > 2**32 else 0)


def test_interpolated_truth_is_what_is_not_zero() -> None:
    """A bool is cast as a number is."""
    x = np.array([[[True, False, False]]])
    (y,) = run("GridSample", [x, grid_of(-0.9, 0.5)], opset=20, align_corners=1)
    assert y[0, 0].tolist() == [True, False]


def test_complex_numbers_are_interpolated() -> None:
    """Both parts as the real numbers they are."""
    real, imaginary = sample((1, 2, 4, 4), np.float32), sample((1, 2, 4, 4), np.float32, 1)
    grid = sample((1, 3, 3, 2), np.float32, 2)
    (y,) = run("GridSample", [(real + 1j * imaginary).astype(np.complex64), grid], opset=20)
    assert y.dtype == np.complex64
    np.testing.assert_allclose(y.real, run("GridSample", [real, grid], opset=20)[0], rtol=1e-5)
    np.testing.assert_allclose(y.imag, run("GridSample", [imaginary, grid], opset=20)[0], rtol=1e-5)


def test_pixels_outside_do_not_count_even_next_to_infinity() -> None:
    """Zero is zero, not a weight of zero on what is at the border."""
    x = np.full((1, 1, 2), np.inf, np.float32)
    (y,) = run("GridSample", [x, grid_of(-9.0, 9.0)], opset=20)
    np.testing.assert_array_equal(y[0, 0], [0, 0])


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_positions_without_a_value_give_none(mode: str, padding_mode: str) -> None:
    """NaN in, NaN out; infinity is far outside."""
    (y,) = run("GridSample", [PIXEL[0], grid_of(np.nan, 0.0)], opset=20, mode=mode, padding_mode=padding_mode)
    assert np.isnan(y[0, :, 0]).all()
    assert np.isfinite(y[0, :, 1]).all()
    (far,) = run("GridSample", [PIXEL[0], grid_of(np.inf, -np.inf)], opset=20, mode=mode, padding_mode=padding_mode)
    assert np.isfinite(far).all()


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_a_single_aligned_pixel_is_everywhere(mode: str, padding_mode: str) -> None:
    """Corners that are one point: every position is on it."""
    x = np.full((1, 1, 1), 5, np.float32)
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": 1}
    (y,) = run("GridSample", [x, grid_of(-3.0, 0.0, np.inf)], opset=20, **options)
    np.testing.assert_array_equal(y[0, 0], [5, 5, 5])


@pytest.mark.parametrize(
    ("x", "grid"), [((0, 2, 3, 3), (0, 2, 2, 2)), ((1, 0, 3, 3), (1, 2, 2, 2)), ((1, 2, 3, 3), (1, 0, 2, 2))]
)
def test_nothing_in_nothing_out(x: tuple[int, ...], grid: tuple[int, ...]) -> None:
    (y,) = run("GridSample", [np.ones(x, np.float32), np.zeros(grid, np.float32)], opset=20)
    assert y.shape == (*x[:2], *grid[1:-1])


def test_a_picture_without_pixels_is_zero_everywhere() -> None:
    """There is nothing inside; nothing can be repeated either."""
    x, grid = np.ones((1, 2, 0, 3), np.float32), np.zeros((1, 2, 2, 2), np.float32)
    np.testing.assert_array_equal(run("GridSample", [x, grid], opset=20)[0], np.zeros((1, 2, 2, 2)))
    with pytest.raises(InvalidArgument, match=r"has no pixels to sample with padding_mode 'border'[\s\S]*what to do"):
        run("GridSample", [x, grid], opset=20, padding_mode="border")


@pytest.mark.parametrize("channels", [2, 9])
def test_blocks_do_not_show(channels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few points at a time give the same."""
    x, grid = sample((3, channels, 5, 7), np.float32), sample((3, 6, 4, 2), np.float32, 1)
    (expected,) = run("GridSample", [x, grid], opset=20)
    for elements in (1, 5 * channels, 30 * channels):
        monkeypatch.setattr(grid_sample, "_ELEMENTS", elements)
        np.testing.assert_array_equal(run("GridSample", [x, grid], opset=20)[0], expected)


@pytest.mark.parametrize("channels", [2, 9])
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_the_stand_in_gives_the_same(mode: str, padding_mode: str, channels: int) -> None:
    """Both layouts, and modes that the suite's cases leave out."""
    inputs = [sample((2, channels, 4, 5), np.float32), sample((2, 3, 3, 2), np.float32, 1, low=-2, high=2)]
    options: dict[str, Any] = {"opset": 20, "mode": mode, "padding_mode": padding_mode}
    (y,) = run("GridSample", [to_device(value) for value in inputs], xp=array_module, **options)
    np.testing.assert_array_equal(to_host(y), run("GridSample", inputs, **options)[0])


def test_inputs_may_be_views() -> None:
    """Strided pictures and grids are read as they are."""
    x, grid = sample((1, 2, 5, 6), np.float32), sample((1, 3, 4, 2), np.float32, 1)
    definition, kernel = bound("GridSample", [x, grid], opset=20)
    assert definition.strided
    turned = kernel(np.swapaxes(x, 2, 3)[:, ::-1], grid[:, ::2])
    copies = [np.ascontiguousarray(np.swapaxes(x, 2, 3)[:, ::-1]), np.ascontiguousarray(grid[:, ::2])]
    np.testing.assert_array_equal(turned, kernel(*copies))


def test_the_result_is_announced() -> None:
    """A grid of zero stride is small, what it asks for need not be."""

    class Refusing(LocalKernelContext):
        def check_allocation(self, shape: Any, dtype: Any) -> None:
            if np.prod(shape, dtype=float) > 1e6:
                raise LimitError(f"too large: {shape}")

    x, grid = np.ones((1, 64, 2, 2), np.float32), np.broadcast_to(np.float32(0), (1, 200, 200, 2))
    context = Refusing(make_node_spec("GridSample", [x, grid], opset=20))
    with pytest.raises(LimitError, match=re.escape("(1, 64, 200, 200)")):
        grid_sample.grid_sample(context)(x, grid)


@pytest.mark.parametrize(
    ("opset", "attributes", "text"),
    [
        (20, {"mode": "bilinear"}, r"mode is 'bilinear'[\s\S]*renamed[\s\S]*Use one of linear, nearest, cubic"),
        (16, {"mode": "linear"}, r"mode is 'linear'[\s\S]*Use one of bilinear, nearest, bicubic"),
        (20, {"mode": "lanczos"}, r"mode is 'lanczos'[\s\S]*Use one of linear"),
        (20, {"padding_mode": "wrap"}, r"padding_mode is 'wrap'[\s\S]*Use one of zeros, border, reflection"),
    ],
)
def test_unknown_modes_are_refused(opset: int, attributes: dict[str, Any], text: str) -> None:
    """With the names of the version, when the kernel is bound."""
    with pytest.raises(InvalidArgument, match=text):
        run("GridSample", [PIXEL, grid_of(0.0, rank=2)], opset=opset, **attributes)


@pytest.mark.parametrize(
    ("opset", "x", "grid", "text"),
    [
        (16, (1, 1, 3, 4, 5), (1, 2, 2, 2, 3), r"needs an input of shape \(n, c, h, w\)"),
        (20, (3, 4), (3, 2), r"needs an input of shape \(n, c, d1, …\)"),
        (20, (1, 1, 3, 4), (1, 2, 2, 3), r"must be \(1, 2 output sizes, 2\)"),
        (20, (2, 1, 3, 4), (1, 2, 2, 2), r"must be \(2, 2 output sizes, 2\)"),
        (20, (1, 1, 3, 4), (1, 2, 2), r"must be \(1, 2 output sizes, 2\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(opset: int, x: tuple[int, ...], grid: tuple[int, ...], text: str) -> None:
    """Both shapes are named, and what to check."""
    with pytest.raises(InvalidArgument, match=text + r"[\s\S]*what to do"):
        run("GridSample", [np.zeros(x, np.float32), np.zeros(grid, np.float32)], opset=opset)


def test_strings_are_not_interpolated() -> None:
    """There is nothing between two strings."""
    with pytest.raises(InvalidArgument, match=r"Strings cannot be interpolated[\s\S]*Use mode 'nearest'"):
        run("GridSample", [np.array([[["a"]]], object), grid_of(0.0)], opset=20)
