"""Files of expected failures: case and reason a line, and every mistake of the file at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ort_py.errors import UsageError
from ort_py_kit.expected_failures import read_expected_failures, reason_for


def test_reasons_by_case(tmp_path: Path) -> None:
    """Comments and empty lines are left out; a reason may have colons."""
    file = tmp_path / "mine.xfail.txt"
    file.write_text("# known\n\nnode/test_relu: the library: rounds\ntest_arrays_may_be_empty: not yet\n", "utf-8")
    assert read_expected_failures(file) == {
        "node/test_relu": "the library: rounds",
        "test_arrays_may_be_empty": "not yet",
    }


def test_no_file_is_no_failure() -> None:
    assert read_expected_failures(None) == {}


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file '.*nowhere\.txt' of expected failures"):
        read_expected_failures(tmp_path / "nowhere.txt")


def test_all_wrong_lines_are_named(tmp_path: Path) -> None:
    """Lines without a reason, and cases that are there twice."""
    file = tmp_path / "mine.xfail.txt"
    file.write_text("node/test_abs\nnode/test_add: one\nnode/test_add: two\n", "utf-8")
    with pytest.raises(UsageError) as caught:
        read_expected_failures(file)
    assert "line 1: 'node/test_abs' has no reason" in str(caught.value)
    assert "line 3: 'node/test_add' is there twice" in str(caught.value)


def test_a_line_may_name_all_that_begin_like_it() -> None:
    """A name of its own counts first."""
    reasons = {"version/com.acme.*": "elsewhere", "version/com.acme.Squeak-1": "here"}
    assert reason_for(reasons, "version/com.acme.Squeak-1") == "here"
    assert reason_for(reasons, "version/com.acme.Bark-2") == "elsewhere"
    assert reason_for(reasons, "version/Relu-1") is None
