"""Plug-ins that do not fit, or that end the process: what is said, and that `ort-py doctor` survives them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ort_py as ort
from ort_py_kit.graphs import model_from_text

NAME = "WebGpuExecutionProvider"
CRASHES = "os.abort()"
NO_LIBRARY = "return __file__"


def _plugin(folder: Path, body: str) -> dict[str, str]:
    """Variables of a process that finds a plug-in, whose `get_library_path` does what `body` says."""
    package = folder / "onnxruntime_ep_webgpu"
    package.mkdir()
    text = f'import os\n\n\ndef get_ep_name():\n    return "{NAME}"\n\n\ndef get_library_path():\n    {body}\n'
    (package / "__init__.py").write_text(text)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def _examined(variables: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "ort_py.cli", "doctor", "--only", NAME, "--json"]
    done = subprocess.run(command, env=variables, check=False, capture_output=True, text=True)
    (found,) = json.loads(done.stdout)["providers"]
    assert isinstance(found, dict)
    return found


def test_a_plugin_that_ends_the_process_is_a_finding(tmp_path: Path) -> None:
    """It is tried in a process of its own, before a program meets it."""
    found = _examined(_plugin(tmp_path, CRASHES))
    assert found["verdict"] == "crashed", found
    assert "running a small model" in found["cause"]
    assert "onnxruntime_ep_webgpu" in found["output"]


def test_a_plugin_that_does_not_fit_is_named(tmp_path: Path) -> None:
    """With the version of onnxruntime that did not take it, and the package to update."""
    found = _examined(_plugin(tmp_path, NO_LIBRARY))
    assert found["verdict"] == "untried", found
    assert "plug-in onnxruntime_ep_webgpu does not give onnxruntime" in found["cause"]
    assert "pip install --upgrade onnxruntime-ep-webgpu" in found["cause"]


def test_a_plugin_that_does_not_fit_has_no_device(tmp_path: Path) -> None:
    """It is listed by name, from its files; policies do not choose it."""
    code = f"""
import ort_py
assert "{NAME}" in ort_py.get_available_providers()
assert "{NAME}" not in {{device.ep_name for device in ort_py.get_ep_devices()}}
options = ort_py.SessionOptions()
options.set_provider_selection_policy(ort_py.OrtExecutionProviderDevicePolicy.PREFER_GPU)
assert "{NAME}" not in ort_py.explain_selection(sess_options=options).taken
"""
    variables = _plugin(tmp_path, NO_LIBRARY)
    done = subprocess.run([sys.executable, "-c", code], env=variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "does not pay: too little work for a call"),
        ({"claim_small": True}, "onnxruntime does not give it to AzureExecutionProvider"),
    ],
)
def test_regions_must_be_worth_a_call(options: dict[str, Any], reason: str) -> None:
    """Small ones stay with others, unless they are wanted; then onnxruntime decides."""
    settings = ort.SessionOptions()
    settings.pin_cpu = True
    model = model_from_text("g (float[8] x) => (float[8] y) { y = Relu(x) }").SerializeToString()
    azure = ("AzureExecutionProvider", options)
    with ort.InferenceSession(model, settings, providers=[azure, "CPUExecutionProvider"]) as session:
        texts = [str(refusal) for node in session.placement for refusal in node.refusals]
    assert any(reason in text for text in texts), texts
