"""Cast: between all numbers, to and from strings, and to the float8 types with and without saturation."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument

from .oracle import BF16, run

_NUMBERS = [
    *(DataType.BOOL, DataType.INT8, DataType.INT32, DataType.INT64, DataType.UINT8, DataType.UINT64),
    *(DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT, DataType.DOUBLE),
    *(DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2, DataType.INT4, DataType.UINT4),
]
_FLOAT8 = {
    "float8_e4m3fn": (448.0, np.nan),
    "float8_e4m3fnuz": (240.0, np.nan),
    "float8_e5m2": (57344.0, np.inf),
    "float8_e5m2fnuz": (57344.0, np.nan),
}


def _to(dtype: Any) -> int:
    return next(int(data_type) for data_type in DataType if data_type and numpy_dtype(data_type) == np.dtype(dtype))


@pytest.mark.parametrize("target", _NUMBERS, ids=lambda data_type: data_type.onnx_name)
@pytest.mark.parametrize("source", _NUMBERS, ids=lambda data_type: data_type.onnx_name)
def test_small_numbers_survive_every_conversion(source: DataType, target: DataType) -> None:
    """0, 1 and (bool aside) 5 are in every type."""
    x = np.array([0, 1, 5]).astype(numpy_dtype(source))
    (result,) = run("Cast", [x], to=int(target), opset=25)
    assert result.dtype == numpy_dtype(target)
    expected = [0, 1, 1] if DataType.BOOL in (source, target) else [0, 1, 5]
    assert result.astype(np.float32).tolist() == expected


@pytest.mark.parametrize("opset", [6, 9, 13, 19, 21, 23, 24, 25, 28])
def test_versions(opset: int) -> None:
    """Truncation toward zero in all versions."""
    x = np.array([-1.7, 1.7], np.float32)
    assert run("Cast", [x], to=int(DataType.INT32), opset=opset)[0].tolist() == [-1, 1]


def test_version_1_names_the_type() -> None:
    """The first version's attribute is a word."""
    assert run("Cast", [np.array([1.5], np.float32)], to="INT64", opset=5)[0].tolist() == [1]


def test_integers_wrap() -> None:
    """Higher bits are dropped: 200 as int8 is -56."""
    assert run("Cast", [np.array([200], np.int16)], to=int(DataType.INT8))[0].tolist() == [-56]


def test_out_of_range_floats_become_infinite() -> None:
    """A float64 beyond float32 is infinite."""
    assert run("Cast", [np.array([1e300, -1e300])], to=int(DataType.FLOAT))[0].tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("source", [np.float32, np.float16, BF16], ids=str)
@pytest.mark.parametrize("name", _FLOAT8)
def test_float8(name: str, source: Any, saturate: int) -> None:
    """With saturation everything beyond the greatest number is it; without, infinite or NaN. NaN stays NaN."""
    largest, beyond = _FLOAT8[name]
    x = np.array([1.0, 1e38, -np.inf, np.nan]).astype(source)
    (result,) = run("Cast", [x], to=_to(getattr(ml_dtypes, name)), saturate=saturate)
    expected = [1.0, largest, -largest, np.nan] if saturate else [1.0, beyond, -beyond, np.nan]
    np.testing.assert_array_equal(result.astype(np.float32), np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("round_mode", "expected"), [("up", [1, 2, 2, 4]), ("down", [1, 1, 1, 2]), ("nearest", [1, 1, 2, 4])]
)
def test_float8e8m0_rounds_to_powers_of_two(round_mode: str, expected: list[float]) -> None:
    """1, 1.25, 1.5 and 3 under each rounding; ties go up."""
    x = np.array([1.0, 1.25, 1.5, 3.0], np.float32)
    (result,) = run("Cast", [x], to=int(DataType.FLOAT8E8M0), round_mode=round_mode)
    assert result.astype(np.float32).tolist() == expected


@pytest.mark.parametrize("saturate", [0, 1])
def test_float8e8m0_special_values(saturate: int) -> None:
    """NaN stays NaN; the greatest float32 saturates to 2**127 or becomes NaN when rounded up."""
    x = np.array([np.nan, 3e38], np.float32)
    (result,) = run("Cast", [x], to=int(DataType.FLOAT8E8M0), saturate=saturate, round_mode="up")
    expected = [np.nan, 2.0**127 if saturate else np.nan]
    np.testing.assert_array_equal(result.astype(np.float64), expected)


def test_numbers_to_strings_and_back() -> None:
    """Shortest plain text that reads back as the same number, in every numeric type."""
    for x in (
        np.array([3.14, -0.5, 1e-5], np.float32),
        np.array([7, -8], np.int64),
        np.array([True, False]),
        np.array([1.5, 2], BF16),
    ):
        (text,) = run("Cast", [x], to=int(DataType.STRING))
        assert text.dtype == object
        assert all(isinstance(item, str) for item in text)
        (back,) = run("Cast", [text], to=_to(x.dtype))
        np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_integers_of_less_than_a_byte_as_strings(name: str) -> None:
    """Whole numbers are written without a point, whatever their width."""
    low = 0 if name.startswith("u") else -1
    x = np.array([low, 0, 1], np.int8).astype(getattr(ml_dtypes, name))
    assert run("Cast", [x], to=int(DataType.STRING))[0].tolist() == [str(low), "0", "1"]


def test_special_values_as_strings() -> None:
    """Infinities and NaN have the spellings that the specification reserves, read in any case."""
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    assert run("Cast", [x], to=int(DataType.STRING))[0].tolist() == ["INF", "-INF", "NaN"]
    words = np.array(["+inf", "-Inf", "nan", "1E8"], object)
    np.testing.assert_array_equal(run("Cast", [words], to=int(DataType.DOUBLE))[0], [np.inf, -np.inf, np.nan, 1e8])


def test_fractional_strings_to_integers() -> None:
    assert run("Cast", [np.array(["100.5", "7"], object)], to=int(DataType.INT64))[0].tolist() == [100, 7]


def test_strings_that_are_no_numbers() -> None:
    """They are refused with their own text."""
    with pytest.raises(InvalidArgument, match="Cast cannot read a string as float32") as caught:
        run("Cast", [np.array(["hello"], object)], to=int(DataType.FLOAT))
    assert "hello" in str(caught.value)


def test_strings_stay_strings() -> None:
    """A cast from string to string is nothing."""
    assert run("Cast", [np.array(["a"], object)], to=int(DataType.STRING))[0].tolist() == ["a"]


def test_cast_like() -> None:
    """The second input gives the type, whatever its values and shape."""
    (result,) = run("CastLike", [np.array([1.5, 2.5], np.float32), np.zeros((0, 3), np.int8)])
    assert result.dtype == np.int8
    assert result.tolist() == [1, 2]


def test_bit_cast() -> None:
    """The bits of 1.0 are 0x3F800000."""
    (result,) = run("BitCast", [np.array([1.0], np.float32)], to=int(DataType.INT32))
    assert result.tolist() == [0x3F800000]


@pytest.mark.parametrize("to", [DataType.INT64, DataType.INT4, DataType.STRING], ids=str)
def test_bit_cast_between_widths(to: DataType) -> None:
    """Another width, also one that only the file has, or string, is refused."""
    with pytest.raises(InvalidArgument, match="BitCast from int8"):
        run("BitCast", [np.array([1], np.int8)], to=int(to))
