"""Packed forms in the cache: found by a later process, made again where anything is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ort_py.cache import kept_forms
from ort_py.cache.format import HEAD_BYTES
from ort_py.cache.kept_forms import KeptForms
from ort_py.cache.store import CacheStore
from ort_py.graph.weights.packed_forms import PackedForm, PackedKey
from ort_py.graph.weights.region_weights import HeldForms
from ort_py.graph.weights.weight_store import WeightStore

KEY = "0123abcd"
SHIFTED = PackedKey("shifted", ("w1",))
WIDE = PackedKey("wide", ("w1", "w2"))


@pytest.fixture
def store(tmp_path: Path) -> CacheStore:
    """A store in a folder of its own."""
    return CacheStore(tmp_path / "cache", 1 << 30)


@pytest.fixture
def forms() -> list[PackedForm]:
    """Two forms that are worth a file."""
    random = np.random.default_rng(7)
    shifted = random.integers(0, 255, 70_001, np.uint8)
    return [PackedForm(SHIFTED, shifted, ()), PackedForm(WIDE, random.random((30, 500), np.float32), ())]


def kept(store: CacheStore, entry: str = "first") -> KeptForms:
    """The forms as another process sees them."""
    return KeptForms(store, KEY, "model.onnx", entry)


def write(store: CacheStore, forms: list[PackedForm]) -> None:
    """Note the forms and write them."""
    one = kept(store)
    for form in forms:
        one.note(form)
    written = one.writer()
    assert written is not None
    written()


def packed_file(store: CacheStore) -> Path:
    """The file of the forms."""
    return store.folder / f"{KEY}.packed"


def test_a_later_process_finds_the_forms(store: CacheStore, forms: list[PackedForm]) -> None:
    """With type and shape, aligned and read-only."""
    write(store, forms)
    later = kept(store)
    for form in forms:
        found = later.find(form.key)
        assert found is not None
        assert (found.dtype, found.shape) == (form.value.dtype, form.value.shape)
        np.testing.assert_array_equal(found, form.value)
        assert found.ctypes.data % 64 == 0
        assert not found.flags.writeable
    assert later.find(PackedKey("shifted", ("w2",))) is None


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")
def test_forms_of_several_processes_are_joined(store: CacheStore, forms: list[PackedForm]) -> None:
    """Other shapes of inputs need other forms; those that are there already stay."""
    write(store, forms[:1])
    second = kept(store)
    assert second.find(WIDE) is None
    other = PackedForm(WIDE, np.ones((300, 500), np.float32), ())
    second.note(other)
    written = second.writer()
    assert written is not None
    written()
    found = kept(store)
    assert found.find(SHIFTED) is not None
    assert found.find(WIDE) is not None


def test_forms_of_an_entry_that_was_written_again_go(store: CacheStore, forms: list[PackedForm]) -> None:
    """Their constants have other keys, so that they would stay in the file forever."""
    write(store, forms)
    second = kept(store, "second")
    assert second.find(SHIFTED) is None
    other = PackedForm(WIDE, np.ones((300, 500), np.float32), ())
    second.note(other)
    written = second.writer()
    assert written is not None
    written()
    assert kept(store, "second").find(SHIFTED) is None
    assert kept(store, "second").find(WIDE) is not None


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps files that are mapped")
def test_a_changed_form_is_made_again(store: CacheStore, forms: list[PackedForm]) -> None:
    """Each form is compared when it is used; the file goes, and the next process writes it again."""
    write(store, forms)
    content = bytearray(packed_file(store).read_bytes())
    content[-20] ^= 1
    packed_file(store).write_bytes(content)
    later = kept(store)
    assert later.find(SHIFTED) is not None
    assert later.find(WIDE) is None
    assert not packed_file(store).exists()


def test_damage_stays_visible_when_other_forms_are_added(store: CacheStore, forms: list[PackedForm]) -> None:
    """A form that no process has used in between keeps its checksum."""
    write(store, forms)
    content = bytearray(packed_file(store).read_bytes())
    content[-20] ^= 1
    packed_file(store).write_bytes(content)
    second = kept(store)
    assert second.find(SHIFTED) is not None
    other = PackedForm(PackedKey("other", ()), np.ones(100_000, np.uint8), ())
    second.note(other)
    written = second.writer()
    assert written is not None
    written()
    assert kept(store).find(WIDE) is None


@pytest.mark.parametrize("change", ["cut", "description", "foreign"])
def test_a_damaged_file_is_as_good_as_none(store: CacheStore, forms: list[PackedForm], change: str) -> None:
    """It is removed, with its reason in the log."""
    write(store, forms)
    content = bytearray(packed_file(store).read_bytes())
    if change == "cut":
        content = content[:-100]
    elif change == "description":
        content[HEAD_BYTES + 3] ^= 1
    else:
        content[:4] = b"\0\0\0\0"
    packed_file(store).write_bytes(content)
    assert kept(store).find(SHIFTED) is None
    assert not packed_file(store).exists()


@pytest.mark.parametrize(
    "row",
    [["shifted", ["w1"], 0, "|u1", [10**9], 0], ["shifted", ["w1"], -64, "|u1", [8], 0], ["s", [], 0, "|O", [1], 0]],
)
def test_a_form_outside_of_the_file_is_refused(store: CacheStore, row: list[object]) -> None:
    """A description whose checksum is right may still be wrong."""
    import json

    store.put(KEY, "packed", b'{"entry":"first"}\n' + json.dumps([row]).encode(), [bytes(64)], 64)
    assert kept(store).find(SHIFTED) is None
    assert not packed_file(store).exists()


def test_forms_that_are_gone_are_not_written(store: CacheStore) -> None:
    """Taking note of a form does not keep it in memory."""
    one = kept(store)
    one.note(PackedForm(SHIFTED, np.ones(100_000, np.uint8), ()))
    assert one.writer() is None


def test_small_and_foreign_forms_are_not_written(store: CacheStore) -> None:
    """Making a few bytes takes less time than a file; what is no plain array has no form in a file."""
    one = kept(store)
    forms = [
        PackedForm(SHIFTED, np.ones(100, np.uint8), ()),
        PackedForm(WIDE, (np.ones(100_000), 3), ()),
        PackedForm(PackedKey("strided", ()), np.ones((1000, 1000))[:, ::2], ()),
    ]
    for form in forms:
        one.note(form)
    assert one.writer() is None


def test_too_many_bytes_are_not_written(
    store: CacheStore, forms: list[PackedForm], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process must not end noticeably later."""
    monkeypatch.setattr(kept_forms, "_MOST_BYTES", 1000)
    write(store, forms)
    assert not packed_file(store).exists()


