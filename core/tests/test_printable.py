"""Names of strangers in text of ours: no line of their own, no sequence that steers a terminal."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import pytest

import ort_py
from core.tests.small_models import CPU, HEADER
from ort_py.errors import Fail, Location
from ort_py.printable import one_line, printable

EVIL = "x\nwarning: all is well\x1b[2J\u202e\r\x07"


def test_escapes() -> None:
    """Everything but line ends, or line ends too; text that is harmless is itself."""
    assert printable(EVIL) == "x\nwarning: all is well\\x1b[2J\\u202e\\r\\x07"
    assert one_line(EVIL) == "x\\nwarning: all is well\\x1b[2J\\u202e\\r\\x07"
    assert one_line("größer → 3") == printable("größer → 3") == "größer → 3"


@pytest.mark.parametrize("part", ["what", "where", "why", "reasons", "fix", "place"])
def test_no_part_of_an_error_begins_a_line(part: str) -> None:
    """Wherever a name of a model gets into the message."""
    parts = {
        "where": EVIL if part == "where" else Location(node=EVIL, file=EVIL) if part == "place" else "",
        "why": [EVIL, EVIL] if part == "reasons" else EVIL if part == "why" else "",
        "fix": EVIL if part == "fix" else "",
    }
    text = str(Fail(EVIL if part == "what" else "It failed.", **parts))  # type: ignore[arg-type]
    assert not any(line.strip().startswith("warning:") for line in text.splitlines())
    assert all(line.isprintable() for line in text.split("\n"))


def test_names_in_a_failing_run_and_its_log(caplog: pytest.LogCaptureFixture) -> None:
    """A node and values with such names: the error, the log and the reports stay lines of ours."""
    model = onnx.parser.parse_model(HEADER + "g (float[N] x, int64[K] s) => (float[A, B] y) { y = Reshape(x, s) }")
    model.graph.node[0].name = EVIL
    with caplog.at_level(logging.DEBUG, "ort_py"):
        session = ort_py.InferenceSession(model.SerializeToString(), providers=CPU)
        with pytest.raises(ort_py.OrtPyError) as caught:
            session.run(None, {"x": np.zeros(3, np.float32), "s": np.array([2, 2])})
    for text in (str(caught.value), caplog.text, str(session.placement), str(session.load_report)):
        assert not any(line.strip().startswith("warning:") for line in text.splitlines()), text
        assert "\x1b" not in text
