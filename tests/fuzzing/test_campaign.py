"""Campaigns: what a child process was about to say is reported although it ends."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from typing import Any

from tests.fuzzing.campaign import Report, _Child


def _ended_over(*said: dict[str, Any]) -> list[str]:
    """Kinds of the findings of a child that says something and then aborts."""
    child = object.__new__(_Child)
    report, child.pending, child.seed, child.stage = Report(), None, 7, ""
    for line in said:
        child._take(line, report, None)
    child.process = subprocess.Popen(
        [sys.executable, "-c", "import os; os.abort()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    child.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - the child closes it
    child.start = lambda: None  # type: ignore[method-assign]
    child.died(report, None)
    return [one["kind"] for one in report.found]


def test_a_crash_while_shrinking_hides_no_finding() -> None:
    """onnxruntime may end the process over a smaller case: the finding is told as it was before."""
    pending = {"finding": "1 instead of 2", "kind": "wrong", "who": "all", "seed": 7, "signature": "wrong all"}
    found = _ended_over(
        {"stage": "shrinking wrong of all", "pending": pending}, {"stage": "shrinking wrong of all: onnxruntime"}
    )
    assert found == ["wrong", "peer"]


def test_a_crash_of_a_session_is_a_signal() -> None:
    """The stage tells whose session it was."""
    assert _ended_over({"stage": "shrinking wrong of all: all"}) == ["signal"]
