"""``import onnxruntime`` gives ort-py, for applications that cannot be edited; in their child processes too.

The folder `shim` beside this file holds a package ``onnxruntime`` and its metadata. It is put on the path of this
process and, through ``PYTHONPATH``, of those it starts, before any installed onnxruntime. Compatibility mode
(``ORT_PY_COMPAT``) travels the same way. Nothing about the application's other imports changes, nothing is written.
"""

from __future__ import annotations

import argparse
import importlib
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from ort_py.compat.emulated import PACKAGE
from ort_py.errors import Fail

SHIM = Path(__file__).resolve().parent / "shim"
"""Folder that holds the package ``onnxruntime`` and its metadata."""

_COMPAT = "ORT_PY_COMPAT"


def install_as_onnxruntime() -> ModuleType:
    """Let ``import onnxruntime`` give ort-py in this process and those it starts. Calling it again does nothing.

    Sets the environment variables ``PYTHONPATH`` and, where it is not set, ``ORT_PY_COMPAT``: children that get
    another environment, or run isolated (``python -I``), do not see ort-py under this name.

    Returns:
        The module that is imported from now on.

    Raises:
        Fail: The real onnxruntime is imported already; objects of both would get mixed up.
    """
    present = sys.modules.get(PACKAGE)
    if present is not None and not _is_shim(present):
        raise Fail(
            "ort-py cannot stand in for onnxruntime: onnxruntime is imported already.",
            where=f"module {getattr(present, '__file__', None) or PACKAGE}",
            why="code that holds references to its classes would keep using them",
            fix="Call install_as_onnxruntime() first, or start the program with `python -m ort_py.as_onnxruntime`.",
        )
    folder = str(SHIM)
    if folder not in sys.path:
        # Behind the program's own folder, which Python searches first, and before all that is installed.
        sys.path.insert(0 if sys.flags.safe_path else 1, folder)
    inherited = os.environ.get("PYTHONPATH", "")
    if folder not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{inherited}" if inherited else folder
    os.environ.setdefault(_COMPAT, "1")
    return importlib.import_module(PACKAGE)


def _is_shim(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().parent.parent == SHIM


def run_as_onnxruntime(arguments: Sequence[str]) -> int:
    """Run a program in which ``import onnxruntime`` gives ort-py.

    Args:
        arguments: ``app.py ARGUMENTS…`` or ``-m MODULE ARGUMENTS…``.

    Returns:
        0 where the program ended by itself.

    Raises:
        SystemExit: The arguments are wrong or name no program; what the program raises is raised here too.
    """
    parser = argparse.ArgumentParser(
        prog="python -m ort_py.as_onnxruntime",
        description="Run a program in which `import onnxruntime` gives ort-py.",
        usage="%(prog)s [-h] (-m MODULE | PROGRAM.py) [ARGUMENTS …]",
        allow_abbrev=False,
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="the program is a module, not a file")
    parser.add_argument("program", help="path of a Python file, or name of a module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed to the program")
    parsed = parser.parse_args(arguments)
    install_as_onnxruntime()
    sys.argv = [parsed.program, *parsed.arguments]
    if parsed.is_module:
        # As with `python -m`, modules beside the working directory are found first.
        _search_first(str(Path.cwd()))
        runpy.run_module(parsed.program, run_name="__main__", alter_sys=True)
        return 0
    path = Path(parsed.program)
    if not path.exists():
        parser.error(f"the program '{path}' does not exist")
    _search_first(str(path.resolve().parent))
    runpy.run_path(os.fspath(path), run_name="__main__")
    return 0


def _search_first(folder: str) -> None:
    """Put the program's folder where Python had this module's, unless it was started with ``python -P``."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
