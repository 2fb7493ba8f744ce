"""Bytes of a file as arrays: checked against onnx's own reading."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from ort_py.dtypes import DataType, nbytes_of, numpy_dtype
from ort_py.graph.weights.unpack import ALIGNMENT, aligned_copy, stored_as_is, to_host_order, unpack

pytestmark = pytest.mark.quick

TYPES = [data_type for data_type in DataType if data_type not in (DataType.UNDEFINED, DataType.STRING)]


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 5), (2, 4, 7)])
def test_every_type_reads_as_onnx_reads_it(data_type: DataType, shape: tuple[int, ...]) -> None:
    """Random bytes of every element type, packed ones with a remainder too, give onnx's bits."""
    raw = np.random.default_rng(5).integers(0, 256, nbytes_of(data_type, shape), np.uint8).tobytes()
    if data_type is DataType.BOOL:
        raw = bytes(byte & 1 for byte in raw)
    proto = onnx.TensorProto(data_type=int(data_type), dims=shape, raw_data=raw)
    expected = onnx.numpy_helper.to_array(proto)
    found = unpack(raw, data_type, shape)
    assert found.dtype == numpy_dtype(data_type) == expected.dtype
    assert found.shape == shape
    assert found.tobytes() == expected.tobytes()


def test_arrays_are_aligned_read_only_and_stay_so() -> None:
    """64-byte boundary, and no way to make the array writable again."""
    array = unpack(b"\1\2\3\4" * 9, DataType.FLOAT, (9,))
    assert array.ctypes.data % ALIGNMENT == 0
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True


def test_copies_are_contiguous_and_native() -> None:
    """A transposed big-endian array arrives with its values, in C order and the host's byte order."""
    source = np.arange(6, dtype=">f4").reshape(2, 3).T
    copy = aligned_copy(source)
    assert copy.flags.c_contiguous
    assert copy.dtype == np.float32
    assert copy.dtype.isnative
    np.testing.assert_array_equal(copy, source)


def test_booleans_are_made_zero_or_one() -> None:
    """A file may hold any byte where a boolean should be; NumPy must see only two values."""
    assert unpack(b"\0\2\xff", DataType.BOOL, (3,)).view(np.uint8).tolist() == [0, 1, 1]
    assert not stored_as_is(DataType.BOOL)


@pytest.mark.parametrize("dtype", [np.uint16, np.float64, np.complex64, ml_dtypes.bfloat16, np.int8])
def test_big_endian_hosts_swap(dtype: type) -> None:
    """On a big-endian host every component is swapped, and nothing else."""
    array: np.ndarray[Any, Any] = np.arange(64, dtype=np.uint8).view(dtype)
    width = array.itemsize // (2 if array.dtype.kind == "c" else 1)
    expected = np.arange(64, dtype=np.uint8).reshape(-1, width)[:, ::-1].tobytes()
    to_host_order(array, "big")
    assert array.tobytes() == expected


def test_memory_of_packed_types_is_a_byte_an_element() -> None:
    """Half a byte in the file, a whole one in memory."""
    assert unpack(bytes(5), DataType.INT4, (10,)).nbytes == 10
    assert nbytes_of(DataType.INT4, (10,)) == 5
