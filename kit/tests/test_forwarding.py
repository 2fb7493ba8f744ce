"""`ort_py.testing`, the name that the kit had as a part of the core, leads to the kit's own modules."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ort_py_kit

MODULES = ("ort_py_kit", "ort_py_kit.tolerances", "ort_py_kit.suites", "ort_py_kit.suites.provider")


@pytest.mark.parametrize("name", MODULES)
def test_the_old_name_gives_the_same_module(name: str) -> None:
    """No second copy is made, and the module keeps its own name and specification."""
    old = importlib.import_module(name.replace("ort_py_kit", "ort_py.testing"))
    new = importlib.import_module(name)
    assert old is new
    assert new.__spec__ is not None
    assert (new.__name__, new.__spec__.name) == (name, name)


@pytest.mark.parametrize(
    "statement",
    [
        "import ort_py.testing as found",
        "from ort_py import testing as found",
        "import ort_py.testing.suites.base; import ort_py; found = ort_py.testing",
        "from ort_py.testing.suites import base; import ort_py; found = ort_py.testing",
    ],
)
def test_every_form_of_import_works_first(statement: str) -> None:
    """Whichever statement comes first in a process, the old name is the kit afterwards."""
    code = f"{statement}\nimport ort_py_kit, sys\nsys.exit(found is not ort_py_kit)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_module_is_reported_by_its_new_name() -> None:
    """The error is the one that the kit gives."""
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ort_py_kit\.nothing'"):
        importlib.import_module("ort_py.testing.nothing")


def _pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.nightly  # the other tests of this module say the same of the imports
def test_the_old_command_collects_the_kit(tmp_path: Path) -> None:
    """``pytest --pyargs ort_py.testing`` has the kit's options and its tests, in a folder whose conftest.py names the
    plug-in by its old name."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["ort_py.testing.plugin"]\n')
    arguments = (
        "--collect-only",
        "--pyargs",
        "ort_py.testing",
        "--provider",
        "CPUExecutionProvider",
        "-k",
        "Allocator",
    )
    outcome = _pytest(tmp_path, *arguments)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "test_kit.py::TestAllocator::" in outcome.stdout


def test_the_options_exist_for_the_kit_only(tmp_path: Path) -> None:
    """A command line that does not name the kit leaves its options to other plug-ins."""
    outcome = _pytest(tmp_path, "--provider", "CPUExecutionProvider")
    assert outcome.returncode == 4
    assert "unrecognized arguments: --provider" in outcome.stderr


def test_the_public_names_are_the_kits() -> None:
    """``from ort_py.testing import name`` works for each of them."""
    old = importlib.import_module("ort_py.testing")
    assert all(getattr(old, name) is getattr(ort_py_kit, name) for name in ort_py_kit.__all__)
