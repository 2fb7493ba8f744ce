"""oneDNN's CPU engine: one per process, made when first needed, and the stream whose order is that of the caller.

Both are handles without threads or memory of their own on a CPU, so all sessions and threads share them.
"""

from __future__ import annotations

import threading
from typing import Any

from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.exceptions import guarded
from ort_py_onednn.binding.library import Library, open_library
from ort_py_onednn.binding.status import check

__all__ = ["Engine", "engine"]

_CPU = 1
_IN_ORDER = 1


class Engine:
    """The library with an engine and a stream.

    Attributes:
        c: The library's functions, which throw nothing.
        library: The library.
        handle: The engine.
        stream: The stream.
    """

    __slots__ = ("c", "handle", "library", "stream")

    def __init__(self, library: Library) -> None:
        self.library = library
        self.c: Any = guarded(library.c)
        made = ffi.new("void **")
        check(self.c.dnnl_engine_create(made, _CPU, 0), "dnnl_engine_create", "the CPU")
        self.handle = made[0]
        check(self.c.dnnl_stream_create(made, self.handle, _IN_ORDER), "dnnl_stream_create")
        self.stream = made[0]
        # It is bounded by number, and would hold what `remembered` drops. It would also go on to refuse a primitive for
        # which there was no memory once.
        self.c.dnnl_set_primitive_cache_capacity(0)


_lock = threading.Lock()
_engine: Engine | None = None


def engine() -> Engine:
    """The process's engine.

    Raises:
        EPFail: The library cannot be used here.
    """
    global _engine  # noqa: PLW0603 - one per process, made late because a probe must not make it
    if _engine is not None:
        return _engine
    with _lock:
        if _engine is None:
            _engine = Engine(open_library())
        return _engine
