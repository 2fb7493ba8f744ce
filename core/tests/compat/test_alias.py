"""A program in which ``import onnxruntime`` gives ort-py. In child processes: the alias is for a whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ort_py
from ort_py.compat.emulated import VERSION


def python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of this process."""
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=cwd
    )


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    """Run code after the alias was installed."""
    return python("-c", f"from ort_py.compat.alias import install_as_onnxruntime\ninstall_as_onnxruntime()\n{code}")


def test_import_gives_ort_py() -> None:
    done = run_code("import onnxruntime, ort_py\nassert onnxruntime.InferenceSession is ort_py.InferenceSession")
    assert done.returncode == 0, done.stderr


def test_from_import_works() -> None:
    """``from onnxruntime import …`` finds public names."""
    done = run_code("from onnxruntime import SessionOptions, GraphOptimizationLevel\nprint(SessionOptions.__module__)")
    assert done.stdout.startswith("ort_py.options"), done.stderr


def test_exception_classes_are_where_applications_import_them() -> None:
    """The classes in ``onnxruntime.capi.onnxruntime_pybind11_state`` are those ort-py raises."""
    done = run_code(
        "from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, NoSuchFile\n"
        "import onnxruntime.capi.onnxruntime_pybind11_state as state\n"
        "import ort_py.errors\n"
        "assert InvalidArgument is ort_py.errors.InvalidArgument\n"
        "assert state.NotImplemented is ort_py.errors.NotImplemented"
    )
    assert done.returncode == 0, done.stderr


def test_raised_errors_are_caught_by_those_classes() -> None:
    """An ``except`` clause written for onnxruntime catches our error."""
    done = run_code(
        "import onnxruntime\n"
        "from onnxruntime.capi.onnxruntime_pybind11_state import NoSuchFile\n"
        "try:\n    onnxruntime.InferenceSession('missing.onnx')\nexcept NoSuchFile:\n    print('caught')"
    )
    assert done.stdout == "caught\n", done.stderr


def test_absent_names_say_what_is_there() -> None:
    """A name that is not there is an AttributeError that says whose module this is."""
    done = run_code("import onnxruntime\nonnxruntime.TrainingSession")
    assert f"it is ort-py {ort_py.__version__}, which has no 'TrainingSession'" in done.stderr


def test_other_modules_of_ort_py_are_not_reachable() -> None:
    """Only onnxruntime's subpackages are there, rather than everything in `ort_py` a second time."""
    for name in ("onnxruntime.errors", "onnxruntime.tools.absent", "onnxruntime.training"):
        assert "ModuleNotFoundError" in run_code(f"import {name}").stderr


def test_subpackages_are_the_same_modules() -> None:
    """A module has one set of classes under both names, and keeps its own name."""
    done = run_code(
        "import onnxruntime.quantization.calibrate, onnxruntime.capi._pybind_state as state\n"
        "import ort_py.quantization.calibrate as own, ort_py.capi._pybind_state\n"
        "assert onnxruntime.quantization.calibrate is own\n"
        "assert own.__spec__.name == own.__name__ == 'ort_py.quantization.calibrate'\n"
        "assert state is ort_py.capi._pybind_state\n"
        "assert onnxruntime.capi is ort_py.capi"
    )
    assert done.returncode == 0, done.stderr


def test_a_submodule_does_not_hide_the_function_of_its_name() -> None:
    """``quantization.quantize`` is a module and a function; the function is what the package has."""
    done = run_code(
        "import onnxruntime.quantization.quantize\n"
        "from onnxruntime.quantization import quantize\n"
        "assert callable(quantize)"
    )
    assert done.returncode == 0, done.stderr


def test_everything_can_be_imported_at_once() -> None:
    """``from onnxruntime import *`` gives every public name and hides no builtin."""
    done = run_code("before = NotImplemented\nfrom onnxruntime import *\nassert NotImplemented is before\nOrtValue")
    assert done.returncode == 0, done.stderr


def test_the_version_is_the_emulated_one() -> None:
    """Everything that tells a version names the onnxruntime release, the package's metadata included."""
    done = run_code(
        "import importlib.metadata, onnxruntime\n"
        "from onnxruntime.capi import _pybind_state, build_and_package_info, onnxruntime_pybind11_state\n"
        "print(onnxruntime.__version__, onnxruntime.version, onnxruntime.get_version_string(),\n"
        "      importlib.metadata.version('onnxruntime'), build_and_package_info.__version__,\n"
        "      onnxruntime_pybind11_state.get_version_string(), _pybind_state.get_version_string())"
    )
    assert done.stdout.split() == [VERSION] * 7, done.stderr


def test_tools_run_as_modules(tmp_path: Path) -> None:
    """``python -m onnxruntime.tools.…`` finds the tool."""
    command = ("-m", "ort_py.as_onnxruntime", "-m", "onnxruntime.tools.make_dynamic_shape_fixed", "--help")
    assert "--dim_param" in python(*command).stdout


def test_compatibility_mode_is_on() -> None:
    """Programs written for onnxruntime get its leniency, unless the environment says otherwise."""
    assert run_code("import os\nprint(os.environ['ORT_PY_COMPAT'])").stdout == "1\n"


def test_find_spec_sees_it() -> None:
    """Libraries that ask whether onnxruntime is installed get a yes."""
    done = run_code("import importlib.util\nprint(importlib.util.find_spec('onnxruntime').name)")
    assert done.stdout == "onnxruntime\n", done.stderr


def test_installing_twice_is_harmless() -> None:
    """The second call gives the same module."""
    done = run_code("first = install_as_onnxruntime()\nassert install_as_onnxruntime() is first")
    assert done.returncode == 0, done.stderr


def test_program_gets_its_arguments(tmp_path: Path) -> None:
    """A script runs as ``__main__`` with the arguments after its name, options included."""
    script = tmp_path / "app.py"
    script.write_text("import sys, onnxruntime, ort_py\nassert __name__ == '__main__'\nprint(sys.argv[1:])\n")
    done = python("-m", "ort_py.as_onnxruntime", str(script), "--help", "-m", "x")
    assert done.stdout == "['--help', '-m', 'x']\n", done.stderr


def test_program_finds_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'found'\n")
    (tmp_path / "app.py").write_text("import beside\nprint(beside.NAME)\n")
    assert python("-m", "ort_py.as_onnxruntime", str(tmp_path / "app.py")).stdout == "found\n"


def test_module_is_run(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text("import sys, onnxruntime\nprint(onnxruntime.__name__, sys.argv[1:])\n")
    done = python("-m", "ort_py.as_onnxruntime", "-m", "tool", "--flag", cwd=tmp_path)
    assert done.stdout == "onnxruntime ['--flag']\n", done.stderr


def test_exit_code_is_that_of_the_program(tmp_path: Path) -> None:
    """``sys.exit`` in the program is what the shell sees."""
    (tmp_path / "app.py").write_text("import sys\nsys.exit(7)\n")
    assert python("-m", "ort_py.as_onnxruntime", str(tmp_path / "app.py")).returncode == 7


@pytest.mark.parametrize("arguments", [(), ("missing.py",)], ids=["nothing", "missing"])
def test_no_program_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    """Without a program, or with one that is not there, the exit code is 2 and standard output empty."""
    done = python("-m", "ort_py.as_onnxruntime", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage:" in done.stderr
