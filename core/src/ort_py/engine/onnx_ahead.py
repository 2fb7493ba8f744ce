"""ONNX's table of operators, filled by another thread while the interpreter prepares other things.

When first asked for an operator, onnx's native library describes all thousand of them, which takes longer than reading
a small model and needs no interpreter. So a session that is going to read a model lets a thread begin with it, and
chooses its providers meanwhile. Whoever asks for an operator before the table is complete waits for that thread, which
runs nothing but the library's function.

Only Linux's name of the function is known here. Elsewhere, and where addresses are limited (a thread in the library
cannot report that there is no memory), the table is filled when it is first needed.
"""

from __future__ import annotations

import ctypes
import sys
from importlib.machinery import PathFinder

from ort_py.platform.forks import notify_around_fork
from ort_py.platform.headroom import addresses_limited

_FILL = "_ZN4onnx16OpSchemaRegistry3mapB5cxx11Ev"
"""``onnx::OpSchemaRegistry::map()``, which fills the table when it is first called. It takes no argument, and what it
returns is not needed."""


class OnnxAhead:
    """Fills the table once in a process. Forks wait for it, so that no child inherits a table that is half full."""

    def __init__(self) -> None:
        self._begun = False
        self._thread: ctypes.c_ulong | None = None
        self._library: ctypes.CDLL | None = None

    def begin(self) -> None:
        """Begin, unless that happened before or the process has imported onnx."""
        if self._begun:
            return
        self._begun = True
        if not sys.platform.startswith("linux") or "onnx" in sys.modules or addresses_limited():
            return
        path = _native_part()
        if not path:
            return
        try:
            self._library = ctypes.CDLL(path)
            fill = getattr(self._library, _FILL, None)
            create = ctypes.CDLL(None).pthread_create
        except (OSError, AttributeError):  # whoever imports it says what is wrong
            return
        if fill is None:
            return
        notify_around_fork(self)
        thread = ctypes.c_ulong()
        # A thread that the interpreter does not know never waits for it, and modules need no locks beside it.
        if create(ctypes.byref(thread), None, fill, None) == 0:
            self._thread = thread

    def end(self) -> None:
        """Wait until the table is full."""
        thread, self._thread = self._thread, None
        if thread is not None:
            ctypes.CDLL(None).pthread_join(thread, None)

    def before_fork(self) -> None:
        """The calling thread is about to fork."""
        self.end()

    def after_fork_in_parent(self) -> None:
        """The calling thread has forked."""

    def after_fork(self) -> None:
        """This is a forked child."""


onnx_ahead = OnnxAhead()


def _native_part() -> str:
    """The file of onnx's native library; ``""`` if it is not found. Nothing is imported."""
    package = PathFinder.find_spec("onnx")
    folders = package and package.submodule_search_locations
    native = PathFinder.find_spec("onnx.onnx_cpp2py_export", folders) if folders else None
    return (native and native.origin) or ""
