"""Windows and mel matrices against closed forms, onnx.reference and onnxruntime; every output type; refusals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument, LimitError
from ort_py_kit.tolerances import assert_close

from ..function_oracle import function_outputs
from ..oracle import agree, i64, run
from ..runtime_oracle import agree_with_runtime
from ..test_limits import call

WINDOWS = ("HannWindow", "HammingWindow", "BlackmanWindow")
FLOATING = (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
INTEGERS = tuple(DataType[f"{sign}INT{bits}"] for sign in ("", "U") for bits in (8, 16, 32, 64))


def closed_form(op_type: str, size: int, periodic: bool) -> Any:
    """NumPy's symmetric windows; a periodic one is one longer and cut. Hamming's coefficients are ONNX's 25/46."""
    count = size + 1 if periodic else size
    if op_type == "HammingWindow":
        return (25 / 46 - 21 / 46 * np.cos(2 * np.pi * np.arange(count) / (count - 1)))[:size]
    window = np.hanning if op_type == "HannWindow" else np.blackman
    return window(count)[:size]


@pytest.mark.parametrize("kind", FLOATING, ids=str)
@pytest.mark.parametrize("size", [2, 3, 10, 17])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("op_type", WINDOWS)
def test_windows(op_type: str, periodic: bool, size: int, kind: DataType) -> None:
    """Periodic and symmetric, of even and odd size, in every floating type."""
    (y,) = run(op_type, [np.array(size)], opset=17, periodic=int(periodic), output_datatype=int(kind))
    assert_close(y, closed_form(op_type, size, periodic).astype(numpy_dtype(kind)))


@pytest.mark.parametrize("op_type", WINDOWS)
def test_windows_default_to_periodic_float(op_type: str) -> None:
    """onnxruntime has the same default; the size may be 32 bits wide and a vector of one."""
    agree_with_runtime(op_type, [np.array(100, np.int32)], opset=17)
    assert_close(run(op_type, [i64(100)], opset=17)[0], closed_form(op_type, 100, True).astype(np.float32))


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
@pytest.mark.parametrize("op_type", WINDOWS)
def test_integer_windows_are_cut_towards_zero(op_type: str, kind: DataType) -> None:
    """Only the peak of 1 is left. 8 samples: there float64 hits it exactly."""
    (y,) = run(op_type, [np.array(8)], opset=17, output_datatype=int(kind))
    assert y.dtype == numpy_dtype(kind)
    peak = int(closed_form(op_type, 8, True)[4])
    assert y.tolist() == [0, 0, 0, 0, peak, 0, 0, 0]


@pytest.mark.parametrize("op_type", WINDOWS)
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("size", [0, 1, 2, 9])
def test_the_operators_functions(size: int, periodic: int, op_type: str) -> None:
    """The result equals the function in the specification, including the symmetric window of one sample, which is
    0/0.
    """
    (expected,) = function_outputs(op_type, [np.array(size)], opset=17, periodic=periodic)
    assert_close(run(op_type, [np.array(size)], opset=17, periodic=periodic)[0], expected)


@pytest.mark.parametrize(
    ("size", "attributes", "text"),
    [
        (np.array(-1), {}, "The window has a size of -1"),
        (i64(1, 2), {}, r"size has the shape \[2\]"),
        (np.array(4), {"output_datatype": int(DataType.STRING)}, r"cannot make elements of type string \(8\)"),
        (np.array(4), {"output_datatype": 99}, r"cannot make elements of type undefined \(99\)"),
    ],
    ids=["negative", "several", "type", "no type"],
)
def test_windows_refuse(size: Any, attributes: dict[str, int], text: str) -> None:
    """Each is refused with what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("HannWindow", [size], opset=17, **attributes)
    assert caught.value.fix


def test_large_windows_are_announced() -> None:
    with pytest.raises(LimitError, match="too large"):
        call("HannWindow", [np.array(1 << 40)], {}, opset=17)


def mel_inputs(bands: int, length: int, rate: int, low: float, high: float, dtype: Any = np.float32) -> list[Any]:
    """The five inputs of MelWeightMatrix."""
    return [np.array(bands), np.array(length), np.array(rate), np.array(low, dtype), np.array(high, dtype)]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    bands=st.integers(1, 40),
    length=st.integers(1, 600),
    rate=st.integers(200, 48000),
    low=st.floats(0, 0.4),
    high=st.floats(0.4, 0.5),
)
def test_mel_matrix(bands: int, length: int, rate: int, low: float, high: float) -> None:
    """The reference builds it triangle by triangle; edges are float64 on both sides."""
    agree("MelWeightMatrix", mel_inputs(bands, length, rate, low * rate, high * rate, np.float64), opset=17)


def test_onnxruntime_agrees_on_a_mel_matrix() -> None:
    """An independent implementation, at the size of speech models."""
    agree_with_runtime("MelWeightMatrix", mel_inputs(40, 512, 16000, 20, 7600), opset=17)


@pytest.mark.parametrize("edge", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64], ids=lambda t: t.__name__)
@pytest.mark.parametrize("kind", FLOATING + INTEGERS, ids=str)
def test_mel_types(kind: DataType, edge: Any) -> None:
    """Every type of the edges and of the matrix; integers keep the peaks alone."""
    inputs = mel_inputs(4, 64, 8192, 0, 4096, edge)
    (y,) = run("MelWeightMatrix", inputs, opset=17, output_datatype=int(kind))
    (wide,) = run("MelWeightMatrix", inputs, opset=17, output_datatype=int(DataType.DOUBLE))
    assert y.dtype == numpy_dtype(kind)
    np.testing.assert_array_equal(y, wide.astype(numpy_dtype(kind)))
    assert y.max() == 1


def test_no_bands() -> None:
    """An empty matrix of the right shape."""
    assert run("MelWeightMatrix", mel_inputs(0, 16, 8192, 0, 4096), opset=17)[0].shape == (9, 0)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((-1, 16, 8192, 0, 4096), "has -1 bands"),
        ((8, 0, 8192, 0, 4096), "for a DFT of 0"),
        ((8, 16, 0, 0, 4096), "at 0 samples a second"),
        ((8, 16, 8192, -5, 4096), "from -5.0 to 4096.0 Hz"),
        ((8, 16, 8192, 4096, 0), "from 4096.0 to 0.0 Hz"),
        ((8, 16, 8192, 0, float("inf")), "from 0.0 to inf Hz"),
        ((8, 16, 8192, 0, 8000), "The mel bands reach up to bin"),
    ],
    ids=str,
)
def test_mel_refusals(numbers: tuple[Any, ...], text: str) -> None:
    """Numbers out of range, and triangles beyond the spectrum."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run("MelWeightMatrix", mel_inputs(*numbers), opset=17)
    assert caught.value.fix


@pytest.mark.parametrize("index", [0, 3])
def test_mel_numbers_are_scalars(index: int) -> None:
    """A list in place of one number is refused by name."""
    inputs = mel_inputs(8, 16, 8192, 0, 4096)
    inputs[index] = np.stack([inputs[index]] * 2)
    with pytest.raises(InvalidArgument, match=r"(num_mel_bins|lower_edge_hertz) has the shape \[2\]"):
        run("MelWeightMatrix", inputs, opset=17)


def test_large_mel_matrices_are_announced() -> None:
    with pytest.raises(LimitError, match="too large"):
        call("MelWeightMatrix", mel_inputs(1 << 20, 1 << 20, 8192, 0, 4096), {}, opset=17)
