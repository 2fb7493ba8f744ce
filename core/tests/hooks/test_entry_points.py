"""Scanning metadata: robust, deduplicated, sorted, and nothing imported."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from ort_py.hooks.entry_points import Scan, scan

GROUP = "ort_py_test.group"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder at the front of sys.path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def _distribution(site: Path, name: str, entry_points: str | bytes, metadata_text: str | None = None) -> Path:
    folder = site / f"{name.replace('-', '_')}-1.0.dist-info"
    folder.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" if metadata_text is None else metadata_text
    if text:
        (folder / "METADATA").write_text(text)
    data = entry_points if isinstance(entry_points, bytes) else entry_points.encode()
    (folder / "entry_points.txt").write_bytes(data)
    return folder


def _section(*lines: str) -> str:
    return f"[{GROUP}]\n" + "\n".join(lines) + "\n"


def _names(found: Scan) -> list[tuple[str, str]]:
    return [(entry.name, entry.distribution) for entry in found.entries]


def test_entries_are_sorted_and_nothing_is_imported(site: Path) -> None:
    """Entries come by name, then distribution, whatever order folders have; their modules need not even exist."""
    _distribution(site, "pkg-z", _section("B = no_such_module_z", "A = no_such_module_z"))
    _distribution(site, "pkg-a", _section("A = no_such_module_a.plugin:thing"))
    found = scan(GROUP)
    assert _names(found) == [("A", "pkg-a"), ("A", "pkg-z"), ("B", "pkg-z")]
    first = found.entries[0]
    assert (first.value, first.version, first.group) == ("no_such_module_a.plugin:thing", "1.0", GROUP)
    assert Path(first.location) == site
    assert not [name for name in sys.modules if name.startswith("no_such_module")]


def test_other_groups_are_left_out(site: Path) -> None:
    """Only the group asked for counts, also where another one mentions its name."""
    _distribution(site, "pkg-a", f"[console_scripts]\n{GROUP} = x:y\n")
    assert scan(GROUP).entries == ()


def test_the_same_distribution_twice_counts_once(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies on sys.path are one: the first, which imports find too."""
    _distribution(site / "second", "pkg-a", _section("A = copy_two"))
    _distribution(site / "first", "Pkg_A", _section("A = copy_one"))
    monkeypatch.syspath_prepend(str(site / "second"))
    monkeypatch.syspath_prepend(str(site / "first"))
    found = scan(GROUP)
    assert [entry.value for entry in found.entries] == ["copy_one"]


def test_a_malformed_file_costs_only_its_own_entries(site: Path) -> None:
    """A file that does not parse is a problem naming its distribution; the others are found."""
    _distribution(site, "pkg-bad", f"[{GROUP}]\nthis line has no equals sign\n")
    _distribution(site, "pkg-good", _section("A = x"))
    found = scan(GROUP)
    assert _names(found) == [("A", "pkg-good")]
    assert len(found.problems) == 1
    assert "pkg-bad" in found.problems[0]


def test_an_unreadable_file_costs_only_its_own_entries(site: Path) -> None:
    """Bytes that are not UTF-8 are a problem, not an exception."""
    _distribution(site, "pkg-bad", b"\xff\xfe[group]\n")
    _distribution(site, "pkg-good", _section("A = x"))
    found = scan(GROUP)
    assert _names(found) == [("A", "pkg-good")]
    assert "entry_points.txt of pkg-bad cannot be read: UnicodeDecodeError" in found.problems[0]


@pytest.mark.filterwarnings("ignore:Implicit None on return values:DeprecationWarning")  # importlib.metadata's own
def test_missing_metadata_is_named_after_its_folder(site: Path) -> None:
    """Half a distribution, as a failed upgrade leaves behind, is still found under its folder's name."""
    _distribution(site, "pkg-half", _section("A = x"), metadata_text="")
    assert _names(scan(GROUP)) == [("A", "pkg_half")]


def test_a_failing_finder_keeps_what_was_found_before_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign finder that raises ends the search, and is a problem."""

    class Rude:
        @staticmethod
        def find_spec(*_arguments: object) -> None:
            return None

        @staticmethod
        def find_distributions(*_arguments: object) -> list[metadata.Distribution]:
            raise RuntimeError("rude finder")

    _distribution(site, "pkg-a", _section("A = x"))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Rude])
    found = scan(GROUP)
    assert _names(found) == [("A", "pkg-a")]
    assert found.problems == ("the search for distributions was aborted: RuntimeError: rude finder",)


def test_load_imports_the_value(site: Path) -> None:
    """Loading gives the module, or the attribute of it."""
    (site / "ort_py_test_loaded.py").write_text("thing = 5\n")
    _distribution(site, "pkg-a", _section("A = ort_py_test_loaded", "B = ort_py_test_loaded:thing"))
    module, thing = (entry.load() for entry in scan(GROUP).entries)
    assert module.thing == 5
    assert thing == 5
