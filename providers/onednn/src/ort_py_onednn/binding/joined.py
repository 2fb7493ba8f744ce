"""Functions of several libraries as those of one, of which some may be missing. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ort_py_onednn.binding._dnnl import ffi

__all__ = ["Joined"]


class Joined:
    """Functions of libraries.

    Args:
        libraries: Libraries, as cffi opened them; the first that has a function counts.
        own: Functions that come before theirs.
    """

    def __init__(self, *libraries: Any, own: Mapping[str, Any] | None = None) -> None:
        self._libraries = libraries
        self.__dict__.update(own or {})

    def __getattr__(self, name: str) -> Any:
        for library in self._libraries:
            try:
                found = getattr(library, name)
            except (AttributeError, ffi.error):  # it has none, declared or not
                continue
            self.__dict__[name] = found
            return found
        raise AttributeError(f"none of {len(self._libraries)} libraries has {name}")

    def __dir__(self) -> list[str]:
        return dir(self._libraries[0])
