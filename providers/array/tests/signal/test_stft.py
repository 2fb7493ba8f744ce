"""STFT against a loop over frames, onnx.reference and onnxruntime; defaults and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, FLOATS, agree, i64, run, sample
from ..runtime_oracle import agree_with_runtime
from ..test_limits import call


def frame_by_frame(x: Any, step: int, window: Any, length: int, onesided: bool) -> Any:
    """Every frame's transform by itself, in float64."""
    signal = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    frames = (signal.shape[1] - length) // step + 1
    kept = length // 2 + 1 if onesided else length
    y = np.stack(
        [np.fft.fft(signal[:, f * step : f * step + length] * window)[:, :kept] for f in range(frames)], axis=1
    )
    return np.stack([y.real, y.imag], axis=-1)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 3),
    length=st.integers(1, 9),
    more=st.integers(0, 12),
    step=st.integers(1, 6),
    parts=st.sampled_from([1, 2]),
    weighted=st.booleans(),
    onesided=st.booleans(),
)
def test_frames(batch: int, length: int, more: int, step: int, parts: int, weighted: bool, onesided: bool) -> None:
    """Any lengths, steps that overlap or leave gaps, with and without weights; what does not fill a frame is left."""
    onesided = onesided and parts == 1
    x = sample((batch, length + more, parts), np.float64)
    window = sample((length,), np.float64, 1)
    inputs = [x, np.array(step), window if weighted else None, np.array(length)]
    (y,) = run("STFT", inputs, opset=17, onesided=int(onesided))
    assert_close(y, frame_by_frame(x, step, window if weighted else np.ones(length), length, onesided))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_type(dtype: Any) -> None:
    """Narrow floats are rounded once, at the end."""
    x, window = sample((2, 40, 1), dtype), sample((8,), dtype, 1)
    (y,) = run("STFT", [x, np.array(4, np.int32), window], opset=17)
    wide = frame_by_frame(x.astype(np.float64), 4, window.astype(np.float64), 8, True)
    assert_close(y, wide.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=str)
def test_onnxruntime_agrees(dtype: Any) -> None:
    """An independent implementation; one-sided by default."""
    x = sample((2, 100, 1), dtype)
    agree_with_runtime("STFT", [x, np.array(10), sample((16,), dtype), np.array(16)], opset=17)


@pytest.mark.parametrize("shape", [(1, 40), (3, 40), (2, 8), (8, 1), (8, 2)], ids=str)
@pytest.mark.parametrize("onesided", [0, 1])
def test_a_signal_of_rank_two_is_real(shape: tuple[int, int], onesided: int) -> None:
    """onnxruntime does this too, for every length of the last axis, which would otherwise distinguish real from
    complex.
    """
    x = sample(shape, np.float32)
    length = min(8, shape[1])
    agree_with_runtime("STFT", [x, np.array(4), None, np.array(length)], opset=17, onesided=onesided)


def test_the_reference_agrees_on_defaults() -> None:
    """Without a frame length the window decides, without both the signal; the result is one-sided."""
    x = sample((1, 24, 1), np.float32)
    agree("STFT", [x, np.array(5), sample((6,), np.float32)], opset=17)
    agree("STFT", [x, np.array(5)], opset=17)


@pytest.mark.parametrize("weighted", [False, True])
def test_long_signals_are_cut_into_blocks(weighted: bool) -> None:
    """Blocks of frames give what all frames at once give; the signal itself is left alone."""
    x = sample((2, 9000, 1), np.float64)
    before = x.copy()
    window = sample((128,), np.float64, 1) if weighted else None
    (y,) = run("STFT", [x, np.array(16), window, np.array(128)], opset=17)
    assert_close(y, frame_by_frame(x, 16, 1 if window is None else window, 128, True))
    np.testing.assert_array_equal(x, before)


def test_no_batch() -> None:
    """An empty batch gives an empty result of the right shape and type."""
    (y,) = run("STFT", [np.zeros((0, 16, 1), BF16), np.array(4), None, np.array(8)], opset=17)
    assert y.shape == (0, 3, 5, 2)
    assert y.dtype == BF16


@pytest.mark.parametrize(
    ("shape", "numbers", "text"),
    [
        ((1, 16, 1), (0, 8), "frame_step is 0"),
        ((1, 16, 1), (4, 0), "frame_length is 0"),
        ((1, 16, 1), (4, 17), "A frame of 17 samples does not fit into a signal of 16"),
        ((1, 16, 3), (4, 8), "is neither real nor complex"),
        ((16, 1), (4, 8), "A frame of 8 samples does not fit into a signal of 1"),
        ((16,), (4, 8), "is neither real nor complex"),
        ((1, 2, 16, 1), (4, 8), r"STFT needs a signal of shape \[batch\]\[time\]"),
        ((1, 16, 2), (4, 8), "got a complex signal"),
    ],
    ids=str,
)
def test_wrong_inputs(shape: tuple[int, ...], numbers: tuple[int, int], text: str) -> None:
    """Each is refused with what is wrong and what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("STFT", [np.zeros(shape, np.float32), np.array(numbers[0]), None, np.array(numbers[1])], opset=17)
    assert caught.value.fix


@pytest.mark.parametrize("window", [(7,), (2, 4), (9,)], ids=str)
def test_a_window_of_another_length(window: tuple[int, ...]) -> None:
    """The window must have one weight a sample of the frame."""
    inputs = [np.zeros((1, 16, 1), np.float32), np.array(4), np.ones(window, np.float32), np.array(8)]
    with pytest.raises(InvalidArgument, match=r"does not fit frames of 8 samples"):
        run("STFT", inputs, opset=17)


def test_a_step_that_is_a_list() -> None:
    with pytest.raises(InvalidArgument, match=r"frame_step has the shape \[2\]"):
        run("STFT", [np.zeros((1, 16, 1), np.float32), i64(1, 2), None, np.array(8)], opset=17)


def test_many_frames_are_announced() -> None:
    """Frames that overlap much make a large result of a small signal."""
    with pytest.raises(LimitError, match="too large"):
        call("STFT", [np.zeros((1, 16384, 1), np.float32), np.array(1), None, np.array(8192)], {}, opset=17)
