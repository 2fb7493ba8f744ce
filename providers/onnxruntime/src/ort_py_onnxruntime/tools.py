"""onnxruntime's own tools in processes where `import onnxruntime` gives ort-py: unmodified, on ort-py's sessions.

The modules below ``onnxruntime.quantization``, ``.tools`` and ``.transformers`` come from the installed onnxruntime's
folder. What they import of onnxruntime itself is ort-py; the few native functions that they call are those of
`weight_blocks`, so that onnxruntime's extension is not loaded for them. Comes after `installed`; knows no module by
name.
"""

from __future__ import annotations

import importlib
import importlib.util
from importlib.machinery import ModuleSpec

from ort_py_onnxruntime.installed import find
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
        return importlib.util.spec_from_file_location(name, package, submodule_search_locations=[str(place)])
    file = place.with_suffix(".py")
    return importlib.util.spec_from_file_location(name, file) if file.is_file() else None


def _offer_functions() -> None:
    for state in _STATES:
        module = importlib.import_module(f"onnxruntime.capi.{state}")
        for name, function in FUNCTIONS.items():
            if name not in vars(module):
                setattr(module, name, function)
