"""Constants held once."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.dtypes import DataType
from ort_py.errors import Fail, InvalidArgument
from ort_py.files import FileIdentity
from ort_py.graph.weights.packed_forms import PackedKey
from ort_py.graph.weights.weight_store import WeightStore, process_store
from ort_py.graph.weights.weights import FilePart, MappedFile

pytestmark = pytest.mark.quick


@pytest.fixture
def store() -> WeightStore:
    """A store of its own."""
    return WeightStore()


@pytest.fixture
def file(store: WeightStore, tmp_path: Path) -> MappedFile:
    """A mapped file of 256 bytes."""
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(range(256)))
    return open_file(store, path)


def open_file(store: WeightStore, path: Path) -> MappedFile:
    """Map a file as external data does."""
    with path.open("rb") as opened:
        status = os.fstat(opened.fileno())
        identity = FileIdentity.of(status)
        return store.file(opened, str(path), identity)


def test_equal_content_is_held_once(store: WeightStore) -> None:
    """Two models with the same tensor share one array."""
    first = store.embedded(b"\0" * 16, DataType.FLOAT, (4,))
    second = store.embedded(b"\0" * 16, DataType.FLOAT, (4,))
    assert second.array() is first.array()
    assert store.stats().held_bytes == 16


@pytest.mark.parametrize(
    ("data_type", "shape"), [(DataType.FLOAT, (2, 2)), (DataType.INT32, (4,)), (DataType.DOUBLE, (2,))]
)
def test_equal_bytes_of_another_type_or_shape_differ(
    store: WeightStore, data_type: DataType, shape: tuple[int, ...]
) -> None:
    """The key covers type and shape."""
    first = store.embedded(b"\0" * 16, DataType.FLOAT, (4,))
    second = store.embedded(b"\0" * 16, data_type, shape)
    assert second.key != first.key
    assert (second.data_type, second.shape) == (data_type, shape)


def test_memory_goes_with_the_last_session(store: WeightStore) -> None:
    """The store itself keeps nothing alive."""
    weight = store.embedded(b"\0" * 4096, DataType.UINT8, (4096,))
    assert store.stats().weights == 1
    del weight
    gc.collect()
    assert store.stats().weights == 0


def test_arrays_added_are_the_same_weight_as_bytes(store: WeightStore) -> None:
    """An array that was computed equals the same tensor from a file."""
    from_file = store.embedded(np.arange(4, dtype="<f4").tobytes(), DataType.FLOAT, (4,))
    assert store.add(np.arange(4, dtype=np.float32)) is from_file


def test_added_arrays_are_copied(store: WeightStore) -> None:
    """Writing to the caller's array afterwards changes no weight."""
    source = np.zeros(3, np.int64)
    weight = store.add(source)
    source[:] = 7
    assert weight.array().tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i2").reshape(2, 3),
        np.arange(6, dtype=np.float32).reshape(2, 3).T,
        np.array(1.5, ml_dtypes.bfloat16),
        np.array([1, -8, 7], ml_dtypes.int4),
        np.zeros((0, 3), np.complex128),
        np.array(["ab", "c"]),
    ],
)
def test_any_array_can_be_added(store: WeightStore, array: np.ndarray[Any, Any]) -> None:
    """Byte orders, layouts, scalars, sub-byte types, empty arrays and NumPy's strings arrive with their values."""
    weight = store.add(array)
    assert weight.shape == array.shape
    assert weight.array().dtype.isnative
    assert weight.array().tolist() == array.tolist()
    assert not weight.array().flags.writeable


def test_what_an_array_was_made_of_tells_it_apart(store: WeightStore) -> None:
    """The text stands for the content, which is not read and not copied; type and shape count too."""
    array = np.arange(4, dtype=np.float32)
    made = store.add(array, own=True, made_of="four numbers")
    assert np.shares_memory(made.array(), array)
    assert not made.array().flags.writeable
    assert store.add(np.zeros(4, np.float32), own=True, made_of="four numbers") is made
    assert store.add(np.zeros(4, np.float64), own=True, made_of="four numbers") is not made
    assert store.add(np.arange(4, dtype=np.float32)) is not made


