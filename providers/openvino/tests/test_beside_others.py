"""OpenVINO in sessions that leave the choice of providers to ort-py, alone and together with oneDNN.

Installing OpenVINO must change nothing for a session that names the CPU or oneDNN, or no provider: one engine fills the
CPU role, and that is the one with the higher rank.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import ort_py
from ort_py_openvino.options import computes_on_cpu
from providers.openvino.tests.models import NAME, parsed, runners

NET = """g (float[n, 256] x, float[256, 256] w) => (float[n, 256] y) { a = MatMul(x, w) y = Tanh(a) }"""
FEEDS = {"x": np.full((64, 256), 0.01, np.float32), "w": np.eye(256, dtype=np.float32)}
CPU, ONEDNN = "CPUExecutionProvider", "DnnlExecutionProvider"
_ONEDNN = find_spec("ort_py_onednn") is not None
needs_onednn = pytest.mark.skipif(not _ONEDNN, reason="oneDNN is not installed")

MIXED = """g (float[n, 3, 32, 32] x, float[8, 3, 3, 3] w, float[n, 8, 32, 32] z)
    => (float[m, 32, 32] y, float[n, 8] s) {
    one = Constant <value = int64 {1}> ()
    c = Conv <pads = [1, 1, 1, 1]> (x, w) r = HardSwish(c) e = Einsum <equation = "nchw,nchw->nhw"> (r, z)
    y = CumSum(e, one) p = GlobalAveragePool(r) f = Flatten(p) s = Softmax(f)
}"""
"""Of some of its operators only OpenVINO and NumPy have kernels."""

_COMPARED = """
import json, sys
import numpy as np
import ort_py
found = []
rng = np.random.default_rng(7)
feeds = {"x": rng.standard_normal((2, 3, 32, 32), np.float32), "w": rng.standard_normal((8, 3, 3, 3), np.float32),
         "z": rng.standard_normal((2, 8, 32, 32), np.float32)}
model = bytes.fromhex(sys.stdin.read())
for providers in (None, ["CPUExecutionProvider"], ["DnnlExecutionProvider"],
                  ["DnnlExecutionProvider", "CPUExecutionProvider"]):
    with ort_py.InferenceSession(model, providers=providers) as session:
        results = [array.tobytes().hex() for array in session.run(None, feeds)]
        placed = [(node.node, node.provider, node.region) for node in session.placement]
        found.append((results, placed, session.get_providers()))
print(json.dumps({"found": found, "imported": "openvino" in sys.modules}))
"""


@pytest.mark.parametrize("providers", [None, [CPU]])
@pytest.mark.skipif(_ONEDNN, reason="oneDNN is installed, and comes first")
def test_it_stands_in_for_the_cpu(providers: list[str] | None) -> None:
    """By default, and under the name that applications use."""
    with ort_py.InferenceSession(parsed(NET).SerializeToString(), providers=providers) as session:
        assert set(runners(session).values()) == {NAME}
        np.testing.assert_allclose(session.run(None, FEEDS)[0], np.tanh(FEEDS["x"]), rtol=1e-5)


@needs_onednn
@pytest.mark.parametrize("providers", [None, [CPU], [ONEDNN], [ONEDNN, CPU]], ids=str)
def test_one_engine_fills_the_role_of_the_cpu(providers: list[str] | None) -> None:
    """The one made for the processor; the explanation says why OpenVINO is left out."""
    with ort_py.InferenceSession(parsed(NET).SerializeToString(), providers=providers) as session:
        told = session.explain_selection()
        assert told.taken == [ONEDNN, CPU]
        assert not session.fallback_report
        np.testing.assert_allclose(session.run(None, FEEDS)[0], np.tanh(FEEDS["x"]), rtol=1e-5)
    (why,) = [one.why for one in told.considered if one.name == NAME]
    assert why.startswith(f"{ONEDNN} fills the role of {CPU}")


@needs_onednn
def test_installing_it_changes_nothing_for_others(tmp_path: Path) -> None:
    """Results bit by bit, placement and names; OpenVINO is not even imported."""
    model = parsed(MIXED).SerializeToString().hex()
    found = []
    for blocked in ("", "ort-py-openvino"):
        environment = {**os.environ, "ORT_PY_BLOCK_PROVIDERS": blocked, "ORT_PY_CACHE": "off"}
        child = subprocess.run(
            [sys.executable, "-c", _COMPARED],
            input=model,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
            cwd=tmp_path,
        )
        found.append(json.loads(child.stdout))
    assert found[0] == found[1]
    assert not found[0]["imported"]


@needs_onednn
@pytest.mark.parametrize("providers", [[NAME], [NAME, CPU]], ids=str)
def test_named_first_it_is_the_engine(providers: list[str]) -> None:
    """oneDNN does not join a session that named OpenVINO on the processor."""
    with ort_py.InferenceSession(parsed(NET).SerializeToString(), providers=providers) as session:
        assert session.explain_selection().taken == [NAME, CPU]
        assert set(runners(session).values()) == {NAME}


@needs_onednn
@pytest.mark.parametrize(
    ("device", "taken"),
    [("CPU", [NAME, CPU]), ("GPU", [NAME, ONEDNN, CPU]), ("npu", [NAME, ONEDNN, CPU]), ("AUTO", [NAME, CPU])],
)
def test_its_other_devices_leave_the_role_to_another_engine(device: str, taken: list[str]) -> None:
    """A GPU is not a CPU engine, so the fast CPU provider runs the remaining nodes."""
    assert ort_py.explain_selection([(NAME, {"device_type": device})]).taken == taken


@needs_onednn
def test_both_named_share_the_session() -> None:
    told = ort_py.explain_selection([NAME, ONEDNN, CPU])
    assert told.taken == [NAME, ONEDNN, CPU]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        *(("CPU", True), (" cpu ", True), ("CPU.0", True), ("GPU", False), ("GPU.1", False), ("NPU", False)),
        *(("AUTO", True), ("AUTO:GPU,CPU", True), ("AUTO:GPU", True), ("AUTO:GPU,-CPU", False)),
        *(("HETERO:GPU,CPU", True), ("HETERO:GPU,NPU", False), ("MULTI:GPU.0,GPU.1", False), ("MULTI", True)),
    ],
)
def test_which_devices_are_the_cpu(device: str, expected: bool) -> None:
    """Alone or in a list, in any case."""
    assert computes_on_cpu(device) is expected


def test_options_of_onnxruntimes_provider_that_mean_nothing_here() -> None:
    """Are accepted, and reported as ignored."""
    options = {"enable_qdq_optimizer": "True", "layout": "x[NCHW]", "context": "0"}
    model = parsed(NET).SerializeToString()
    with ort_py.InferenceSession(model, providers=[(NAME, options), "CPUExecutionProvider"]) as session:
        told = " ".join(note for stage in session.load_report.stages for note in stage.notes)
    assert all(f"option '{name}' ignored" in told for name in options)
