"""onnxruntime's own tools in processes where `import onnxruntime` gives ort-py: unmodified, on ort-py's sessions.

The modules below ``onnxruntime.quantization``, ``.tools`` and ``.transformers`` come from the installed onnxruntime's
folder. What they import of onnxruntime itself is ort-py, with the sessions of `tool_sessions`; the few native functions
that they call are those of `weight_blocks`. Comes after these; knows no module by name.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from functools import cache
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ort_py_onnxruntime.installed import find
from ort_py_onnxruntime.tool_sessions import Facade
from ort_py_onnxruntime.weight_blocks import FUNCTIONS

__all__ = ["find_tool"]

_STATES = ("_pybind_state", "onnxruntime_pybind11_state")
"""Modules through which the tools reach the extension."""


def find_tool(name: str) -> ModuleSpec | None:
    """Where a module is, or None where no onnxruntime is installed that has it.

    Args:
        name: Its full name, e.g. ``onnxruntime.quantization.calibrate``.
    """
    build = find().build
    if build is None:
        return None
    place = build.folder.parent.joinpath(*name.split("."))
    package = place / "__init__.py"
    if package.is_file():
        _offer_functions()
        return _spec(name, package, [str(place)])
    file = place.with_suffix(".py")
    return _spec(name, file, None) if file.is_file() else None


class _Loader(SourceFileLoader):
    """Runs a file of onnxruntime's as it is. What it imports as ``onnxruntime``, at whatever place, is the facade."""

    def exec_module(self, module: ModuleType) -> None:
        self.run(vars(module))

    def get_code(self, fullname: str) -> CodeType | None:
        """Code that runs the file: ``python -m`` gives it a namespace of its own, with this loader in it."""
        return compile("__loader__.run(globals())", self.path, "exec")

    def run(self, namespace: dict[str, Any]) -> None:
        """Run the file in a namespace."""
        code = super().get_code(self.name)
        assert code is not None, "it has a source"
        namespace["__builtins__"] = vars(builtins) | {"__import__": _import}
        exec(code, namespace)  # noqa: S102 - the import system does nothing else


def _import(name: str, *arguments: Any, **keywords: Any) -> Any:
    found = builtins.__import__(name, *arguments, **keywords)
    return _facade() if found is sys.modules.get("onnxruntime") else found


@cache
def _facade() -> Facade:
    return Facade(importlib.import_module("onnxruntime"))


def _spec(name: str, file: Path, search: list[str] | None) -> ModuleSpec | None:
    loader = _Loader(name, str(file))
    return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=search)


def _offer_functions() -> None:
    for state in _STATES:
        module = importlib.import_module(f"onnxruntime.capi.{state}")
        for name, function in FUNCTIONS.items():
            if name not in vars(module):
                setattr(module, name, function)