def test_what_onnx_has_no_type_for_is_refused(store: WeightStore) -> None:
    with pytest.raises(InvalidArgument, match="datetime64"):
        store.add(np.array(["2020-01-01"], "M8[D]"))


def test_strings_differ_by_their_borders_and_kinds(store: WeightStore) -> None:
    """("ab", "c") is not ("a", "bc"), and bytes that are not UTF-8 stay bytes."""
    cases: list[tuple[str | bytes, str]] = [("ab", "c"), ("a", "bc"), (b"ab", "c")]
    keys = {store.strings(values, (2,)).key for values in cases}
    assert len(keys) == 3
    weight = store.strings(["é", b"\xff"], (2,))
    assert weight.data_type is DataType.STRING
    assert weight.array().tolist() == ["é", b"\xff"]


def test_aligned_data_is_used_where_it_lies(store: WeightStore, file: MappedFile) -> None:
    """No copy: the array is a read-only view of the mapped file."""
    weight = store.mapped(file, 64, DataType.FLOAT, (8,))
    array = weight.array()
    assert weight.in_place
    assert not array.flags.owndata
    assert array.tobytes() == bytes(range(64, 96))
    assert not array.flags.writeable
    assert store.stats().mapped_bytes == 32


def test_misaligned_data_is_copied(store: WeightStore, file: MappedFile) -> None:
    """An offset that does not fit the type costs a copy, on a 64-byte boundary."""
    weight = store.mapped(file, 3, DataType.FLOAT, (8,))
    assert not weight.in_place
    assert weight.array().ctypes.data % 64 == 0
    assert weight.array().tobytes() == bytes(range(3, 35))
    assert store.stats().copied_bytes == 32


def test_packed_data_is_unpacked_when_it_is_read(store: WeightStore, file: MappedFile) -> None:
    """Four-bit integers take half a byte in the file and one in memory, but only once somebody asks."""
    weight = store.mapped(file, 16, DataType.INT4, (4,))
    assert store.stats().unread_bytes == 2
    assert weight.array().astype(int).tolist() == [0, 1, 1, 1]
    assert store.stats().unread_bytes == 0


def test_an_empty_tensor_needs_no_page(store: WeightStore, tmp_path: Path) -> None:
    """A tensor without elements in a file without bytes is an array like any other."""
    (tmp_path / "empty").write_bytes(b"")
    weight = store.mapped(open_file(store, tmp_path / "empty"), 0, DataType.FLOAT, (0, 4))
    assert weight.array().shape == (0, 4)


def test_one_mapping_serves_all_who_open_the_file(store: WeightStore, file: MappedFile, tmp_path: Path) -> None:
    """The second model with the same file gets the same mapping, and the same array."""
    again = open_file(store, tmp_path / "weights.bin")
    assert again is file
    assert store.mapped(file, 0, DataType.UINT8, (4,)).key == store.mapped(again, 0, DataType.UINT8, (4,)).key


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")
def test_a_changed_file_is_another_file(store: WeightStore, file: MappedFile, tmp_path: Path) -> None:
    """New content has a new identity, so old weights are not reused."""
    path = tmp_path / "weights.bin"
    path.unlink()
    path.write_bytes(bytes(100))
    assert open_file(store, path) is not file


def test_trim_gives_back_what_can_be_read_again(store: WeightStore, file: MappedFile) -> None:
    """Copies out of files go; the next use reads them again, and keeps them no longer than it needs them."""
    weight = store.mapped(file, 3, DataType.FLOAT, (8,))
    before = weight.array().tobytes()
    assert store.trim() == 32
    assert not weight.loaded
    assert weight.array().tobytes() == before
    assert not weight.loaded
    assert store.trim() == 0


def test_trim_leaves_what_is_held_to_its_holder(store: WeightStore, file: MappedFile) -> None:
    """A plan keeps its array; who asks later gets the same memory, not a second copy."""
    weight = store.mapped(file, 3, DataType.FLOAT, (2, 4))
    held = weight.array()[1:]  # a view holds it too
    assert store.trim() == 0
    assert weight.loaded
    assert np.shares_memory(weight.array(), held)
    assert weight.array().shape == (2, 4)
    del held
    assert not weight.loaded


