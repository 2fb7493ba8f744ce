"""The state in which the bridge loads onnxruntime: it sends nothing and writes nothing unless asked."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from ort_py_onnxruntime import native

LOADED = """
import onnxruntime.capi._pybind_state as real
called = []
for name in ("disable_telemetry_events", "enable_telemetry_events", "set_default_logger_severity"):
    setattr(real, name, lambda *arguments, name=name: called.append((name, *arguments)))
from ort_py_onnxruntime import native
native._import = lambda build: real
native.native()
print(called)
"""


def test_telemetry_is_off_once_it_is_loaded() -> None:
    """It is switched off before the first session, and nothing switches it on again."""
    done = subprocess.run([sys.executable, "-c", LOADED], check=False, capture_output=True, text=True)
    assert done.stdout.strip() == "[('disable_telemetry_events',), ('set_default_logger_severity', 4)]", done.stderr


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        (logging.NOTSET, 4),
        (logging.DEBUG, 0),
        (logging.INFO, 1),
        (logging.WARNING, 2),
        (logging.ERROR, 3),
        (logging.CRITICAL, 4),
    ],
)
def test_the_logger_of_the_package_sets_what_is_written(
    monkeypatch: pytest.MonkeyPatch, level: int, severity: int
) -> None:
    """onnxruntime counts from 0, verbose, to 4, fatal; without a level it writes fatal messages only."""
    monkeypatch.setattr(native.logger, "level", level)
    assert native.severity() == severity