def test_forms_of_any_size_are_written_where_that_is_wanted(
    store: CacheStore, forms: list[PackedForm], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prepared forms of a model that will be shipped."""
    monkeypatch.setattr(kept_forms, "_MOST_BYTES", 1000)
    small = PackedForm(PackedKey("small", ("w",)), np.ones(3, np.float32), ())
    for number, some in enumerate(([small], forms)):
        one = KeptForms(store, f"{KEY}{number}", "model.onnx", "first", any_size=True)
        for form in some:
            one.note(form)
        written = one.writer()
        assert written is not None
        written()
        assert KeptForms(store, f"{KEY}{number}", "model.onnx", "first").find(some[0].key) is not None


def test_forms_of_a_copied_file_are_found(store: CacheStore, forms: list[PackedForm]) -> None:
    """The keys of constants in a file begin with its identity, and forms are of its content."""
    first = KeptForms(store, KEY, "model.onnx", "first", {"file:1:": "data "})
    form = PackedForm(PackedKey("shifted", ("file:1:64", "w")), forms[0].value, ())
    first.note(form)
    written = first.writer()
    assert written is not None
    written()
    for prefix, name, found in (("file:2:", "data ", True), ("file:2:", "other ", False), ("file:1:", "data ", True)):
        later = KeptForms(store, KEY, "model.onnx", "first", {prefix: name})
        assert (later.find(PackedKey("shifted", (f"{prefix}64", "w"))) is not None) is found


def test_a_session_asks_for_kept_forms_before_it_makes_them(store: CacheStore, forms: list[PackedForm]) -> None:
    """And notes what it had to make."""
    write(store, forms)
    noting = kept(store)
    held = HeldForms(WeightStore(), kept=noting)
    np.testing.assert_array_equal(held.packed(["w1"], "shifted", lambda: pytest.fail("it is kept")), forms[0].value)
    assert noting.writer() is None
    held.packed(["w9"], "shifted", lambda: np.zeros(100_000, np.uint8))
    assert noting.writer() is not None


def test_the_end_of_a_process_writes_what_is_left(tmp_path: Path) -> None:
    """A process that ends after its answer closes no session."""
    program = (
        "import sys, numpy as np\nfrom pathlib import Path\n"
        "from ort_py.cache.kept_forms import KeptForms\nfrom ort_py.cache.store import CacheStore\n"
        "from ort_py.graph.weights.packed_forms import PackedForm, PackedKey\n"
        "kept = KeptForms(CacheStore(Path(sys.argv[1]), 1 << 30), 'k', 'm', 'e')\n"
        "form = PackedForm(PackedKey('f', ('w',)), np.arange(100_000), ())\nkept.note(form)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "c")], check=True)
    found = KeptForms(CacheStore(tmp_path / "c", 1 << 30), "k", "m", "e").find(PackedKey("f", ("w",)))
    np.testing.assert_array_equal(found, np.arange(100_000))
