"""Files of marshalled parts: what is written is read, and nothing else is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ort_py.mapped_parts import HEADER, UNREADABLE, open_parts, read_part, write_parts

PARTS = [["one", 1], {"two": (2,)}, b"three"]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A file with three parts, whose table is a name and where they are."""
    path = tmp_path / "parts"
    write_parts(str(path), 7, PARTS, lambda places: ("table", list(places)))
    return path


def test_what_was_written_is_read(written: Path) -> None:
    content, (name, places) = open_parts(str(written), 7)
    assert name == "table"
    assert [read_part(content, place) for place in places] == PARTS


def test_another_format_is_not_read(written: Path) -> None:
    with pytest.raises(UNREADABLE):
        open_parts(str(written), 8)


def test_what_another_interpreter_wrote_is_not_read(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "hexversion", sys.hexversion + 1)
    with pytest.raises(UNREADABLE):
        open_parts(str(written), 7)


def test_an_absent_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UNREADABLE):
        open_parts(str(tmp_path / "absent"), 7)


def test_no_truncated_file_is_read(written: Path) -> None:
    whole = written.read_bytes()
    for size in range(len(whole)):
        written.write_bytes(whole[:size])
        with pytest.raises(UNREADABLE):
            open_parts(str(written), 7)


def test_every_changed_byte_of_a_part_or_the_table_is_noticed(written: Path) -> None:
    whole = written.read_bytes()
    for place in range(HEADER, len(whole)):
        written.write_bytes(whole[:place] + bytes((whole[place] ^ 1,)) + whole[place + 1 :])
        with pytest.raises(UNREADABLE):  # noqa: PT012 - either of them may notice
            content, (_, places) = open_parts(str(written), 7)
            for part in places:
                read_part(content, part)


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    write_parts(str(tmp_path / "absent" / "parts"), 7, PARTS, list)
    assert not list(tmp_path.iterdir())
