"""Loggers that are made when they have something to say."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from ort_py.logs import WARNING, lazy_logger

QUIET = """
import sys
from ort_py.logs import INFO, lazy_logger
logger = lazy_logger("ort_py.test")
logger.debug("no %s", 1)
logger.info("no %s", 1)
assert not logger.isEnabledFor(INFO)
assert "logging" not in sys.modules
logger.warning("a warning of %s", "x\\n1")
assert "logging" in sys.modules
"""


def test_only_warnings_import_the_library() -> None:
    """In a process that does not use `logging`, a warning still reaches the handler of last resort, on one line."""
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True)
    assert done.stderr == "a warning of x\\n1\n"


def test_records_are_those_of_the_logger(caplog: pytest.LogCaptureFixture) -> None:
    """Name, level and the line that logs are those of a plain logger; its level decides what is logged."""
    logger = lazy_logger("ort_py.test")
    with caplog.at_level(logging.INFO, "ort_py.test"):
        logger.info("kept")
        logger.debug("dropped")
        logger.log(WARNING, "kept as well")
    assert [(one.name, one.levelname, one.message) for one in caplog.records] == [
        ("ort_py.test", "INFO", "kept"),
        ("ort_py.test", "WARNING", "kept as well"),
    ]
    assert {one.filename for one in caplog.records} == {"test_logs.py"}
    assert logger.isEnabledFor(WARNING)


def test_texts_of_strangers_stay_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Names that fill a message are escaped in every logger of the project."""
    lazy_logger("ort_py.some.new.room").warning("node %s", "x\x1b[2J\nwarning: all is well")
    assert caplog.messages == ["node x\\x1b[2J\\nwarning: all is well"]
