"""Importing is cheap: `import ort_py` and listing providers load nothing that is not needed yet.

Each test asks a fresh interpreter what it has loaded.
"""

from __future__ import annotations

import subprocess
import sys

import pytest


def _loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sorted(sys.modules)))"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(outcome.stdout.split())


def test_import_loads_neither_onnx_nor_providers() -> None:
    """Nor the types package, nor the array library, nor any room of the engine: only where names are looked up."""
    loaded = _loaded_after("import ort_py")
    unwanted = {"onnx", "ml_dtypes", "ort_py_cpu", "ort_py_array", "pluggy", "google.protobuf"}
    assert loaded & unwanted == set()
    assert {name for name in loaded if name.startswith("ort_py.")} == {
        "ort_py.collection",
        "ort_py.homes",
        "ort_py.lazy_names",
        "ort_py.bytecode",
        "ort_py.mapped_parts",
        "ort_py.onnx_version",
    }


def test_import_runs_nothing() -> None:
    """No thread is started and nothing is printed."""
    code = "import threading, ort_py; assert threading.active_count() == 1"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (outcome.stdout, outcome.stderr) == ("", "")


@pytest.mark.parametrize("question", ["get_installed_providers", "get_available_providers", "get_all_providers"])
def test_listing_providers_loads_no_operators(question: str) -> None:
    """Listing needs metadata and, for what is usable, the light plug-in modules: no operators and no onnx."""
    loaded = _loaded_after(f"import ort_py; assert 'CPUExecutionProvider' in ort_py.{question}()")
    assert loaded & {"onnx", "ort_py_array", "ort_py_cpu.provider"} == set()


def test_installed_providers_imports_no_provider() -> None:
    """Names of installed providers are read from metadata alone."""
    loaded = _loaded_after("import ort_py; ort_py.get_installed_providers()")
    assert not any(name.startswith("ort_py_") for name in loaded)


def test_contracts_load_no_engine() -> None:
    """A plug-in module that imports contracts and hooks stays light."""
    loaded = _loaded_after("import ort_py.contracts, ort_py.hooks")
    rooms = {name.split(".")[1] for name in loaded if name.startswith("ort_py.")}
    leaves = {
        "errors",
        "dtypes",
        "devices",
        "lazy_names",
        "lazy_dataclass",
        "logs",
        "collection",
        "installed",
        "homes",
        "onnx_version",
        "bytecode",
        "mapped_parts",
        "printable",
    }
    assert rooms <= {"contracts", "hooks", "platform", *leaves}
    assert "onnx" not in loaded
