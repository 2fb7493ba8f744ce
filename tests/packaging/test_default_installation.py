"""`pip install ort-py`: the fast CPU provider comes with it where there is one, is picked, and may lack its library."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import ort_py
from tests.support.fresh_environment import Environment

pytestmark = pytest.mark.packaging

FAST, CPU = "DnnlExecutionProvider", "CPUExecutionProvider"

only_with_onednn = pytest.mark.skipif(
    (sys.platform, platform.machine()) not in {("linux", "x86_64"), ("win32", "AMD64")},
    reason="ort-py-onednn is part of the default installation on x86-64 only: its library exists for no other",
)
only_on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere OpenMP comes with the installation")

RUN = """
import numpy as np, onnx.parser, ort_py as ort
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["" : 21]>
g (float[64, 256] x, float[256, 128] w) => (float[64, 128] y) { m = MatMul(x, w) y = Relu(m) }''').SerializeToString()
x, w = (np.random.default_rng(0).standard_normal(shape, np.float32) for shape in ((64, 256), (256, 128)))
options = ort.SessionOptions()
options.pin_cpu = PIN
with ort.InferenceSession(model, options, providers=PROVIDERS) as session:
    (y,) = session.run(None, {"x": x, "w": w})
    close = np.allclose(y, np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)
    print(bool(close), session.get_providers(), sorted(session.placement.counts()))
    for entry in session.fallback_report:
        print(entry)
"""


def _code(providers: str = "None", pin: bool = False) -> str:
    return RUN.replace("PROVIDERS", providers).replace("PIN", str(pin))


@pytest.mark.parametrize(
    ("system", "machine", "extra", "wanted"),
    [
        ("linux", "x86_64", "", {"ort-py-core", "ort-py-cpu", "ort-py-onednn"}),
        ("linux", "x86_64", "all", {"ort-py-core", "ort-py-cpu", "ort-py-onednn", "ort-py-openvino", "ort-py-cuda"}),
        ("linux", "x86_64", "cuda", {"ort-py-core", "ort-py-cpu", "ort-py-onednn", "ort-py-cuda"}),
        ("linux", "x86_64", "openvino", {"ort-py-core", "ort-py-cpu", "ort-py-onednn", "ort-py-openvino"}),
        ("darwin", "arm64", "coreml", {"ort-py-core", "ort-py-cpu", "ort-py-xnnpack", "ort-py-coreml"}),
        ("linux", "x86_64", "tensorrt", {"ort-py-core", "ort-py-cpu", "ort-py-onednn", "ort-py-tensorrt"}),
        ("linux", "x86_64", "tensorrt-rtx", {"ort-py-core", "ort-py-cpu", "ort-py-onednn", "ort-py-tensorrt"}),
        ("linux", "x86_64", "xnnpack", {"ort-py-core", "ort-py-cpu", "ort-py-onednn", "ort-py-xnnpack"}),
        ("linux", "aarch64", "", {"ort-py-core", "ort-py-cpu", "ort-py-xnnpack"}),
        ("linux", "aarch64", "openvino", {"ort-py-core", "ort-py-cpu", "ort-py-openvino", "ort-py-xnnpack"}),
        ("linux", "riscv64", "", {"ort-py-core", "ort-py-cpu"}),
        ("win32", "AMD64", "", {"ort-py-core", "ort-py-cpu", "ort-py-onednn"}),
        ("win32", "AMD64", "all", {"ort-py-core", "ort-py-cpu", "ort-py-onednn", "ort-py-openvino", "ort-py-cuda"}),
        ("win32", "ARM64", "", {"ort-py-core", "ort-py-cpu"}),
        ("darwin", "arm64", "", {"ort-py-core", "ort-py-cpu", "ort-py-xnnpack"}),
        ("darwin", "arm64", "all", {"ort-py-core", "ort-py-cpu", "ort-py-openvino", "ort-py-xnnpack"}),
        ("darwin", "x86_64", "all", {"ort-py-core", "ort-py-cpu"}),
        ("darwin", "arm64", "onednn", {"ort-py-core", "ort-py-cpu", "ort-py-onednn", "ort-py-xnnpack"}),
    ],
)
def test_what_the_meta_distribution_asks_for(
    default_installation: Environment, system: str, machine: str, extra: str, wanted: set[str]
) -> None:
    """Core and CPU provider everywhere, in one version; a fast provider where one has a library, or by its extra."""
    code = "import json; from importlib.metadata import requires; print(json.dumps(requires('ort-py')))"
    asked = [Requirement(line) for line in json.loads(default_installation.run(code).stdout)]
    assert {str(one.specifier) for one in asked} == {f"=={ort_py.__version__}"}
    there = {"sys_platform": system, "platform_machine": machine, "extra": extra}
    assert {one.name for one in asked if one.marker is None or one.marker.evaluate(there)} == wanted


@only_with_onednn
def test_it_is_there_and_usable(default_installation: Environment) -> None:
    """Before the provider that completes; the command names its library."""
    code = "import ort_py; print(ort_py.get_available_providers())"
    assert default_installation.run(code).stdout.strip() == f"['{FAST}', '{CPU}']"
    assert "oneDNN 3" in default_installation.script("ort-py", "providers").stdout


@only_with_onednn
@pytest.mark.parametrize("providers", ["None", f"['{CPU}']"])
def test_it_is_picked(default_installation: Environment, providers: str) -> None:
    """By default and under the name applications use, which is the name they see."""
    outcome = default_installation.run(_code(providers))
    assert outcome.stdout.splitlines() == [f"True ['{CPU}'] ['{FAST}']"], outcome.stderr
    assert outcome.stderr == ""


@only_with_onednn
def test_plain_numpy_can_be_pinned(default_installation: Environment) -> None:
    outcome = default_installation.run(_code(pin=True))
    assert outcome.stdout.splitlines() == [f"True ['{CPU}'] ['{CPU}']"], outcome.stderr


@pytest.fixture
def no_openmp(tmp_path: Path) -> str:
    """A folder for the loader's path in which the system's OpenMP runtime is not a library."""
    (tmp_path / "libgomp.so.1").write_bytes(b"")
    return str(tmp_path)


@only_with_onednn
@only_on_linux
@pytest.mark.parametrize("providers", ["None", f"['{CPU}']"])
def test_a_missing_libgomp_is_told(default_installation: Environment, no_openmp: str, providers: str) -> None:
    """The model runs on NumPy; a line on standard error, once, and the session's report say why and what to install."""
    twice = f"{_code(providers)}\n{_code(providers)}"
    outcome = default_installation.run(twice, LD_LIBRARY_PATH=no_openmp)
    assert outcome.returncode == 0, outcome.stderr
    lines = outcome.stdout.splitlines()
    assert lines[0] == f"True ['{CPU}'] ['{CPU}']"
    assert lines[1].startswith(f"{FAST} is not used, selection: it is unavailable: ")
    assert "needs the system's OpenMP runtime" in lines[1]
    assert lines[2:] == lines[:2]
    (told,) = outcome.stderr.splitlines()
    assert told.startswith(f"The provider {FAST} (distribution ort-py-onednn 0.1.0")
    assert "apt-get install libgomp1" in told


@only_with_onednn
@only_on_linux
def test_the_command_tells_of_a_missing_libgomp(default_installation: Environment, no_openmp: str) -> None:
    """`ort-py providers` lists the provider as not usable, with reason and fix."""
    shown = default_installation.script("ort-py", "providers", LD_LIBRARY_PATH=no_openmp)
    assert shown.returncode == 0
    assert "unavailable" in shown.stdout
    assert "libgomp" in shown.stdout
