"""XNNPACK's cache of packed weights, kept where the engine keeps packed forms: sessions share them, and reports count
them.

XNNPACK asks for a packed form by the addresses of the kernel and the bias that it is made of and by a number that says
how. The addresses are translated to the keys of the constants, so that another session that has the same constants
elsewhere finds the form too. A runtime is made on one thread; only `offset_to_addr` is called later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts import PackedForms
from ort_py_xnnpack.binding._xnnpack import ffi
from ort_py_xnnpack.binding.memory import Array, aligned

__all__ = ["PackedWeights"]

_NOT_FOUND: int = 2 ** (8 * ffi.sizeof("size_t")) - 1


class _Absent(Exception):
    """There is no such form yet."""


def _absent() -> Array:
    raise _Absent


class PackedWeights:
    """The packed weights of one runtime.

    Args:
        forms: The session's packed forms.

    Attributes:
        cache: What XNNPACK takes.
        complete: Whether the runtime is made; XNNPACK runs none before.
    """

    def __init__(self, forms: PackedForms) -> None:
        self.complete = False
        self._forms = forms
        self._keys: dict[int, str] = {}
        self._arrays: list[Array] = []
        self._room: Array | None = None
        callbacks = (
            ffi.callback("size_t(void *, const cache_key_t *)", self._look_up, error=_NOT_FOUND),
            ffi.callback("void *(void *, size_t)", self._reserve, error=ffi.NULL),
            ffi.callback("size_t(void *, const cache_key_t *, void *, size_t)", self._insert, error=_NOT_FOUND),
            ffi.callback("bool(void *)", lambda _: self.complete),
            ffi.callback("void *(void *, size_t)", self._address, error=ffi.NULL),
            ffi.callback("int(void *)", lambda _: 0),
            ffi.callback("int(void *, void *, void *)", self._alias, error=2),
        )
        self.cache = ffi.new("cache_t *", (ffi.NULL, *callbacks))
        self._callbacks = callbacks

    def name(self, array: Array, key: str) -> None:
        """Say which constant is found at the address of an array while a runtime is made."""
        self._keys[array.ctypes.data] = key

    def _names(self, key: Any) -> tuple[Sequence[str], str] | None:
        found = [self._keys.get(int(ffi.cast("uintptr_t", one)), "") for one in (key.kernel, key.bias)]
        if not found[0] or (key.bias != ffi.NULL and not found[1]):
            return None
        return found, f"xnnpack {key.seed:x} {key.fingerprint:x}"

    def _look_up(self, _: Any, key: Any) -> int:
        names = self._names(key)
        if names is None:
            return _NOT_FOUND
        try:
            return self._kept(self._forms.packed(*names, _absent))
        except _Absent:
            return _NOT_FOUND

    def _reserve(self, _: Any, size: int) -> Any:
        self._room = aligned(size)
        return ffi.cast("void *", self._room.ctypes.data)

    def _insert(self, _: Any, key: Any, memory: Any, size: int) -> int:
        made, self._room = self._room, None
        if made is None or made.ctypes.data != int(ffi.cast("uintptr_t", memory)):
            return _NOT_FOUND
        names = self._names(key)
        return self._kept(made if names is None else self._forms.packed(*names, lambda: made))

    def _kept(self, array: Array) -> int:
        self._arrays.append(array)
        return len(self._arrays) - 1

    def _address(self, _: Any, offset: int) -> Any:
        return ffi.cast("void *", self._arrays[offset].ctypes.data)

    def _alias(self, _: Any, alias: Any, original: Any) -> int:
        key = self._keys.get(int(ffi.cast("uintptr_t", original)))
        if key is not None:
            self._keys[int(ffi.cast("uintptr_t", alias))] = f"{key} converted"
        return 0
