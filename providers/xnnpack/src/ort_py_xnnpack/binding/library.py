"""Finding and opening XNNPACK: the three libraries that this package's wheel holds, or those in a folder of a variable.

Opening starts no thread. Once open, the library stays in the process. It does not depend on subgraphs.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
from pathlib import Path
from typing import Any

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass

__all__ = ["FOLDER", "VARIABLE", "Library", "Missing", "files", "find", "open_library"]

VARIABLE = "ORT_PY_XNNPACK_LIBRARY"
FOLDER = Path(__file__).resolve().parent.parent / "native"
_INSTALL = (
    "install a wheel of ort-py-xnnpack for this platform: there are wheels for Linux on x86-64 and aarch64 (glibc "
    "2.28) and for macOS 14 on Apple silicon"
)
_STEMS = ("libexecutorch", "libexecutorch_threadpool", "libexecutorch_backend_xnnpack")


@dataclass(frozen=True, slots=True)
class Library:
    """XNNPACK, open.

    Attributes:
        c: Its functions.
        pools: Those of its thread pools.
        makes_pools: Whether pools can be made; if not, the process has one, which is ExecuTorch's.
        path: The file.
    """

    c: Any
    pools: Any
    makes_pools: bool
    path: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why there is no library, and advice."""

    reason: str
    fix: str


_lock = threading.Lock()
_found: Library | Missing | None = None


def files() -> list[Path] | Missing:
    """The three files in the order in which they depend on each other, or what is missing. Opens nothing."""
    chosen = os.environ.get(VARIABLE)
    folder = Path(chosen) if chosen else FOLDER
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    found = [folder / f"{stem}{suffix}" for stem in _STEMS]
    lacking = next((file for file in found if not file.is_file()), None)
    if lacking is None:
        return found
    if chosen:
        return Missing(
            f"{VARIABLE} names {chosen}, which has no {lacking.name}",
            f"unset {VARIABLE}, or let it name a folder with it",
        )
    return Missing(
        f"this installation lacks {lacking.name}: it is for {sys.platform} on {platform.machine()}", _INSTALL
    )


def find() -> Library | Missing:
    """The library, opened on first use, or why it cannot be used. Remembered for the process."""
    global _found  # noqa: PLW0603 - one library a process
    with _lock:
        if _found is None:
            _found = _opened()
        return _found


def open_library() -> Library:
    """The library.

    Raises:
        EPFail: It cannot be used here.
    """
    found = find()
    if isinstance(found, Missing):
        raise EPFail(f"XNNPACK cannot be used: {found.reason}.", fix=found.fix)
    return found


def _opened() -> Library | Missing:
    paths = files()
    if isinstance(paths, Missing):
        return paths
    try:
        from ort_py_xnnpack.binding._xnnpack import ffi
    except ImportError as error:
        return Missing(f"cffi's run-time part does not load: {error}", "pip install cffi")
    opened = []
    for path in paths:
        try:
            opened.append(ffi.dlopen(str(path), os.RTLD_NOW | os.RTLD_LOCAL | getattr(os, "RTLD_NODELETE", 0)))
        except OSError as error:
            return Missing(f"{path} does not load: {error}", _INSTALL)
    _, pools, c = opened
    try:
        status = c.xnn_initialize(ffi.NULL)
    except AttributeError:
        return Missing(f"{paths[-1]} has no function xnn_initialize", _INSTALL)
    if status:
        return Missing(f"XNNPACK does not support this processor (status {status})", "use another CPU provider")
    return Library(c, pools, hasattr(pools, "pthreadpool_create"), str(paths[-1]))
