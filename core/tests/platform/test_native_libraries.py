"""Libraries that the dynamic loader reports as loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ort_py.platform import native_libraries as module


def test_a_table_of_mapped_files(tmp_path: Path) -> None:
    """Each library is listed once, blanks in paths are kept, and other files are ignored."""
    maps = tmp_path / "maps"
    maps.write_text(
        "7f00-7f01 r--p 00000000 fe:00 1   /usr/lib/libblas.so.3\n"
        "7f01-7f02 r-xp 00001000 fe:00 1   /usr/lib/libblas.so.3\n"
        "7f02-7f03 r-xp 00000000 fe:00 2   /my files/libgomp.so.1\n"
        "7f03-7f04 rw-p 00000000 00:00 0 \n"
        "7f04-7f05 rw-p 00000000 00:00 0   [heap]\n"
        "7f05-7f06 r--p 00000000 fe:00 3   /usr/share/locale\n"
    )
    assert module._on_linux(maps) == ["/usr/lib/libblas.so.3", "/my files/libgomp.so.1"]


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a table no library is known, which is not an error."""

    def absent() -> list[str]:
        raise FileNotFoundError("/proc/self/maps")

    monkeypatch.setattr(module, "_on_linux", absent)
    monkeypatch.setattr(sys, "platform", "another")
    assert module._loaded_libraries() == []


def test_opening_what_is_not_loaded_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="absent"):
        module._opened(str(tmp_path / "absent.so"))
