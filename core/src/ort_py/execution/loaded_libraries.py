"""Native libraries that this process has loaded, and a handle for each. Never loads a library.

The one module that asks dynamic loaders, a function for each system. Where a system does not tell, nothing is loaded.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["loaded_libraries", "opened"]


def loaded_libraries() -> list[str]:
    """Paths of the native libraries in this process."""
    try:
        if sys.platform == "win32":
            return _on_windows()
        return _on_macos() if sys.platform == "darwin" else _on_linux()
    except (OSError, AttributeError):  # no such file or function: a system that does not tell
        return []


def opened(path: str) -> Any:
    """A handle of a library that is loaded, whose functions keep the interpreter's lock: they only set a number.

    Raises:
        OSError: It is not loaded.
    """
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        kernel.GetModuleHandleW.restype = ctypes.c_void_p
        handle = kernel.GetModuleHandleW(ctypes.c_wchar_p(path))
        if not handle:
            raise OSError(f"{path} is not loaded")
        return ctypes.PyDLL(path, handle=handle)
    return ctypes.PyDLL(path, mode=getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0))


def _on_linux(maps: Path = Path("/proc/self/maps")) -> list[str]:
    """Read the table of mapped files, whose sixth column is a path."""
    found: dict[str, None] = {}
    with maps.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            path = line.split(maxsplit=5)[5:]
            if path and ".so" in path[0]:
                found[path[0].rstrip("\n")] = None
    return list(found)


def _on_macos() -> list[str]:
    """Read the list of images of the dynamic loader."""
    loader = ctypes.CDLL(None)
    count, name = loader["_dyld_image_count"], loader["_dyld_get_image_name"]
    count.restype, name.restype = ctypes.c_uint32, ctypes.c_char_p
    names = (name(ctypes.c_uint32(index)) for index in range(count()))
    return [os.fsdecode(found) for found in names if found]


def _on_windows() -> list[str]:
    """Read the list of modules of the process."""
    kernel: Any = getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009 - only there on that system
    process = ctypes.c_void_p(-1)  # the process itself
    modules, needed = (ctypes.c_void_p * 4096)(), ctypes.c_uint32()
    size = ctypes.c_uint32(ctypes.sizeof(modules))
    if not kernel.K32EnumProcessModules(process, modules, size, ctypes.byref(needed)):
        return []
    buffer = ctypes.create_unicode_buffer(32768)
    return [
        buffer.value
        for module in modules[: needed.value // ctypes.sizeof(ctypes.c_void_p)]
        if kernel.GetModuleFileNameW(ctypes.c_void_p(module), buffer, ctypes.c_uint32(len(buffer)))
    ]
