"""onnxruntime's inner modules, which applications import exception classes and low-level names from.

* `onnxruntime_pybind11_state`: exception classes, and all names of onnxruntime's C++ binding that exist here.
* `_pybind_state`: the same names, as onnxruntime re-exports them.
* `onnxruntime_inference_collection`: sessions and values, where older applications import them from.
* `onnxruntime_validation`, `build_and_package_info`: what the package says about itself.

Comes after `api`: nothing is made here, every class is `ort_py`'s own, under a second name.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = (
    "_pybind_state",
    "build_and_package_info",
    "onnxruntime_inference_collection",
    "onnxruntime_pybind11_state",
    "onnxruntime_validation",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
