"""Progress output of long jobs."""

from __future__ import annotations

import time

import pytest

from ort_py.cli.progress import Progress


def test_short_jobs_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A job that ends at once leaves no line."""
    with Progress("working"):
        pass
    assert capsys.readouterr() == ("", "")


def test_long_jobs_say_what_and_how_far(capsys: pytest.CaptureFixture[str]) -> None:
    """After a while standard error has a line, with the detail; standard output none."""
    with Progress("working", patience=0.02) as progress:
        progress.detail("run 1 of 2")
        time.sleep(0.2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "working … 0 s, run 1 of 2" in captured.err
