"""MaxRoiPool against onnxruntime, which alone implements it: rounding, empty bins, every size of bin; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_array.vision import max_roi_pool

from ..oracle import BF16, DEFINITIONS, run, sample
from ..runtime_oracle import agree_with_runtime
from ..standin import array_module, to_device, to_host
from ..test_limits import call

MAP = sample((2, 3, 9, 13), np.float32)
ROIS = np.array([[0, 1, 1, 6, 5], [1, -3, -2, 4.5, 3.5], [1, 7, 5, 30, 20], [0, 2, 2, 2, 2], [0, 40, 40, 50, 50]], "f")


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    pooled=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    scale=st.sampled_from([1.0, 0.5, 0.3]),
    count=st.integers(1, 8),
    seed=st.integers(0, 1000),
)
def test_regions_equal_onnxruntime(pooled: tuple[int, int], scale: float, count: int, seed: int) -> None:
    """Regions of all sizes, partly or wholly outside, their corners in any order and often halfway between pixels."""
    generator = np.random.default_rng(seed)
    corners = np.rint(generator.uniform(-8, 30, (count, 4)) * 2) / 2
    rois = np.concatenate((generator.integers(0, 2, (count, 1)), corners), axis=1).astype(np.float32)
    agree_with_runtime("MaxRoiPool", [MAP, rois], opset=16, pooled_shape=pooled, spatial_scale=scale)


def test_bins_without_a_pixel_are_zero() -> None:
    """Also where all values are negative."""
    (y,) = run("MaxRoiPool", [MAP - 10, ROIS], opset=16, pooled_shape=(2, 2))
    assert not y[4].any()
    assert (y[0] < 0).all()


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float64])
def test_all_floats_of_the_newest_version(dtype: Any) -> None:
    """A maximum is exact in every type."""
    x = MAP.astype(dtype)
    (expected,) = run("MaxRoiPool", [x.astype(np.float32), ROIS], opset=16, pooled_shape=(3, 2))
    (y,) = run("MaxRoiPool", [x, ROIS.astype(dtype)], opset=22, pooled_shape=(3, 2))
    np.testing.assert_array_equal(y, expected.astype(dtype))


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bin at a time gives the same."""
    monkeypatch.setattr(max_roi_pool, "_ELEMENTS", 1)
    agree_with_runtime("MaxRoiPool", [MAP, ROIS], opset=16, pooled_shape=(3, 2))


def test_the_stand_in_runs_it() -> None:
    """No case of the suite shows that only the regions are read on the host."""
    (expected,) = run("MaxRoiPool", [MAP, ROIS], opset=16, pooled_shape=(3, 2))
    definition = next(d for d in DEFINITIONS if d.op_type == "MaxRoiPool")
    assert definition.host_inputs == {1}
    (y,) = run("MaxRoiPool", [to_device(MAP), ROIS], opset=16, xp=array_module, pooled_shape=(3, 2))
    np.testing.assert_array_equal(to_host(y), expected)


def test_nothing_in_nothing_out() -> None:
    """No regions, no channels, no pixels."""
    assert run("MaxRoiPool", [MAP, ROIS[:0]], pooled_shape=(3, 2))[0].shape == (0, 3, 3, 2)
    assert run("MaxRoiPool", [MAP[:, :0], ROIS], pooled_shape=(3, 2))[0].shape == (5, 0, 3, 2)
    assert not run("MaxRoiPool", [MAP[:, :, :0], ROIS], pooled_shape=(3, 2))[0].any()


def test_the_result_is_announced() -> None:
    """A large pooled shape is a few bytes in the model."""
    with pytest.raises(LimitError, match="too large"):
        call("MaxRoiPool", [MAP, ROIS], {"pooled_shape": (1 << 12, 1 << 12)})


@pytest.mark.parametrize(
    ("x", "rois", "pooled", "text"),
    [
        (MAP[0], ROIS, (1, 1), r"needs X of shape \(n, c, h, w\)[\s\S]*what to do"),
        (MAP, ROIS[:, 1:], (1, 1), r"rois of shape \(r, 5\)[\s\S]*what to do"),
        (MAP, ROIS, (1,), r"pooled_shape is \[1\][\s\S]*height and a width"),
        (MAP, ROIS, (0, 1), r"pooled_shape is \[0, 1\][\s\S]*at least 1"),
        (MAP[:1], ROIS, (1, 1), r"names image 1 of a batch of 1[\s\S]*must be in \[0, 0\]"),
        (MAP[:0], ROIS, (1, 1), r"of a batch of 0[\s\S]*The batch is empty"),
        (MAP, ROIS * np.float32(np.nan), (1, 1), r"Region 0 has a number that is not finite[\s\S]*what to do"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(x: Any, rois: Any, pooled: tuple[int, ...], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        run("MaxRoiPool", [x, rois], opset=16, pooled_shape=pooled)
