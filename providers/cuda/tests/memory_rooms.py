"""Parts of the provider on a stand-in machine, for tests that look at them one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ort_py.contracts import SessionContext
from ort_py_cuda.opening import OpenDevice, open_device
from ort_py_cuda.options import OPTIONS, Wishes, wishes_of

__all__ = ["opened", "wishes"]


def wishes(options: Mapping[str, Any] | None = None, context: SessionContext | None = None) -> Wishes:
    """Options as the core hands them over: all of them, with the user's values."""
    values = {spec.name: spec.default for spec in OPTIONS} | dict(options or {})
    return wishes_of(values, context or SessionContext())


def opened(**options: Any) -> OpenDevice:
    """A GPU ready for a session with these options."""
    return open_device(wishes(options))
