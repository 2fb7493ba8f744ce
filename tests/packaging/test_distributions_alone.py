"""Each distribution works installed alone beside its dependencies, from its wheel, in a fresh environment."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.support.fresh_environment import Environment, make_environment

pytestmark = pytest.mark.packaging

MEGABYTE = 1_000_000

MAKE_A_MODEL = """
import numpy as np, onnx, ort_py as ort
from onnx import TensorProto, helper
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in "xy")
graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
"""


def test_wheels_are_for_every_platform(wheels: dict[str, Path]) -> None:
    """But the one that contains the library of a vendor."""
    assert all(wheels[name].name.endswith("-py3-none-any.whl") for name in wheels if name != "ort-py-xnnpack")


def test_wheels_hold_the_package_the_licence_and_the_marker(wheels: dict[str, Path]) -> None:
    """Nothing else: no tests, no stray files."""
    imports = {
        "ort-py-core": "ort_py",
        "ort-py-kit": "ort_py_kit",
        "ort-py-array": "ort_py_array",
        "ort-py-cpu": "ort_py_cpu",
        "ort-py-onednn": "ort_py_onednn",
        "ort-py-openvino": "ort_py_openvino",
        "ort-py-xnnpack": "ort_py_xnnpack",
        "ort-py-coreml": "ort_py_coreml",
        "ort-py-cuda": "ort_py_cuda",
        "ort-py-tensorrt": "ort_py_tensorrt",
        "ort-py-onnxruntime": "ort_py_onnxruntime",
    }
    for name, wheel in wheels.items():
        names = zipfile.ZipFile(wheel).namelist()
        tops = {entry.split("/")[0] for entry in names if ".dist-info/" not in entry}
        assert tops == ({imports[name]} if name in imports else set())
        assert any(entry.endswith("licenses/LICENSE") for entry in names)
        assert name not in imports or f"{imports[name]}/py.typed" in names


def test_core_alone_imports(core_only: Environment) -> None:
    """And knows that no provider is installed."""
    outcome = core_only.run("import ort_py; print(ort_py.get_installed_providers(), ort_py.get_available_providers())")
    assert outcome.stdout.strip() == "[] []", outcome.stderr


def test_core_alone_says_which_package_to_install(core_only: Environment) -> None:
    """Asking for a session names the package of a provider, whether one was asked for by name or not."""
    for providers in ("None", "['CPUExecutionProvider']"):
        code = f"""{MAKE_A_MODEL}
try:
    ort.InferenceSession(model, providers={providers})
except ort.OrtPyError as error:
    print(error)"""
        outcome = core_only.run(code)
        assert "pip install ort-py-cpu" in outcome.stdout, outcome.stdout + outcome.stderr


def test_core_alone_has_the_command(core_only: Environment) -> None:
    """`ort-py providers` and `--version` work without a provider."""
    assert core_only.script("ort-py", "--version").stdout.strip().endswith("0.1.0")
    assert core_only.script("ort-py", "providers").returncode == 0


def test_core_and_cpu_run_a_model(core_and_cpu: Environment) -> None:
    """By name and by default, with the right result."""
    for providers in ("None", "['CPUExecutionProvider']"):
        code = f"""{MAKE_A_MODEL}
with ort.InferenceSession(model, providers={providers}) as session:
    (y,) = session.run(None, {{"x": np.zeros((2, 3), np.float32)}})
    print(y.tolist() == np.full((2, 3), 1 / 3, np.float32).tolist(), session.placement.counts())"""
        outcome = core_and_cpu.run(code)
        assert outcome.stdout.strip() == "True {'CPUExecutionProvider': 1}", outcome.stderr
        assert outcome.stderr == ""


def test_core_and_cpu_are_small(core_and_cpu: Environment) -> None:
    """All that wheels bring beside NumPy takes at most 40 MB; the bytecode that pip makes of it comes on top."""
    root = core_and_cpu.site_packages
    sizes: dict[str, int] = {}
    for file in root.rglob("*"):
        top = file.relative_to(root).parts[0]
        if file.is_file() and file.suffix != ".pyc" and not top.startswith("numpy"):
            sizes[top] = sizes.get(top, 0) + file.stat().st_size
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:6]
    assert sum(sizes.values()) <= 40 * MEGABYTE, largest


def test_no_heavy_dependency_came_along(core_and_cpu: Environment) -> None:
    """The installed packages are those in the README of the core."""
    installed = {path.name.split("-")[0].lower() for path in core_and_cpu.site_packages.glob("*.dist-info")}
    ours = {"ort_py_core", "ort_py_array", "ort_py_cpu"}
    assert installed == ours | {"numpy", "onnx", "protobuf", "typing_extensions", "ml_dtypes", "pluggy"}


def test_array_library_alone_imports(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Beside the core, without a provider; it registers none."""
    environment = make_environment(tmp_path / "env")
    environment.install(wheels["ort-py-core"], wheels["ort-py-array"])
    code = "import ort_py, ort_py_array; print(len(ort_py_array.kernel_defs()) > 100, ort_py.get_installed_providers())"
    assert environment.run(code).stdout.strip() == "True []"
