"""Providers describe themselves from files alone, before onnxruntime is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

import ort_py as ort
from ort_py.contracts import ProviderFactory
from ort_py_onnxruntime.installed import find
from ort_py_onnxruntime.plugin import ort_py_providers
from ort_py_onnxruntime.routes import GENERAL, ROUTES

FACTORIES = {factory.name: factory for factory in ort_py_providers()}
BROWSER_ONLY = {"JsExecutionProvider", "WebNNExecutionProvider"}


def _install(folder: Path, distribution: str, *files: str) -> None:
    """Write what pip would, with empty files; `build_and_package_info` names the last one that was installed."""
    package = folder / "onnxruntime" / "capi"
    package.mkdir(parents=True, exist_ok=True)
    (package.parent / "__init__.py").touch()
    (package / "onnxruntime_pybind11_state.so").touch()
    (package / "build_and_package_info.py").write_text(f"package_name = '{distribution}'\n__version__ = '9.8.7'\n")
    for file in files:
        (package / file).touch()
    info = folder / f"{distribution.replace('-', '_')}-9.8.7.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("x/y.py,,\nonnxruntime/capi/onnxruntime_pybind11_state.so,,\n")


def _plugin(folder: Path, module: str, text: str) -> None:
    (folder / module).mkdir()
    (folder / module / "__init__.py").write_text(text)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that this process can import from."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_every_provider_of_onnxruntime_has_a_name_here() -> None:
    """Its own names, so that lists in existing programs work; the CPU's stays with ort-py, and two are for browsers."""
    assert set(ROUTES) >= set(onnxruntime.get_all_providers()) - BROWSER_ONLY - {"CPUExecutionProvider"}
    assert set(FACTORIES) == {GENERAL, *ROUTES}


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=list(FACTORIES))
def test_none_is_chosen_unless_it_is_named(factory: ProviderFactory) -> None:
    assert not factory.automatic
    assert factory.stands_in_for is None


def test_without_onnxruntime_all_are_unavailable(site: Path) -> None:
    """And say which package brings each one."""
    for name, factory in FACTORIES.items():
        answer = factory.probe()
        assert not answer, name
        assert "no package onnxruntime" in answer.reason
    assert "pip install onnxruntime onnxruntime-qnn" in FACTORIES["QNNExecutionProvider"].probe().fix
    assert "pip install ort-py-cuda" in FACTORIES["CUDAExecutionProvider"].probe().fix


def test_a_library_beside_onnxruntime_is_a_provider(site: Path) -> None:
    _install(site, "onnxruntime-gpu", "libonnxruntime_providers_cuda.so")
    assert FACTORIES["CUDAExecutionProvider"].probe()
    assert not FACTORIES["TensorrtExecutionProvider"].probe()


def test_a_variant_has_what_is_inside_of_it(site: Path) -> None:
    _install(site, "onnxruntime-directml")
    assert FACTORIES["DmlExecutionProvider"].probe().reason == "in onnxruntime-directml 9.8.7"
    assert not FACTORIES["WebGpuExecutionProvider"].probe()


@pytest.mark.parametrize(
    ("module", "text", "name"),
    [
        (
            "onnxruntime_ep_webgpu",
            'def get_library_path(): ...\ndef get_ep_name():\n    return "WebGpuExecutionProvider"\n',
            "WebGpuExecutionProvider",
        ),
        ("onnxruntime_ggml", 'EP_NAME = "ggml"\ndef library_path() -> str: ...\n', "ggml"),
    ],
)
def test_a_plugin_is_found_by_what_it_shares(site: Path, module: str, text: str, name: str) -> None:
    """Its text is read; it is not imported."""
    _install(site, "onnxruntime")
    assert not FACTORIES[name].probe()
    _plugin(site, module, text)
    os.utime(site, ns=(0, 0))  # as if time had passed since the folder was last looked at
    assert module in FACTORIES[name].probe().reason
    assert module not in sys.modules


def test_several_variants_in_one_environment(site: Path) -> None:
    """They overwrite each other's files, so nothing is used, and what to uninstall is said."""
    _install(site, "onnxruntime")
    _install(site, "onnxruntime-gpu", "libonnxruntime_providers_cuda.so")
    for name in (GENERAL, "CUDAExecutionProvider"):
        answer = FACTORIES[name].probe()
        assert not answer
        assert "onnxruntime, onnxruntime-gpu" in answer.reason
        assert "pip uninstall onnxruntime onnxruntime-gpu" in answer.fix
        assert "say onnxruntime-gpu" in answer.fix


def test_ort_py_is_not_taken_for_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that lets `import onnxruntime` give ort-py is passed over."""
    shim = Path(str(ort.__file__)).parent / "compat" / "shim"
    monkeypatch.setattr(sys, "path", [str(shim), *sys.path])
    build = find().build
    assert build is not None
    assert not build.folder.is_relative_to(shim)


def test_listing_does_not_import_onnxruntime() -> None:
    code = (
        "import sys, ort_py; ort_py.get_provider_records(); "
        "sys.exit(any(name.partition('.')[0] == 'onnxruntime' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_under_the_alias_the_real_onnxruntime_runs_regions() -> None:
    """`import onnxruntime` gives ort-py, and the bridge loads the extension of the real one once, by another name."""
    code = f"""
import sys
import numpy as np
import onnx.parser
import onnxruntime
import ort_py
assert onnxruntime.InferenceSession is ort_py.InferenceSession
model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) {{y = Neg(x)}}')
for _ in range(2):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["{GENERAL}"])
    assert session.placement.counts() == {{"{GENERAL}": 1}}, session.placement.counts()
    assert session.run(None, {{"x": np.ones(2, np.float32)}})[0].tolist() == [-1, -1]
assert onnxruntime.InferenceSession is ort_py.InferenceSession
"""
    program = [sys.executable, "-c", f"import ort_py; ort_py.install_as_onnxruntime()\n{code}"]
    done = subprocess.run(program, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stdout
