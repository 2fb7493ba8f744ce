"""onnxruntime's plug-ins for WebGPU and OpenVINO from their packages: found, asked for devices, and what is said then.

Skipped where they are not installed: `tests/packaging` makes an environment that has them. On a machine with a device
they run a product, and without one sessions and `ort-py doctor` say that it is missing.
"""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.graphs import model_from_text

pytest.importorskip("onnxruntime_ep_webgpu", reason="onnxruntime-ep-webgpu is not installed")
pytest.importorskip("onnxruntime_ep_openvino", reason="onnxruntime-ep-openvino is not installed")

pytestmark = pytest.mark.nightly

CPU = "CPUExecutionProvider"
PLUGINS = {"WebGpuExecutionProvider": "onnxruntime_ep_webgpu", "OpenVINOExecutionProvider": "onnxruntime_ep_openvino"}
MODEL = model_from_text("g (float[64, 64] x) => (float[64, 64] y) { y = MatMul(x, x) }").SerializeToString()


@pytest.mark.parametrize("name", PLUGINS)
def test_it_is_found_and_not_imported(name: str) -> None:
    """Listings know it by onnxruntime's name, from the files of its package."""
    code = f"""
import sys
import ort_py
(record,) = [one for one in ort_py.get_provider_records() if one.name == "{name}" and one.usable]
assert "in the plug-in {PLUGINS[name]}, with onnxruntime " in record.reason, record.reason
assert "{name}" in ort_py.get_available_providers()
assert not {{"onnxruntime", "{PLUGINS[name]}"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.filterwarnings("ignore::ort_py.ProviderFallbackWarning")
@pytest.mark.parametrize("name", PLUGINS)
def test_a_session_runs_on_its_device_or_says_that_there_is_none(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    settings = ort.SessionOptions()
    settings.pin_cpu = True
    with ort.InferenceSession(MODEL, settings, providers=[name, CPU]) as session:
        np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ x, rtol=1e-2, atol=1e-2)
        if session.placement.counts() != {name: 1}:
            assert session.placement.counts() == {CPU: 1}
            (fallback,) = session.fallback_report
            assert f"{name} finds no device on this machine" in fallback.reason
            assert f"{name} finds no device on this machine" in str(session.explain_selection())
            assert name not in {device.ep_name for device in ort.get_ep_devices()}


@pytest.mark.parametrize("name", PLUGINS)
def test_doctor_tries_it_in_a_process_of_its_own(name: str) -> None:
    command = [sys.executable, "-m", "ort_py.cli", "doctor", "--only", name, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    (found,) = json.loads(done.stdout)["providers"]
    assert found["verdict"] == "ok" or f"{name} finds no device on this machine" in found["cause"], found
