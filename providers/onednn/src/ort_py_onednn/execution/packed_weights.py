"""Weights in the layouts that primitives want: packed once a process, shared by content, gone with their last user.

A `Weight` belongs to one region. Its original array is let go once a plan has a packed form: other layouts are then
made from that one. Knows nothing of ONNX.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import Any

import numpy as np

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc, Key
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.binding.status import check

__all__ = ["Packed", "Weight", "aligned", "packed_bytes"]

_ALIGNMENT = 64
_SMALL = 4096
"""Arrays up to so many bytes are kept: biases and scales, which are read as they are."""


class Packed:
    """Data in a layout. Never written to after it was made.

    Attributes:
        desc: The layout.
        data: Its bytes.
    """

    __slots__ = ("__weakref__", "data", "desc")

    def __init__(self, desc: Desc, data: np.ndarray[Any, Any]) -> None:
        self.desc = desc
        self.data = data


_lock = threading.Lock()
_store: weakref.WeakValueDictionary[tuple[bytes, Key], Packed] = weakref.WeakValueDictionary()


def packed_bytes() -> int:
    """Bytes of all packed weights of the process."""
    with _lock:
        return sum(packed.data.nbytes for packed in _store.values())


def aligned(nbytes: int) -> np.ndarray[Any, Any]:
    """Uninitialised bytes at an address that every implementation likes."""
    block = np.empty(nbytes + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + nbytes]


class Weight:
    """A constant of a region.

    Args:
        array: float32, C-contiguous.
    """

    __slots__ = ("_array", "_digest", "_forms", "_lock", "shape")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array: np.ndarray[Any, Any] | None = np.ascontiguousarray(array)
        self._digest = hashlib.sha256(self._array.data if array.size else b"").digest()[:16]
        self._forms: dict[Key, Packed] = {}
        self._lock = threading.Lock()
        self.shape = tuple(array.shape)

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The original; made again from a packed form where it was let go."""
        if self._array is not None:
            return self._array
        form = self._of(Desc.plain(self.shape), None)
        return np.frombuffer(form.data, np.float32).reshape(self.shape)

    def in_layout(self, desc: Desc, seen: Desc | None = None) -> Packed:
        """The data in a layout.

        Args:
            desc: The layout.
            seen: How the original array is to be read, where not as it lies: with groups or transposed.
        """
        with self._lock:
            return self._of(desc, seen)

    def first_layout(self, dims: tuple[int, ...]) -> Desc | None:
        """The layout these dimensions were packed in before, if they were."""
        with self._lock:
            return next((form.desc for form in self._forms.values() if form.desc.dims == dims), None)

    def let_go(self) -> None:
        """Drop the original where a packed form can stand in for it."""
        with self._lock:
            if self._array is not None and self._array.nbytes > _SMALL and self._forms:
                self._array = None

    def _of(self, desc: Desc, seen: Desc | None) -> Packed:
        key = desc.key
        if key is None:
            return self._pack(desc, seen)
        found = self._forms.get(key)
        if found is None:
            with _lock:
                found = _store.get((self._digest, key))
            if found is None:
                made = self._pack(desc, seen)
                with _lock:
                    found = _store.setdefault((self._digest, key), made)
            self._forms[key] = found
        return found

    def _pack(self, desc: Desc, seen: Desc | None) -> Packed:
        source, data = self._source(desc.dims, seen)
        made = Packed(desc, aligned(desc.nbytes))
        primitive = primitives.reorder(source, desc)
        _run_once(primitive, {Argument.SRC: data, Argument.DST: made.data})
        return made

    def _source(self, dims: tuple[int, ...], seen: Desc | None) -> tuple[Desc, np.ndarray[Any, Any]]:
        if self._array is not None:
            return seen or Desc.plain(dims), self._array
        form = next((form for form in self._forms.values() if form.desc.dims == dims), None)
        if form is None:
            form = next(iter(self._forms.values()))
            reshaped = form.desc.reshaped(dims)
            assert reshaped is not None, f"a weight of {form.desc.dims} is wanted as {dims}"
            return reshaped, form.data
        return form.desc, form.data


def _run_once(primitive: Primitive, arrays: dict[int, np.ndarray[Any, Any]]) -> None:
    e = engine()
    scratch = (
        aligned(primitive.arguments[Argument.SCRATCHPAD].nbytes) if Argument.SCRATCHPAD in primitive.arguments else None
    )
    arguments = ffi.new("dnnl_exec_arg_t[]", len(primitive.arguments))
    made = []
    try:
        for index, (code, desc) in enumerate(primitive.arguments.items()):
            array = scratch if code == Argument.SCRATCHPAD else arrays[code]
            assert array is not None
            memory = ffi.new("void **")
            address = ffi.cast("void *", array.ctypes.data)
            check(e.c.dnnl_memory_create(memory, desc.handle, e.handle, address), "dnnl_memory_create")
            made.append(memory[0])
            arguments[index].arg, arguments[index].memory = code, memory[0]
        check(
            e.c.dnnl_primitive_execute(primitive.handle, e.stream, len(primitive.arguments), arguments),
            "dnnl_primitive_execute",
            "a reorder of weights",
        )
    finally:
        for memory in made:
            e.c.dnnl_memory_destroy(memory)
