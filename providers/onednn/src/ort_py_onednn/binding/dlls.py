"""Opening oneDNN on Windows: its file, Microsoft's runtimes that it is linked with, and the functions of all as one.

Windows finds a library that another one imports among those that are open already, by the name of the file. So the
runtimes are opened first, from where ``pip install msvc-runtime`` or conda puts them, or from the system's folder. This
module comes after `library`.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.joined import Joined
from ort_py_onednn.binding.library import MissingRuntime, recorded
from ort_py_onednn.binding.vcomp import RUNTIME, completed

__all__ = ["opened"]

_WHEEL = "msvc-runtime"
_BASIC = "vcruntime140.dll"
"""What Python itself is linked with; it has ``memcpy`` and ``memset``."""

_OPENMP = 2
"""OneDNN's number of that kind of runtime."""

_NEEDED = ("vcruntime140_1.dll", "msvcp140.dll", RUNTIME)


def opened(path: str) -> Any:
    """Open oneDNN and what it is linked with. All stay in the process.

    Args:
        path: The file.

    Raises:
        MissingRuntime: A runtime cannot be opened.
        OSError: The file cannot.
    """
    for name in _NEEDED:
        _open_runtime(name, Path(path).parent)
    module = ctypes.CDLL(path)._handle  # ctypes never closes what it opened
    basic, runtime = ffi.dlopen(_BASIC), ffi.dlopen(RUNTIME)
    library = Joined(ffi.dlopen(path), basic)
    if not hasattr(library, "dnnl_version") or library.dnnl_version().cpu_runtime != _OPENMP:
        return library
    own = completed(module, runtime)
    if own is None:
        raise OSError(f"it does not use {RUNTIME}, or the system allows no executable memory")
    return Joined(library, runtime, own=own)


def _open_runtime(name: str, beside: Path) -> None:
    """Open a runtime: beside oneDNN, where its wheel put it, or where the system has it."""
    for place in (
        beside / name,
        Path(sys.prefix, name),
        Path(sys.base_prefix, name),
        *map(Path, recorded(_WHEEL, name)),
    ):
        if place.is_file():
            break
    else:
        place = Path(name)
    try:
        ctypes.CDLL(str(place))
    except OSError as error:
        raise MissingRuntime(f"{name}: {error}") from error
