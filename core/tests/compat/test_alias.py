"""A program in which ``import onnxruntime`` gives ort-py. In child processes: the alias is for a whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ort_py


def python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the interpreter of this process."""
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=cwd
    )


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    """Run code after the alias was installed."""
    return python("-c", f"from ort_py.compat.alias import install_as_onnxruntime\ninstall_as_onnxruntime()\n{code}")


def test_import_gives_ort_py() -> None:
    """The session class is ours."""
    done = run_code("import onnxruntime, ort_py\nassert onnxruntime.InferenceSession is ort_py.InferenceSession")
    assert done.returncode == 0, done.stderr


def test_from_import_works() -> None:
    """``from onnxruntime import …`` finds public names."""
    done = run_code("from onnxruntime import SessionOptions, GraphOptimizationLevel\nprint(SessionOptions.__module__)")
    assert done.stdout == "ort_py.api.options\n", done.stderr


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
    done = run_code("import onnxruntime\nonnxruntime.LoraAdapter")
    assert f"it is ort-py {ort_py.__version__}, which has no 'LoraAdapter'" in done.stderr


def test_subpackages_are_not_found() -> None:
    """Subpackages that are not there cannot be imported, rather than being those of `ort_py`."""
    for name in ("onnxruntime.tools", "onnxruntime.errors"):
        assert "ModuleNotFoundError" in run_code(f"import {name}").stderr


def test_find_spec_sees_it() -> None:
    """Libraries that ask whether onnxruntime is installed get a yes."""
    done = run_code("import importlib.util\nprint(importlib.util.find_spec('onnxruntime').name)")
    assert done.stdout == "onnxruntime\n", done.stderr


def test_installing_twice_is_harmless() -> None:
    """The second call gives the same module."""
    done = run_code("first = install_as_onnxruntime()\nassert install_as_onnxruntime() is first")
    assert done.returncode == 0, done.stderr


def test_the_real_onnxruntime_is_not_replaced() -> None:
    """Once onnxruntime is imported it is too late, and the message says what to do."""
    done = python(
        "-c", "import onnxruntime\nfrom ort_py.compat.alias import install_as_onnxruntime\ninstall_as_onnxruntime()"
    )
    assert done.returncode == 1
    assert "ort-py cannot stand in for onnxruntime: onnxruntime is imported already." in done.stderr
    assert "python -m ort_py.as_onnxruntime" in done.stderr


def test_program_gets_its_arguments(tmp_path: Path) -> None:
    """A script runs as ``__main__`` with the arguments after its name, options included."""
    script = tmp_path / "app.py"
    script.write_text("import sys, onnxruntime, ort_py\nassert __name__ == '__main__'\nprint(sys.argv[1:])\n")
    done = python("-m", "ort_py.as_onnxruntime", str(script), "--help", "-m", "x")
    assert done.stdout == "['--help', '-m', 'x']\n", done.stderr


def test_program_finds_modules_beside_it(tmp_path: Path) -> None:
    """As with ``python app.py``, the script's folder is searched first."""
    (tmp_path / "beside.py").write_text("NAME = 'found'\n")
    (tmp_path / "app.py").write_text("import beside\nprint(beside.NAME)\n")
    assert python("-m", "ort_py.as_onnxruntime", str(tmp_path / "app.py")).stdout == "found\n"


def test_module_is_run(tmp_path: Path) -> None:
    """``-m`` runs a module."""
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
