"""Feeds of every kind reach the model with the values the caller meant."""

from __future__ import annotations

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from core.tests.small_models import ADD, RELU, open_model, typed_identity
from ort_py import OrtValue
from ort_py.limits import checking_time

BASE = np.array([[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0]], np.float32)
EXPECTED = np.maximum(BASE, 0)


class OnlyArray:
    """Has ``__array__`` and nothing else."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.array, dtype)


class OnlyDlpack:
    """Has the DLPack protocol and nothing else."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def read_only() -> np.ndarray[Any, Any]:
    """An array that must not be written to."""
    array = BASE.copy()
    array.flags.writeable = False
    return array


def unaligned() -> np.ndarray[Any, Any]:
    """An array whose memory starts at an odd address."""
    raw = np.zeros(BASE.nbytes + 1, np.uint8)
    array = raw[1:].view(np.float32).reshape(BASE.shape)
    array[...] = BASE
    return array


FEEDS: dict[str, Any] = {
    "contiguous": BASE,
    "big endian": BASE.astype(">f4"),
    "fortran order": np.asfortranarray(BASE),
    "transposed": np.ascontiguousarray(BASE.T).T,
    "strided": np.repeat(BASE, 2, axis=1)[:, ::2],
    "negative strides": np.ascontiguousarray(BASE[::-1, ::-1])[::-1, ::-1],
    "read only": read_only(),
    "unaligned": unaligned(),
    "masked": np.ma.masked_less(BASE, 0),
    "subclass": BASE.view(np.recarray),
    "nested lists": BASE.tolist(),
    "nested tuples": tuple(map(tuple, BASE.tolist())),
    "OrtValue": OrtValue.ortvalue_from_numpy(BASE),
    "__array__ only": OnlyArray(BASE),
    "DLPack only": OnlyDlpack(BASE),
    "memory map": np.frombuffer(BASE.tobytes(), np.float32).reshape(BASE.shape),
}


@pytest.mark.parametrize("kind", FEEDS)
def test_feed_arrives_with_its_values(kind: str) -> None:
    """The model sees the values, whatever form they come in."""
    (result,) = open_model(RELU).run(None, {"x": FEEDS[kind]})
    np.testing.assert_array_equal(result, EXPECTED)


@pytest.mark.parametrize("kind", ["contiguous", "big endian", "strided", "OrtValue"])
def test_feed_is_left_as_it_was(kind: str) -> None:
    feed = FEEDS[kind]
    before = np.array(feed)
    open_model(RELU).run(None, {"x": feed})
    np.testing.assert_array_equal(np.asarray(feed), before)


def test_broadcast_view() -> None:
    """An array with a stride of zero is read in full."""
    feed = np.broadcast_to(np.float32(-2), (2, 3))
    (result,) = open_model("g (float[2, 3] x) => (float[2, 3] y) { y = Neg(x) }").run(None, {"x": feed})
    np.testing.assert_array_equal(result, np.full((2, 3), 2, np.float32))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_zero_size(shape: tuple[int, int]) -> None:
    """A dimension of zero is a shape like any other."""
    (result,) = open_model("g (float[N, M] x) => (float[N, M] y) { y = Relu(x) }").run(
        None, {"x": np.zeros(shape, np.float32)}
    )
    assert result.shape == shape


SCALARS: dict[str, Any] = {
    "0-d array": np.array(-2, np.float32),
    "NumPy scalar": np.float32(-2),
    "Python float": -2.0,
    "Python int": -2,
}


@pytest.mark.parametrize("kind", SCALARS)
def test_scalars(kind: str) -> None:
    """A declared scalar takes arrays and plain numbers of rank zero and gives a 0-d array."""
    (result,) = open_model("g (float x) => (float y) { y = Neg(x) }").run(None, {"x": SCALARS[kind]})
    assert isinstance(result, np.ndarray)
    assert (result.shape, result.dtype, float(result)) == ((), np.float32, 2.0)


def test_python_booleans() -> None:
    """Plain Python values take the model's type."""
    (result,) = open_model("g (bool[N] x) => (bool[N] y) { y = Not(x) }").run(None, {"x": [True, False]})
    assert result.dtype == np.bool_
    assert result.tolist() == [False, True]


def test_python_integers_keep_all_their_digits() -> None:
    """Large integers do not pass through float."""
    (result,) = open_model(typed_identity("int64[N]")).run(None, {"x": [2**62 + 1]})
    assert result.tolist() == [2**62 + 1]


