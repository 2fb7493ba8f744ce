"""The bridge to onnxruntime in an environment that has a plug-in for it, and the onnxruntime that the plug-in wants."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.fresh_environment import make_environment
from tests.support.source_tree import ROOT

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.nightly,
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info >= (3, 14),
        reason="no wheel of onnxruntime-ggml, or of its onnxruntime, for this system",
    ),
]


def test_a_plugin_from_its_wheel(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Found, registered and run: the tests of the provider that need it."""
    environment = make_environment(tmp_path / "env")
    names = ("ort-py-kit", "ort-py-cpu", "ort-py-onnxruntime", "onnxruntime-ggml==0.2.0")
    environment.install("--find-links", wheels["ort-py-core"].parent, *names)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "providers" / "onnxruntime" / "tests" / "test_ggml.py", tmp_path / "tests")
    outcome = environment.pytest(tmp_path)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "4 passed" in outcome.stdout, outcome.stdout
