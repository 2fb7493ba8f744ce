"""Constants that regions take over: given up, restored, held together; packed forms of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ort_py.dtypes import DataType
from ort_py.errors import Fail
from ort_py.files import FileIdentity
from ort_py.graph.weights.region_weights import HeldForms, StoredWeight
from ort_py.graph.weights.weight_store import WeightStore
from ort_py.graph.weights.weights import ArrayWeight, FilePart

VALUES = np.arange(1024, dtype=np.float32)


@pytest.fixture
def store() -> WeightStore:
    """A store of its own."""
    return WeightStore()


def in_memory(store: WeightStore) -> ArrayWeight:
    """A constant that only its region could bring back."""
    return store.embedded(VALUES.tobytes(), DataType.FLOAT, VALUES.shape)


def in_file(store: WeightStore, path: Path) -> ArrayWeight:
    """The same in a file."""
    path.write_bytes(VALUES.tobytes())
    part = FilePart(str(path), FileIdentity.of(path.stat()), 0, VALUES.nbytes)
    return store.embedded(VALUES.tobytes(), DataType.FLOAT, VALUES.shape, part)


class Form:
    """A region's packed form. It can be converted back, and counts how often it was."""

    def __init__(self) -> None:
        self.used = 0

    def __call__(self) -> np.ndarray[Any, Any]:
        self.used += 1
        return VALUES.copy()


def test_a_constant_without_a_file_comes_from_what_was_packed(store: WeightStore) -> None:
    """The engine lets go of the only copy, and whoever asks later gets the same tensor, read-only."""
    stored, form = in_memory(store), Form()
    weight = StoredWeight(stored)
    weight.replaced(form)
    assert store.stats().held_bytes == 0
    again = weight.array()
    assert (again.tobytes(), again.flags.writeable, form.used) == (VALUES.tobytes(), False, 1)
    assert weight.array() is not None
    del again
    assert not stored.loaded


def test_what_cannot_be_turned_back_and_has_no_file_is_kept(store: WeightStore) -> None:
    """Packing lost something: the original stays."""
    stored = in_memory(store)
    StoredWeight(stored).replaced(None)
    assert stored.loaded


def test_a_file_goes_before_a_form_that_nobody_keeps(store: WeightStore, tmp_path: Path) -> None:
    """The engine does not keep a region's memory alive for what it can read again."""
    stored = in_file(store, tmp_path / "model.onnx")
    StoredWeight(stored).replaced(Form())
    assert not stored.loaded
    assert stored.array().tobytes() == VALUES.tobytes()


def test_what_is_held_survives_its_file(store: WeightStore, tmp_path: Path) -> None:
    """A region that packs in its first run gets the constant though the file is gone by then."""
    path = tmp_path / "model.onnx"
    stored = in_file(store, path)
    weight = StoredWeight(stored)
    keeper = weight.held()
    stored.release()
    path.unlink()
    assert weight.array().tobytes() == VALUES.tobytes()
    del keeper
    with pytest.raises(Fail, match="cannot be read from the model's file again"):
        weight.array()


def test_all_who_hold_an_array_have_the_form_in_its_place(store: WeightStore, tmp_path: Path) -> None:
    """One session packs, and the memory of the original is free though another session has not run yet."""
    path = tmp_path / "model.onnx"
    stored = in_file(store, path)
    first, second = StoredWeight(stored), StoredWeight(stored)
    keepers = [first.held(), second.held()]
    form = Form()
    first.replaced(form)
    assert not stored.loaded
    path.unlink()
    keepers[0] = form
    del form
    assert second.array().tobytes() == VALUES.tobytes()
    assert second.held() is keepers[1]


def test_a_form_that_becomes_something_else_is_refused(store: WeightStore) -> None:
    weight = StoredWeight(in_memory(store))
    weight.replaced(lambda: VALUES.astype(np.float64))
    with pytest.raises(Fail, match=r"float64\[1024\] instead of float32\[1024\]") as caught:
        weight.array()
    assert "author of the provider" in caught.value.fix


def test_a_newer_file_takes_the_place_of_a_form(store: WeightStore, tmp_path: Path) -> None:
    """The same content loaded from a small file later: the form is not kept for it any more."""
    small = VALUES[:16]
    stored = store.embedded(small.tobytes(), DataType.FLOAT, small.shape)
    used: list[int] = []
    stored.replace(lambda: used.append(1) or small.copy())  # type: ignore[func-returns-value]
    path = tmp_path / "model.onnx"
    path.write_bytes(small.tobytes())
    part = FilePart(str(path), FileIdentity.of(path.stat()), 0, small.nbytes)
    assert store.embedded(small.tobytes(), DataType.FLOAT, small.shape, part) is stored
    assert (stored.array().tobytes(), used) == (small.tobytes(), [])


def test_large_constants_of_a_file_are_read_when_they_are_asked_for(store: WeightStore, tmp_path: Path) -> None:
    """Their key is their place, so that nothing looks at the content before."""
    content = np.arange(1 << 15, dtype=np.float32)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"---" + content.tobytes())
    part = FilePart(str(path), FileIdentity.of(path.stat()), 3, 3 + content.nbytes)
    made = [store.embedded(content.tobytes(), DataType.FLOAT, content.shape, part) for _ in range(2)]
    assert made[0] is made[1]
    assert made[0].key.startswith("file:")
    assert (made[0].loaded, made[0].nbytes) == (False, content.nbytes)
    array = made[0].array()
    assert array.tobytes() == content.tobytes()
    assert array.ctypes.data % 64 == 0
    assert made[0].array() is array


def test_a_file_that_ends_too_early_says_so(store: WeightStore, tmp_path: Path) -> None:
    """Nothing is made of half a tensor."""
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(100))
    part = FilePart(str(path), FileIdentity.of(path.stat()), 0, 400_000)
    weight = store.embedded(bytes(400_000), DataType.FLOAT, (100_000,), part)
    with pytest.raises(Fail, match="it ends too early"):
        weight.array()


def test_sessions_share_forms_and_each_counts_them(store: WeightStore) -> None:
    """One form for both; with the last of them it goes."""
    made: list[int] = []

    def make() -> np.ndarray[Any, Any]:
        made.append(1)
        return np.zeros(100, np.uint8)

    sessions = [HeldForms(store), HeldForms(store)]
    arrays = [one.packed(("key",), "form", make) for one in sessions]
    assert arrays[0] is arrays[1]
    assert [one.nbytes for one in sessions] == [100, 100]
    assert (len(made), store.stats().packed_bytes) == (1, 100)
    del arrays
    sessions.clear()
    assert store.stats().packed_bytes == 0


def test_forms_on_a_device_are_not_shared(store: WeightStore) -> None:
    """Their memory belongs to the session."""
    sessions = [HeldForms(store, shared=False) for _ in range(2)]
    arrays = [one.packed(("key",), "form", lambda: np.zeros(8)) for one in sessions]
    assert arrays[0] is not arrays[1]
    assert sessions[0].packed(("key",), "form", lambda: np.ones(8)) is arrays[0]
    assert store.stats().packed_bytes == 0