STRINGS: dict[str, Any] = {
    "list of str": ["ä", "bc"],
    "unicode array": np.array(["ä", "bc"]),
    "object array": np.array(["ä", "bc"], object),
    "list of bytes": ["ä".encode(), b"bc"],
    "bytes array": np.array(["ä".encode(), b"bc"]),
    "object array of bytes": np.array(["ä".encode(), b"bc"], object),
}


@pytest.mark.parametrize("kind", STRINGS)
def test_strings(kind: str) -> None:
    """Texts come out as ``str`` in an object array, bytes read as UTF-8."""
    (result,) = open_model(typed_identity("string[N]")).run(None, {"x": STRINGS[kind]})
    assert result.dtype == object
    assert result.tolist() == ["ä", "bc"]


def test_reading_many_texts_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with a limit may be over before its first step."""
    monkeypatch.setattr("ort_py.engine.feeds._STRETCH", 2)
    texts = np.array(["ä", b"bc", "d", "e", "f"], object)
    looks: list[float] = []
    session = open_model(typed_identity("string[N]"))
    with checking_time(lambda ahead=0.0: looks.append(ahead)):
        (result,) = session.run(None, {"x": texts})
    assert len(looks) >= 3
    assert result.tolist() == ["ä", "bc", "d", "e", "f"]


def test_texts_of_other_types_keep_their_words() -> None:
    """Objects become texts by ``str``, as in onnxruntime."""
    (result,) = open_model(typed_identity("string[N]")).run(None, {"x": np.array([None, 3], object)})
    assert result.tolist() == ["None", "3"]


LOW_PRECISION = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
}


@pytest.mark.parametrize("name", LOW_PRECISION)
def test_types_numpy_lacks(name: str) -> None:
    """Arrays of ml_dtypes' types go in and come out."""
    feed = np.array([1, 2, 3], LOW_PRECISION[name])
    (result,) = open_model(typed_identity(f"{name}[N]")).run(None, {"x": feed})
    assert result.dtype == feed.dtype
    np.testing.assert_array_equal(result.astype(np.float32), [1, 2, 3])


def test_bfloat16_as_plain_lists() -> None:
    """Plain numbers become the model's type, also where NumPy lacks it."""
    (result,) = open_model(typed_identity("bfloat16[N]")).run(None, {"x": [1.0, 2.5]})
    assert result.dtype == np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("container", [list, tuple])
def test_sequences(container: type[Any]) -> None:
    """A sequence is a list or tuple of arrays; its elements are converted like tensors."""
    feed = container([BASE.astype(">f4"), BASE[:, ::-1]])
    (result,) = open_model(typed_identity("seq(float[N, M])")).run(None, {"x": feed})
    assert isinstance(result, list)
    np.testing.assert_array_equal(result[0], BASE)
    np.testing.assert_array_equal(result[1], BASE[:, ::-1])


OPTIONAL = typed_identity("optional(float[N])")


@pytest.mark.parametrize(("feed", "expected"), [({"x": None}, False), ({}, False), ({"x": [1.0]}, True)])
def test_optionals(feed: dict[str, Any], expected: bool) -> None:
    """None and leaving it out both mean empty."""
    (result,) = open_model(OPTIONAL).run(None, feed)
    assert (result is not None) is expected


def test_overridable_initializer_may_be_fed() -> None:
    """A fed value counts for that run only."""
    session = open_model("g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Mul(x, w) }")
    x = np.ones(2, np.float32)
    assert session.run(None, {"x": x})[0].tolist() == [1, 2]
    assert session.run(None, {"x": x, "w": np.array([5, 6], np.float32)})[0].tolist() == [5, 6]
    assert session.run(None, {"x": x})[0].tolist() == [1, 2]


def test_any_mapping_is_a_feed() -> None:
    """The feed need not be a dict."""
    from types import MappingProxyType

    (result,) = open_model(RELU).run(None, MappingProxyType({"x": BASE}))
    np.testing.assert_array_equal(result, EXPECTED)


def test_one_array_for_two_inputs() -> None:
    """The same array may be fed twice."""
    (result,) = open_model(ADD).run(None, {"a": BASE, "b": BASE})
    np.testing.assert_array_equal(result, BASE * 2)


def test_unpickled_arrays() -> None:
    """An array with a dtype object of its own is taken as it is."""
    x = pickle.loads(pickle.dumps(np.array([[1, -2, 3]], np.float32)))
    assert x.dtype is not np.dtype(np.float32)
    np.testing.assert_array_equal(open_model(RELU).run(None, {"x": x})[0], np.maximum(x, 0))
