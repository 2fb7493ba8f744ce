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
    pytest.mark.timeout(3600),  # each trial of a plug-in starts a process
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64" or sys.version_info >= (3, 14),
        reason="no wheel of onnxruntime-ggml, or of its onnxruntime, for this system",
    ),
]


@pytest.mark.parametrize(
    ("test", "packages"),
    [
        ("providers/onnxruntime/tests/test_ggml.py", ["onnxruntime-ggml==0.2.0"]),
        (
            "providers/onnxruntime/tests/test_plugin_packages.py",
            ["onnxruntime==1.31.1", "onnxruntime-ep-webgpu==0.4.0", "onnxruntime-ep-openvino==1.8.1"],
        ),
        ("tests/end_to_end/test_compiled_by_qnn.py", ["onnxruntime==1.31.1", "onnxruntime-qnn==2.7.0"]),
        ("providers/onnxruntime/tests/test_tools.py", ["onnxruntime==1.31.1", "sympy", "onnx-ir"]),
        (
            "providers/onnxruntime/tests/test_optimum.py",
            ["onnxruntime==1.31.1", "optimum-onnx==0.1.0", "torch==2.13.0"],
        ),
    ],
)
def test_with_packages_from_their_wheels(
    wheels: dict[str, Path], tmp_path: Path, test: str, packages: list[str]
) -> None:
    """Plug-ins are found, registered and run, and tools find what they need: the tests that need them pass,
    and none of them is left out but cases of the kit for nodes that the plug-in does not take.
    """
    environment = make_environment(tmp_path / "env")
    names = ("ort-py-kit", "ort-py-cpu", "ort-py-onnxruntime", *packages)
    environment.install("--find-links", wheels["ort-py-core"].parent, *names)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / test, tmp_path / "tests")
    outcome = environment.pytest(tmp_path)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert " passed" in outcome.stdout, outcome.stdout
    if "ggml" not in test:  # the kit skips cases whose nodes run elsewhere
        assert "skipped" not in outcome.stdout, outcome.stdout
