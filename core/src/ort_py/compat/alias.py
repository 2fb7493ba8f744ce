"""``import onnxruntime`` gives ort-py, for applications that cannot be edited.

What is there: every public name of `ort_py` as ``onnxruntime.NAME``, and the exception classes in
``onnxruntime.capi.onnxruntime_pybind11_state``, where applications import them from. What onnxruntime has beyond that
is not there and fails by name: IO binding, `onnxruntime.tools` and the other subpackages, and names that `ort_py` does
not have. Nothing about the application's other imports changes.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ort_py
from ort_py.errors import Fail, OrtPyError

__all__ = ["install_as_onnxruntime", "run_as_onnxruntime"]

NAME = "onnxruntime"
_STATE = f"{NAME}.capi.onnxruntime_pybind11_state"

# onnxruntime's exception classes are the ones right below the base; what is further down is ort-py's own.
_EXCEPTIONS = tuple(kind for kind in OrtPyError.__subclasses__() if kind.__module__ == OrtPyError.__module__)


class _Alias(ModuleType):
    """``onnxruntime``: looks every name up in `ort_py`. A module of its own, because `ort_py` under a second name
    would let ``import onnxruntime.errors`` make a second set of exception classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return getattr(ort_py, name)
        except AttributeError:
            raise AttributeError(
                f"module '{NAME}' has no attribute '{name}': it is ort-py {ort_py.__version__}, which has no '{name}'"
            ) from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *ort_py.__all__})


def install_as_onnxruntime() -> ModuleType:
    """Let ``import onnxruntime`` give ort-py in this process. Calling it again does nothing.

    Returns:
        The module that is imported from now on.

    Raises:
        Fail: The real onnxruntime is imported already; objects of both would get mixed up.
    """
    present = sys.modules.get(NAME)
    if isinstance(present, _Alias):
        return present
    if present is not None:
        raise Fail(
            "ort-py cannot stand in for onnxruntime: onnxruntime is imported already.",
            where=f"module {getattr(present, '__file__', None) or NAME}",
            why="what holds its classes would go on using them",
            fix="Call install_as_onnxruntime() first, or start the program with `python -m ort_py.as_onnxruntime`.",
        )
    alias = _Alias(NAME, "ort-py under the name of onnxruntime.")
    alias.__dict__.update(__version__=ort_py.__version__, __all__=list(ort_py.__all__))
    capi = ModuleType(f"{NAME}.capi")
    state = ModuleType(_STATE)
    for kind in _EXCEPTIONS:
        setattr(state, kind.__name__, kind)
    for module in (alias, capi, state):
        # A specification makes importlib.util.find_spec work; an empty path makes further submodules not found.
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None, is_package=module is not state)
        module.__path__ = []
        sys.modules[module.__name__] = module
    alias.__dict__["capi"] = capi
    capi.__dict__["onnxruntime_pybind11_state"] = state
    return alias


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
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="handed to the program")
    parsed = parser.parse_args(arguments)
    install_as_onnxruntime()
    sys.argv = [parsed.program, *parsed.arguments]
    if parsed.is_module:
        # As with `python -m`, modules beside the working directory are found first.
        sys.path[0] = str(Path.cwd())
        runpy.run_module(parsed.program, run_name="__main__", alter_sys=True)
        return 0
    path = Path(parsed.program)
    if not path.exists():
        parser.error(f"the program '{path}' does not exist")
    sys.path[0] = str(path.resolve().parent)
    runpy.run_path(os.fspath(path), run_name="__main__")
    return 0