def embedded_in(store: WeightStore, path: Path) -> Any:
    """The 8 floats at byte 3 of a file, as those of a model's file are kept."""
    identity = FileIdentity.of(path.stat())
    return store.embedded(path.read_bytes()[3:35], DataType.FLOAT, (8,), FilePart(str(path), identity, 3, 35))


def test_embedded_constants_are_read_from_their_file_again(store: WeightStore, tmp_path: Path) -> None:
    """Bytes of a model's file need not stay in memory while they are not read."""
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(range(64)))
    weight = embedded_in(store, path)
    before = weight.array().tobytes()
    assert store.stats().held_bytes == 32
    assert weight.release() == 32
    assert store.stats().held_bytes == 0
    assert weight.array().tobytes() == before


def test_a_changed_file_is_not_read_again(store: WeightStore, tmp_path: Path) -> None:
    """Another content would be silently wrong weights."""
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(range(64)))
    weight = embedded_in(store, path)
    weight.release()
    path.write_bytes(bytes(80))
    with pytest.raises(Fail, match="cannot be read from the model's file again") as caught:
        weight.array()
    assert "it has been written or replaced since then" in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no time of the last status change")
def test_a_file_rewritten_with_its_time_kept_is_not_read_again(store: WeightStore, tmp_path: Path) -> None:
    """Neither by a weight that was released, nor as the content of another session."""
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(range(64)))
    os.utime(path, (1, 1))
    part = FilePart(str(path), FileIdentity.of(path.stat()), 0, 64)
    weight = store.embedded(path.read_bytes() * 2048, DataType.FLOAT, (32768,), part)
    path.write_bytes(bytes(64))
    os.utime(path, (1, 1))
    with pytest.raises(Fail, match="cannot be read from the model's file again") as caught:
        weight.array()
    assert "its status has changed since then" in str(caught.value)
    part = FilePart(str(path), FileIdentity.of(path.stat()), 0, 64)
    assert store.embedded(path.read_bytes() * 2048, DataType.FLOAT, (32768,), part) is not weight


def test_constants_without_a_source_are_kept(store: WeightStore) -> None:
    """Bytes that a caller gave cannot be had again."""
    weight = store.embedded(b"\0" * 16, DataType.FLOAT, (4,))
    assert weight.release() == 0
    assert weight.loaded


def test_a_packed_form_is_made_once_while_somebody_has_it(store: WeightStore) -> None:
    """Two sessions share it; with the last it goes. What is a view of the constant takes nothing of its own."""
    weight = store.embedded(b"\0" * 16, DataType.FLOAT, (4,))
    made: list[int] = []

    def make() -> tuple[Any, ...]:
        made.append(1)
        return weight.array()[::-1], np.zeros(8, np.float32), 3

    key = PackedKey("doubled", (weight.key,))
    first = store.packed(key, make, lambda: [weight.array()])
    assert store.packed(key, make, lambda: [weight.array()]) is first
    assert (len(made), first.nbytes, store.stats().packed_bytes) == (1, 32, 32)
    other = store.packed(PackedKey("tripled", (weight.key,)), make, lambda: [weight.array()])
    assert other is not first
    del first
    gc.collect()
    assert store.stats().packed_bytes == 32


def test_threads_get_one_array(store: WeightStore, file: MappedFile) -> None:
    """Sessions created at once in several threads share what they load."""
    weight = store.mapped(file, 1, DataType.FLOAT, (32,))
    barrier = threading.Barrier(8)
    found: list[int] = []

    def load() -> None:
        barrier.wait()
        found.append(id(weight.array()))
        found.append(id(store.embedded(b"\1" * 64, DataType.UINT8, (64,)).array()) and 0)

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({identity for identity in found if identity}) == 1


def test_the_store_works_after_a_fork_that_caught_its_lock(store: WeightStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that another thread held at the fork is replaced in the child."""
    weight = store.embedded(b"\0" * 8, DataType.DOUBLE, (1,))
    store._lock.acquire()
    real = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    assert store.stats().weights == 1
    assert store.embedded(b"\0" * 8, DataType.DOUBLE, (1,)) is weight


def test_the_process_has_one_store() -> None:
    assert process_store() is process_store()
