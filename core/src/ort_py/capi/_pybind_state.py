"""`onnxruntime_pybind11_state` under the name by which onnxruntime's own Python files import it."""

from __future__ import annotations

from typing import Any

from ort_py.capi import onnxruntime_pybind11_state as _state

__all__ = list(_state.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_state, name)


def __dir__() -> list[str]:
    return dir(_state)
