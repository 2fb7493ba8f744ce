"""onnxruntime's own tools in processes where `import onnxruntime` gives ort-py: unmodified, on ort-py's sessions.

The modules below ``onnxruntime.quantization``, ``.tools`` and ``.transformers`` come from the installed onnxruntime's
folder. What they import of onnxruntime itself is ort-py; the few native functions that they call are those of
onnxruntime's extension, which is loaded when one of them is called. Comes after `native`; knows no module by name.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

from ort_py_onnxruntime.installed import find
from ort_py_onnxruntime.native import native

__all__ = ["find_tool"]

_STATES = ("_pybind_state", "onnxruntime_pybind11_state")
"""Modules through which the tools reach the extension."""

_FUNCTIONS = (
    "pack_fp4_weights_for_cuda_moe_gemm",
    "quantize_matmul_2bits",
    "quantize_matmul_4bits",
    "quantize_matmul_8bits",
    "quantize_matmul_bnb4",
    "quantize_qdq_matmul_2bits",
    "quantize_qdq_matmul_4bits",
)


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
        for name in _FUNCTIONS:
            if name not in vars(module):
                setattr(module, name, _function(name))


def _function(name: str) -> Callable[..., Any]:
    def function(*arguments: Any, **options: Any) -> Any:
        return getattr(native(), name)(*arguments, **options)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"onnxruntime's own {name}."
    return function
