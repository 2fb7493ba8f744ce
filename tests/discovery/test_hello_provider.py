"""The example provider, built and installed as a wheel from its own folder, beside the wheels of core and CPU provider.

Wheels go into a folder of their own at the front of the path; NumPy and onnx are those of the running environment.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fresh_environment import build_wheel

from .fake_site import FakeSite

pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("hello")]

HELLO, CPU = "HelloExecutionProvider", "CPUExecutionProvider"
BESIDE = "DnnlExecutionProvider"
"""A provider of the running environment; kept out, so that those of the folder are all there are."""

RUN = """
import numpy as np
import ort_py as ort
from onnx import parser

TEXT = '''<ir_version: 10, opset_import: ["" : 21]> g (float[3] x) => (float[3] y) {
    a = Add(x, x)
    b = Relu(a)
    y = Neg(b)
}'''
model = parser.parse_model(TEXT).SerializeToString()
with ort.InferenceSession(model, providers=PROVIDERS) as session:
    (y,) = session.run(None, {"x": np.array([-1, 0, 2], np.float32)})
    result = [y.tolist(), session.get_providers(), session.placement.counts(), ort.get_available_providers()]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> FakeSite:
    """A folder with the four wheels installed."""
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    sources = ("core", "providers/array", "providers/cpu", "plugins-example/hello-provider")
    built = [str(build_wheel(source, wheels)) for source in sources]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--no-index", "--target", str(folder), *built]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return FakeSite(folder)


def test_it_is_what_was_built(installed: FakeSite) -> None:
    """The distribution, with its marker that annotations count and its licence."""
    assert (installed.folder / "ort_py_hello" / "py.typed").exists()
    origin = installed.run("import ort_py_hello; result = ort_py_hello.__file__")
    assert Path(origin).is_relative_to(installed.folder)


@pytest.mark.parametrize("providers", ["None", f"['{HELLO}', '{CPU}']"])
def test_it_takes_its_nodes_by_rank(installed: FakeSite, providers: str) -> None:
    """It is available, ranked before the CPU provider, and runs the two operators it has; CPU runs the other."""
    y, names, counts, available = installed.run(RUN.replace("PROVIDERS", providers), ORT_PY_BLOCK_PROVIDERS=BESIDE)
    assert y == [0, 0, -4]
    assert names == [HELLO, CPU]
    assert counts == {HELLO: 2, CPU: 1}
    assert available == [HELLO, CPU]


@pytest.mark.parametrize("name", [HELLO, "ort-py-hello"])
def test_it_loses_its_nodes_when_blocked(installed: FakeSite, name: str) -> None:
    """By the provider's or the distribution's name."""
    blocked = f"{name},{BESIDE}"
    y, names, counts, available = installed.run(RUN.replace("PROVIDERS", "None"), ORT_PY_BLOCK_PROVIDERS=blocked)
    assert y == [0, 0, -4]
    assert names == available == [CPU]
    assert counts == {CPU: 3}


def test_a_list_without_it_does_not_use_it(installed: FakeSite) -> None:
    counts = installed.run(RUN.replace("PROVIDERS", f"['{CPU}']"), ORT_PY_BLOCK_PROVIDERS=BESIDE)[2]
    assert counts == {CPU: 3}


def test_its_session_is_completed_by_cpu(installed: FakeSite) -> None:
    """A list that names it alone still runs: CPU completes, and is not among the names asked for."""
    _, names, counts, _ = installed.run(RUN.replace("PROVIDERS", f"['{HELLO}']"), ORT_PY_BLOCK_PROVIDERS=BESIDE)
    assert names == [HELLO]
    assert counts == {HELLO: 2, CPU: 1}


def test_listing_loads_only_the_plugin(installed: FakeSite) -> None:
    """Neither its provider nor its kernels."""
    code = """
    import sys, ort_py
    ort_py.get_available_providers()
    result = sorted(name for name in sys.modules if name.startswith("ort_py_hello"))
    """
    assert installed.run(code) == ["ort_py_hello", "ort_py_hello.plugin"]
