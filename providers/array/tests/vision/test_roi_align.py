"""RoiAlign against the reference and onnxruntime: regions inside, across and outside the map; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_array.vision import roi_align
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, agree, i64, run, sample
from ..runtime_oracle import agree_with_runtime
from ..standin import array_module, to_device, to_host
from ..test_limits import call

MAP = sample((2, 3, 7, 9), np.float32)
ROIS = np.array([[1, 1, 6, 5], [-3, -2, 4.5, 3.25], [7, 5, 30, 20], [2, 2, 2, 2], [40, 40, 50, 50]], np.float32)
BATCH = i64(0, 1, 1, 0, 0)


def regions(seed: int, count: int, dtype: Any = np.float32) -> Any:
    """Random regions, some of them partly or wholly outside the map; corners in order."""
    generator = np.random.default_rng(seed)
    low = generator.uniform(-6, 22, (count, 2))
    return np.concatenate((low, low + generator.uniform(0, 20, (count, 2))), axis=1).astype(dtype)


@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    ratio=st.integers(0, 3),
    height=st.integers(1, 4),
    width=st.integers(1, 4),
    scale=st.sampled_from([1.0, 0.5, 0.25]),
    count=st.integers(0, 7),
    seed=st.integers(0, 1000),
)
def test_regions_equal_onnxruntime(
    mode: str, transformation: str, ratio: int, height: int, width: int, scale: float, count: int, seed: int
) -> None:
    """All attributes together; a ratio of 0 takes as many samples as a region has pixels."""
    batch = np.random.default_rng(seed).integers(0, 2, count)
    agree_with_runtime(
        "RoiAlign",
        [MAP, regions(seed, count), batch],
        opset=16,
        mode=mode,
        coordinate_transformation_mode=transformation,
        sampling_ratio=ratio,
        output_height=height,
        output_width=width,
        spatial_scale=scale,
    )


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_equal_the_reference(mode: str, ratio: int) -> None:
    """Inside, over the edges, without extent, and outside."""
    options: dict[str, Any] = {"mode": mode, "sampling_ratio": ratio, "output_height": 3, "output_width": 2}
    agree("RoiAlign", [MAP, ROIS, BATCH], opset=16, **options)


@pytest.mark.parametrize("ratio", [0, 2])
def test_the_first_version_knows_no_half_pixel(ratio: int) -> None:
    """Version 10 is today's output_half_pixel: regions are at least one pixel large."""
    options: dict[str, Any] = {"sampling_ratio": ratio, "output_height": 3, "output_width": 2, "spatial_scale": 0.5}
    agree_with_runtime("RoiAlign", [MAP, ROIS, BATCH], opset=10, **options)
    (first,) = run("RoiAlign", [MAP, ROIS, BATCH], opset=10, **options)
    (later,) = run(
        "RoiAlign", [MAP, ROIS, BATCH], opset=22, coordinate_transformation_mode="output_half_pixel", **options
    )
    np.testing.assert_array_equal(first, later)


def test_doubles_equal_onnxruntime() -> None:
    x = MAP.astype(np.float64)
    agree_with_runtime("RoiAlign", [x, ROIS.astype(np.float64), BATCH], opset=16, output_height=3, output_width=3)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_narrow_floats_are_rounded_once(mode: str, dtype: Any) -> None:
    """Against the reference in double precision."""
    x, rois = MAP.astype(dtype), ROIS.astype(dtype)
    agree("RoiAlign", [x, rois, BATCH], opset=22, mode=mode, output_height=2, output_width=2, sampling_ratio=2)


def test_corners_in_the_wrong_order_have_no_samples() -> None:
    """With half pixels, a region of negative size asks for no adaptive sample and is 0; onnxruntime gives up."""
    rois = np.array([[5, 5, 1, 1], [1, 5, 5, 1]], np.float32)
    agree("RoiAlign", [MAP, rois, i64(0, 1)], opset=16, output_height=2, output_width=2)
    (y,) = run("RoiAlign", [MAP, rois, i64(0, 1)], opset=16)
    assert not y.any()


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("elements", [1, 40, 300, 3000])
def test_blocks_do_not_show(mode: str, elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some samples, some rows of bins or some regions at a time give the same."""
    monkeypatch.setattr(roi_align, "_ELEMENTS", elements)
    options: dict[str, Any] = {"mode": mode, "output_height": 3, "output_width": 2}
    agree_with_runtime("RoiAlign", [MAP, ROIS, BATCH], opset=16, **options)


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_the_stand_in_gives_the_same(mode: str) -> None:
    """Adaptive samples, of which the suite has few: only regions are read on the host."""
    options: dict[str, Any] = {"opset": 22, "mode": mode, "output_height": 3, "output_width": 2}
    (y,) = run("RoiAlign", [to_device(MAP), ROIS, BATCH], xp=array_module, **options)
    assert_close(to_host(y), run("RoiAlign", [MAP, ROIS, BATCH], **options)[0])


def test_no_regions_no_result() -> None:
    """Also for a map without channels."""
    (y,) = run("RoiAlign", [MAP, np.zeros((0, 4), np.float32), i64()], output_height=2)
    assert y.shape == (0, 3, 2, 1)
    (y,) = run("RoiAlign", [MAP[:, :0], ROIS, BATCH])
    assert y.shape == (5, 0, 1, 1)


def test_a_region_without_bounds_is_too_large() -> None:
    """A coordinate decides how many samples there are: they are announced."""
    rois = np.array([[0, 0, 1e6, 1e6]], np.float32)
    with pytest.raises(LimitError, match="too large"):
        call("RoiAlign", [MAP, rois, i64(0)], {})


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"mode": "sum"}, r"mode is 'sum'[\s\S]*Use one of avg, max"),
        ({"coordinate_transformation_mode": "asymmetric"}, r"is 'asymmetric'[\s\S]*Use one of half_pixel"),
        ({"output_height": 0}, r"output_height is 0[\s\S]*at least one bin"),
        ({"output_width": -1}, r"output_width is -1[\s\S]*at least one bin"),
        ({"sampling_ratio": -1}, r"sampling_ratio is -1[\s\S]*or 0 to adapt"),
    ],
)
def test_unknown_attributes_are_refused(attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        run("RoiAlign", [MAP, ROIS, BATCH], opset=16, **attributes)


@pytest.mark.parametrize(
    ("x", "rois", "batch", "text"),
    [
        (MAP[0], ROIS, BATCH, r"needs X of shape \(n, c, h, w\)[\s\S]*what to do"),
        (MAP, ROIS[:, :3], BATCH, r"rois of shape \(r, 4\)[\s\S]*what to do"),
        (MAP, ROIS, BATCH[:2], r"batch_indices of shape \(r,\)[\s\S]*what to do"),
        (MAP, ROIS, BATCH + 1, r"names image 2 of a batch of 2[\s\S]*must be in \[0, 1\]"),
        (MAP, ROIS, BATCH - 1, r"names image -1 of a batch of 2[\s\S]*must be in \[0, 1\]"),
        (MAP, ROIS + np.float32(2e38), BATCH, r"Region 0 has .* larger than 1e\+18[\s\S]*what to do"),
        (MAP[:0], ROIS, BATCH, r"names image 0 of a batch of 0[\s\S]*The batch is empty"),
        (
            MAP,
            ROIS * np.array([[1], [np.inf], [1], [1], [1]], np.float32),
            BATCH,
            r"Region 1 has .* not finite[\s\S]*do",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_refused(x: Any, rois: Any, batch: Any, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        run("RoiAlign", [x, rois, batch], opset=16)
