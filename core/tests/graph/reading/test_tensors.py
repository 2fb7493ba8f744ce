"""Tensors of a protobuf as weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ort_py.dtypes import DataType
from ort_py.errors import InvalidGraph, LimitError
from ort_py.graph.reading import onnx_messages
from ort_py.graph.reading.external_data import ExternalFiles
from ort_py.graph.reading.tensors import TensorReader
from ort_py.graph.reading.wire import read
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.limits import Budget, Limits

pytestmark = pytest.mark.quick


def reader(limits: Limits | None = None, folder: Path | None = None) -> TensorReader:
    """A reader with a store of its own."""
    store, budget = WeightStore(), Budget(limits or Limits())
    return TensorReader(store, budget, ExternalFiles(folder, store, budget))


def ours(message: Any) -> Any:
    """The message as models in files and bytes are read: by our own reader."""
    return read(getattr(onnx_messages, type(message).__name__), memoryview(message.SerializeToString()))


FORMS: tuple[Callable[[Any], Any], ...] = (lambda message: message, ours)
"""Messages of protobuf, which a caller may give, and our own."""

both_forms = pytest.mark.parametrize("form", FORMS, ids=["protobuf", "ours"])

VALUES: dict[int, Any] = {
    TensorProto.FLOAT: [1.5, -2.0, 3.0],
    TensorProto.DOUBLE: [1.5, -2.0, 3.0],
    TensorProto.COMPLEX64: [1 + 2j, -3j, 4],
    TensorProto.COMPLEX128: [1 + 2j, -3j, 4],
    TensorProto.INT8: [-128, 0, 127],
    TensorProto.UINT8: [0, 128, 255],
    TensorProto.INT16: [-32768, 0, 5],
    TensorProto.UINT16: [0, 65535, 7],
    TensorProto.INT32: [-(2**31), 0, 2**31 - 1],
    TensorProto.UINT32: [0, 2**32 - 1, 7],
    TensorProto.INT64: [-(2**63), 0, 2**63 - 1],
    TensorProto.UINT64: [0, 2**64 - 1, 7],
    TensorProto.BOOL: [True, False, True],
    TensorProto.FLOAT16: [1.5, -2.0, 3.0],
    TensorProto.BFLOAT16: [1.5, -2.0, 3.0],
    TensorProto.FLOAT8E4M3FN: [1.5, -2.0, 3.0],
    TensorProto.FLOAT8E5M2FNUZ: [1.5, -2.0, 3.0],
    TensorProto.FLOAT8E8M0: [1.0, 2.0, 4.0],
    TensorProto.INT4: [-8, 0, 7],
    TensorProto.UINT4: [0, 15, 7],
    TensorProto.INT2: [-2, 0, 1],
    TensorProto.UINT2: [0, 3, 1],
    TensorProto.FLOAT4E2M1: [1.5, -2.0, 6.0],
    TensorProto.FLOAT6E2M3: [1.5, -2.0, 3.0],
}


@both_forms
@pytest.mark.parametrize("data_type", VALUES, ids=lambda value: str(DataType(value).onnx_name))
def test_typed_fields_read_as_onnx_reads_them(data_type: int, form: Callable[[Any], Any]) -> None:
    """Every type in the field that is made for it; three elements, so that packed types have a remainder."""
    proto = helper.make_tensor("t", data_type, [3, 1], VALUES[data_type])
    assert not proto.raw_data
    expected = numpy_helper.to_array(proto)
    found = reader().weight(form(proto))
    assert found.data_type == data_type
    assert found.shape == (3, 1)
    assert found.array().dtype == expected.dtype
    assert found.array().tobytes() == expected.tobytes()
    assert found.array().ctypes.data % 64 == 0


@both_forms
@pytest.mark.parametrize("data_type", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT64])
def test_typed_fields_are_shared_with_raw_data(data_type: int, form: Callable[[Any], Any]) -> None:
    """One content is one weight, however a file holds it."""
    tensors, values = reader(), np.array([1, 2, 300], helper.tensor_dtype_to_np_dtype(data_type))
    typed = tensors.weight(form(helper.make_tensor("a", data_type, [3], values.tolist())))
    assert tensors.weight(form(numpy_helper.from_array(values, "b"))) is typed
    np.testing.assert_array_equal(typed.array(), values)


def test_raw_data_is_shared_by_content() -> None:
    """The same tensor twice is one weight, whatever its name."""
    tensors = reader()
    first = tensors.weight(numpy_helper.from_array(np.arange(4.0), "a"))
    second = tensors.weight(numpy_helper.from_array(np.arange(4.0), "b"))
    assert first is second


@both_forms
def test_strings_are_text_where_they_are_utf8(form: Callable[[Any], Any]) -> None:
    proto = TensorProto(data_type=TensorProto.STRING, dims=[2], string_data=["é".encode(), b"\xff"])
    assert reader().weight(form(proto)).array().tolist() == ["é", b"\xff"]


def test_an_empty_tensor_may_have_no_field() -> None:
    proto = TensorProto(data_type=TensorProto.FLOAT, dims=[0, 4], name="t")
    assert reader().weight(proto).array().shape == (0, 4)


def problem(proto: TensorProto, limits: Limits | None = None) -> str:
    """The text of the InvalidGraph that reading raises, in both forms."""
    texts = set()
    for form in FORMS:
        with pytest.raises(InvalidGraph) as caught:
            reader(limits).weight(form(proto))
        assert "value 't'" in str(caught.value)
        texts.add(str(caught.value))
    (text,) = texts
    return text


def test_raw_data_of_the_wrong_length_is_refused() -> None:
    proto = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[4], raw_data=b"\0" * 15)
    assert "raw_data has 15 bytes, 16 are needed" in problem(proto)


@pytest.mark.parametrize(
    ("data_type", "field", "entries", "text"),
    [
        (TensorProto.FLOAT, "float_data", [1.0], "float_data has 1 entries, 4 are needed"),
        (TensorProto.COMPLEX64, "float_data", [1.0] * 4, "float_data has 4 entries, 8 are needed"),
        (TensorProto.INT4, "int32_data", [1] * 4, "int32_data has 4 entries, 2 are needed"),
        (TensorProto.INT64, "int32_data", [1] * 4, "int64_data has 0 entries, 4 are needed"),
        (TensorProto.STRING, "string_data", [b"a"], "string_data has 1 values, 4 are needed"),
    ],
)
def test_typed_fields_of_the_wrong_length_are_refused(
    data_type: int, field: str, entries: list[object], text: str
) -> None:
    """Also where the data is in a field of another type."""
    proto = TensorProto(name="t", data_type=data_type, dims=[4])
    getattr(proto, field).extend(entries)
    assert text in problem(proto)


@pytest.mark.parametrize("data_type", [0, 99])
def test_unknown_element_types_are_refused(data_type: int) -> None:
    """UNDEFINED, or a number from the future."""
    assert f"has the element type {data_type}, which ONNX does not define" in problem(
        TensorProto(name="t", data_type=data_type, dims=[1])
    )


def test_segments_are_refused() -> None:
    proto = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[0])
    proto.segment.begin = 0
    assert "is stored in segments" in problem(proto)


@pytest.mark.parametrize(
    ("dims", "text"),
    [([-1, 4], "a dimension is negative"), ([1] * 65, "rank 65 is above 64"), ([0, 1 << 60], "no machine can address")],
)
def test_impossible_shapes_are_refused(dims: list[int], text: str) -> None:
    assert text in problem(TensorProto(name="t", data_type=TensorProto.FLOAT, dims=dims))


def test_sizes_are_asked_for_before_allocating() -> None:
    """A tensor that claims a terabyte is a matter of limits, however little data it has."""
    proto = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[1 << 38])
    with pytest.raises(LimitError, match="larger than one allocation may be"):
        reader().weight(proto)


def test_external_tensors_come_from_their_file(tmp_path: Path) -> None:
    """Location and offset of the message lead to the data."""
    (tmp_path / "w").write_bytes(np.arange(8, dtype="<f4").tobytes())
    proto = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    proto.external_data.add(key="location", value="w")
    proto.external_data.add(key="offset", value="16")
    assert reader(folder=tmp_path).weight(proto).array().tolist() == [4.0, 5.0]


def sparse(values: list[float], indices: object, dims: list[int]) -> onnx.SparseTensorProto:
    """A sparse tensor named ``t``."""
    return helper.make_sparse_tensor(
        helper.make_tensor("t", TensorProto.FLOAT, [len(values)], values),
        numpy_helper.from_array(np.array(indices, np.int64), "i"),
        dims,
    )


@both_forms
@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_sparse_tensors_become_dense(indices: object, form: Callable[[Any], Any]) -> None:
    """Linear indices, or one per dimension."""
    found = reader().sparse(form(sparse([2.0, 3.0], indices, [2, 3])))
    assert found.array().tolist() == [[0, 2, 0], [0, 0, 3]]


@pytest.mark.parametrize("indices", [[0, 6], [0, -1], [[0, 0], [2, 0]], [[0, 0], [0, -1]]])
def test_sparse_indices_outside_are_refused(indices: object) -> None:
    """Each index is compared with its bound."""
    with pytest.raises(InvalidGraph, match=r"'t' has an index outside its shape \[2, 3\]"):
        reader().sparse(sparse([2.0, 3.0], indices, [2, 3]))


@pytest.mark.parametrize("indices", [[0], [[0, 1, 2], [0, 1, 2]]])
def test_sparse_indices_that_do_not_fit_are_refused(indices: object) -> None:
    with pytest.raises(InvalidGraph, match=r"do not fit its values(.|\n)*values \[2\], shape \[2, 3\]"):
        reader().sparse(sparse([2.0, 3.0], indices, [2, 3]))


def test_dense_size_of_sparse_tensors_is_asked_for() -> None:
    """One value in a terabyte of zeros."""
    with pytest.raises(LimitError, match="allocation"):
        reader().sparse(sparse([2.0], [0], [1 << 20, 1 << 20]))


def test_constants_together_are_bounded() -> None:
    """Many sparse tensors, each of which is allowed."""
    tensors = reader(Limits(initializer_bytes=1000))
    tensors.sparse(sparse([2.0], [0], [200]))
    with pytest.raises(LimitError, match="constants take more than 1000 bytes"):
        tensors.sparse(sparse([2.0], [0], [200]))


def test_bfloat16_arrives_as_ml_dtypes() -> None:
    """Types that NumPy lacks come as those of ml_dtypes."""
    proto = helper.make_tensor("t", TensorProto.BFLOAT16, [1], [1.5])
    assert reader().weight(proto).array().dtype == ml_dtypes.bfloat16
