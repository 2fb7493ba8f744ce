"""DFT against the sum that defines it, onnx.reference and onnxruntime; lengths, axes, halves and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_kit.tolerances import assert_close

from ..oracle import FLOATS, agree, i64, run, sample
from ..runtime_oracle import agree_with_runtime
from ..test_limits import call


def by_definition(x: Any, length: int, axis: int, inverse: bool) -> Any:
    """The specification's double sum in float64, on pairs of parts; cut or padded to `length` first."""
    signal = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    signal = np.moveaxis(signal, axis, -1)[..., :length]
    signal = np.concatenate([signal, np.zeros((*signal.shape[:-1], length - signal.shape[-1]))], axis=-1)
    k = np.arange(length)
    turns = np.exp((2j if inverse else -2j) * np.pi * np.outer(k, k) / max(length, 1))
    y = np.moveaxis(signal @ turns, -1, axis) / (length if inverse and length else 1)
    return np.stack([y.real, y.imag], axis=-1)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    parts=st.sampled_from([1, 2]),
    length=st.one_of(st.none(), st.integers(1, 9)),
    inverse=st.booleans(),
    data=st.data(),
)
def test_the_definition(shape: list[int], parts: int, length: int | None, inverse: bool, data: Any) -> None:
    """Any rank, axis and length, real and complex, there and back; axes count from either end."""
    x = sample((*shape, parts), np.float64)
    axis = data.draw(st.integers(0, len(shape) - 1))
    given_axis = axis - data.draw(st.sampled_from([0, len(shape) + 1]))
    size = None if length is None else np.array(length)
    (y,) = run("DFT", [x, size, np.array(given_axis)], opset=20, inverse=int(inverse))
    assert_close(y, by_definition(x, shape[axis] if length is None else length, axis, inverse))
    (older,) = run("DFT", [x, size] if length else [x], opset=17, axis=given_axis, inverse=int(inverse))
    assert_close(older, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("length", [None, 7, 8, 12], ids=str)
def test_onesided(length: int | None, dtype: Any) -> None:
    """Half a spectrum of a real signal, of even and odd length, and the real signal of half a spectrum."""
    size = None if length is None else np.array(length, np.int32)
    agree("DFT", [sample((2, 9, 3, 1), dtype), size, np.array(1)], opset=20, onesided=1)
    agree("DFT", [sample((2, 5, 3, 2), dtype), size, np.array(1)], opset=20, onesided=1, inverse=1)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_type(dtype: Any) -> None:
    """Narrow floats are rounded once, at the end; the type of the result is that of the input."""
    x = sample((3, 10, 2), dtype)
    (y,) = run("DFT", [x], opset=17)
    assert y.dtype == dtype
    assert_close(y, by_definition(x.astype(np.float64), 10, 1, False).astype(dtype))


@pytest.mark.parametrize("attributes", [{}, {"onesided": 1}, {"inverse": 1}], ids=str)
def test_onnxruntime_agrees(attributes: dict[str, Any]) -> None:
    """It is an independent implementation. The length is not a power of two; values are small, since its float32 errs
    more.
    """
    x = sample((2, 30, 1), np.float32, low=-0.3, high=0.3)
    agree_with_runtime("DFT", [x, np.array(24), np.array(1)], opset=20, **attributes)


def test_the_default_axis_depends_on_the_version() -> None:
    """Version 17 transforms axis 1, version 20 the last but one."""
    x = sample((2, 3, 4, 1), np.float64)
    assert_close(run("DFT", [x], opset=17)[0], by_definition(x, 3, 1, False))
    assert_close(run("DFT", [x], opset=20)[0], by_definition(x, 4, 2, False))


@pytest.mark.parametrize(("shape", "axis"), [((300, 64, 9, 1), 1), ((1, 64, 3000, 2), 1), ((64, 3000, 1), 0)], ids=str)
def test_large_inputs_are_cut_into_blocks(shape: tuple[int, ...], axis: int) -> None:
    """Blocks of rows or of columns give what one transform of everything gives."""
    agree("DFT", [sample(shape, np.float32), None, np.array(axis)], opset=20)


def test_there_and_back() -> None:
    """The inverse of the transform is the signal."""
    x = sample((4, 33, 2), np.float32)
    (y,) = run("DFT", run("DFT", [x], opset=17), opset=17, inverse=1)
    assert_close(y, x)


@pytest.mark.parametrize(
    ("shape", "length", "attributes", "expected"),
    [
        ((0, 4, 1), None, {}, (0, 4, 2)),
        ((2, 0, 1), None, {}, (2, 0, 2)),
        ((2, 0, 1), None, {"onesided": 1}, (2, 1, 2)),
        ((2, 0, 1), 4, {}, (2, 4, 2)),
        ((2, 3, 1), 0, {}, (2, 0, 2)),
        ((2, 1, 2), None, {"onesided": 1, "inverse": 1}, (2, 0, 1)),
    ],
    ids=str,
)
def test_empty_axes(
    shape: tuple[int, ...], length: int | None, attributes: dict[str, int], expected: tuple[int, ...]
) -> None:
    """A sum of nothing is 0; half of an empty spectrum is one value."""
    size = None if length is None else np.array(length)
    (y,) = run("DFT", [np.ones(shape, np.float32), size], opset=17, **attributes)
    assert y.shape == expected
    assert not y.any()


@pytest.mark.parametrize("axis", [-1, 2])
def test_the_last_axis_is_refused(axis: int) -> None:
    """It holds the parts of one number."""
    with pytest.raises(InvalidArgument, match=f"Axis {axis} of a rank 3 tensor holds the parts") as caught:
        run("DFT", [np.zeros((1, 4, 2), np.float32), None, np.array(axis)], opset=20)
    assert "[-3, -2] or [0, 1]" in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "attributes", "text"),
    [
        ([np.zeros((1, 4, 3), np.float32)], {}, "is neither real nor complex"),
        ([np.zeros(4, np.float32)], {}, "is neither real nor complex"),
        ([np.zeros((1, 4, 1), np.float32), None, np.array(5)], {}, "Axis 5 is out of range for rank 3"),
        ([np.zeros((1, 4, 1), np.float32), np.array(-1)], {}, "dft_length is -1"),
        ([np.zeros((1, 0, 2), np.float32)], {"onesided": 1, "inverse": 1}, "dft_length is -2"),
        ([np.zeros((1, 4, 1), np.float32), i64(1, 2)], {}, r"dft_length has the shape \[2\]"),
        ([np.zeros((1, 4, 1), np.float32), None, i64(1, 2)], {}, r"axis has the shape \[2\]"),
        ([np.zeros((1, 4, 2), np.float32)], {"onesided": 1}, "onesided=1 and inverse=0"),
        ([np.zeros((1, 4, 1), np.float32)], {"onesided": 1, "inverse": 1}, "onesided=1 and inverse=1"),
    ],
)
def test_wrong_inputs(inputs: list[Any], attributes: dict[str, int], text: str) -> None:
    """Each is refused with what is wrong and what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("DFT", inputs, opset=20, **attributes)
    assert caught.value.fix


def test_a_long_transform_is_announced() -> None:
    """dft_length decides the size of the result."""
    with pytest.raises(LimitError, match="too large"):
        call("DFT", [np.zeros((1, 4, 1), np.float32), np.array(1 << 40)], {}, opset=20)
