"""Weights in the layouts that primitives want: packed once a process, gone with the last session that uses them.

A `Weight` belongs to one region. Once it is packed its original is given back to the engine, which lets go of it: other
layouts are then made of the packed form, or of the original as it can be had again. A layout has a type: packing
converts, and of weights of which half the bits are wanted, half the bytes stay. It is independent of ONNX.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import numpy as np

from ort_py.contracts import PackedForms, RegionWeight
from ort_py.dtypes import DataType, data_type_of
from ort_py.errors import EPFail
from ort_py.hashing import blake2b
from ort_py.light_tuple import NamedTuple
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc, Key
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.half_floats import Conversion
from ort_py_onednn.binding.openmp import prepare, threads
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.binding.status import check
from ort_py_onednn.execution.copied_layouts import copy_elements
from ort_py_onednn.execution.elements import ELEMENTS, as_bytes, numpy_of
from ort_py_onednn.execution.large_pages import aligned, lasting

__all__ = ["MadeWeight", "Packed", "Weight"]

_ALIGNMENT = 64
_SMALL = 4096
"""Arrays up to so many bytes are kept: biases and scales, which are read as they are."""


class Packed(NamedTuple):
    """Data in a layout. Never written to after it was made.

    Attributes:
        desc: The layout.
        data: Its bytes.
        seen: How the original array was read for it.
    """

    desc: Desc
    data: np.ndarray[Any, Any]
    seen: Desc


class MadeWeight(RegionWeight):
    """A constant that compiling made, and the model does not have.

    Args:
        array: The tensor. One number in all places is best given as `numpy.broadcast_to` has it, which takes no memory.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array: np.ndarray[Any, Any] | None = array if not any(array.strides) else np.ascontiguousarray(array)
        self._restore: Callable[[], np.ndarray[Any, Any]] | None = None
        self._data_type = data_type_of(array.dtype)
        self._shape = tuple(array.shape)
        self._key = ""

    @classmethod
    def later(
        cls, make: Callable[[], np.ndarray[Any, Any]], shape: tuple[int, ...], key: str, dtype: type[np.generic]
    ) -> MadeWeight:
        """A constant that is made when it is packed, and not at all where an earlier process packed it.

        Args:
            key: A text that tells its content, type and shape.
        """
        weight = cls(np.broadcast_to(dtype(0), shape))
        weight._array, weight._restore, weight._key = None, make, key
        return weight

    @property
    def number(self) -> np.ndarray[Any, Any] | None:
        """The number in all places, as an array of one element; None where they differ."""
        array = self._array
        return None if array is None or any(array.strides) or not array.size else np.array([array[(0,) * array.ndim]])

    @property
    def key(self) -> str:
        if not self._key:
            number = self.number
            content = as_bytes(np.ascontiguousarray(self.array() if number is None else number)).data
            digest = blake2b(content, digest_size=20).hexdigest()
            kind = "array" if number is None else "number"
            self._key = f"{kind} {self._data_type.onnx_name} {self._shape} {digest}"
        return self._key

    @property
    def data_type(self) -> DataType:
        return self._data_type

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def array(self) -> np.ndarray[Any, Any]:
        array = self._array
        if array is None:
            assert self._restore is not None, "an array goes when something restores it"
            return self._restore()
        return np.ascontiguousarray(array)

    def held(self) -> object:
        return self

    def replaced(self, restore: Callable[[], Any] | None = None) -> None:
        if restore is not None and self.number is None:
            _ = self.key
            self._array, self._restore = None, restore


class Weight:
    """A constant of a region.

    Args:
        source: The constant, of a type that oneDNN has.
        forms: Where its session holds packed forms.

    Attributes:
        shape: Its shape.
        dtype: Its type.
    """

    __slots__ = (
        "_arranged",
        "_forms",
        "_held",
        "_lies",
        "_lock",
        "_packed",
        "_parts",
        "_secret",
        "_source",
        "dtype",
        "shape",
    )

    def __init__(self, source: RegionWeight, forms: PackedForms) -> None:
        self._source = source
        self._forms = forms
        self._held: object = None
        self._lies = False
        self._packed: dict[tuple[Key, Key | None], Packed] = {}
        self._parts: dict[tuple[Key, Key | None], tuple[Packed, ...]] = {}
        self._secret: list[Packed] = []
        self._arranged: dict[str, np.ndarray[Any, Any]] = {}
        self._lock = threading.Lock()
        self.dtype: Element = ELEMENTS[source.data_type]
        self.shape = tuple(source.shape)

    def hold(self) -> None:
        """Keep the original until there is a packed form. From now on no other object holds it."""
        with self._lock:
            if not self._is_packed:
                self._held = self._source.held()

    @property
    def _is_packed(self) -> bool:
        return bool(self._packed or self._parts or self._arranged)

    def in_layout(self, desc: Desc, seen: Desc | None = None) -> Packed:
        """The data in a layout.

        Args:
            desc: The layout.
            seen: How the original array is to be read, where not as it lies: with groups or transposed.
        """
        seen = seen or Desc.plain(desc.dims, self.dtype)
        if desc.key is None:  # oneDNN's secret, which nothing but oneDNN can compare
            with self._lock:
                known = (form for form in self._secret if form.desc.same(desc) and form.seen.same(seen))
                found = next(known, None)
                if found is None:
                    found = Packed(desc, self._reordered(desc, seen), seen)
                    self._secret.append(found)
                return found
        with self._lock:
            found = self._packed.get((desc.key, seen.key))
            if found is None:
                found = self._packed[desc.key, seen.key] = self._made(desc, seen)
            return found

    def in_parts(self, desc: Desc, seen: Desc, bare: Desc | None = None) -> tuple[Packed, ...]:
        """The data cut into parts of as many columns, each in a layout, one behind the other.

        Args:
            desc: The layout of a part, with a key; its last dimension is a divisor of that of `seen`.
            seen: How the original array is to be read: as it lies.
            bare: The same layout without what the library adds behind the elements, for reading them again; None where
                that is not known, so that the original is kept.
        """
        assert desc.key is not None, "a primitive's secret layout is not cut"
        with self._lock:
            found = self._parts.get((desc.key, seen.key))
            if found is None:
                found = self._parts[desc.key, seen.key] = self._cut(desc, seen, bare)
            return found

    def arranged(
        self,
        nbytes: int,
        name: str,
        other: Weight,
        arrange: Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], np.ndarray[Any, Any]],
        restored: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]],
    ) -> np.ndarray[Any, Any]:
        """Bytes of the data and another constant's in an order that oneDNN does not know.

        Args:
            nbytes: Of the result.
            name: Of the order, with everything that it depends on.
            other: The other constant.
            arrange: Makes the bytes of both arrays.
            restored: Makes the array of the bytes again.
        """
        with self._lock:
            found = self._arranged.get(name)
            if found is None:
                is_first = not self._is_packed
                found = self._forms.packed(
                    (self._source.key, other._source.key), name, lambda: arrange(self._original(), other._original())
                )
                _check_size(found, nbytes)
                self._arranged[name] = found
                if is_first:
                    self._held = restore = partial(restored, found)
                    self._source.replaced(restore)
            return found

    def first_layout(self, dims: tuple[int, ...], dtype: Element = F32) -> Desc | None:
        """The layout these dimensions were packed in before in a type, if they were."""
        wanted = dims, dtype
        with self._lock:
            known = [form.desc for form in self._packed.values()]
        return next((desc for desc in known if (desc.dims, desc.dtype) == wanted), None)

    def _made(self, desc: Desc, seen: Desc) -> Packed:
        lies = desc.same(seen) and not isinstance(self._source, MadeWeight)
        if lies and (array := self._original()).ctypes.data % _ALIGNMENT == 0:
            self._lies = True
            return Packed(desc, as_bytes(array), seen)  # the engine's own memory
        make = partial(self._reordered, desc, seen)
        data = self._forms.packed((self._source.key,), f"{_library()} {desc.key} of {seen.key}", make)
        _check_within(desc, data)  # it may come from an earlier process
        made = Packed(desc, data, seen)
        if desc.nbytes > _SMALL and not self._lies:
            self._held = restore = _restoring(made, self.shape, self.dtype)
            self._source.replaced(restore)
        return made

    def _cut(self, desc: Desc, seen: Desc, bare: Desc | None) -> tuple[Packed, ...]:
        step = -(-desc.nbytes // _ALIGNMENT) * _ALIGNMENT
        width, count = desc.dims[-1], seen.dims[-1] // desc.dims[-1]
        plain = Desc.plain(desc.dims, self.dtype)

        def make() -> np.ndarray[Any, Any]:
            made, array = lasting(step * count), self._original().reshape(seen.dims)
            for place in range(count):
                # A copy first: oneDNN has no reorder of parts of rows into what products of bytes want.
                part = as_bytes(np.ascontiguousarray(array[..., place * width :][..., :width]))
                _run_once(primitives.reorder(plain, desc), {Argument.SRC: part, Argument.DST: made[place * step :]})
            return made

        data = self._forms.packed((self._source.key,), f"{_library()} {desc.key} of parts of {seen.key}", make)
        _check_size(data, step * count)
        found = tuple(Packed(desc, data[place * step :][: desc.nbytes], plain) for place in range(count))
        if desc.nbytes > _SMALL and not self._lies and bare is not None:
            readable = tuple(part._replace(desc=bare) for part in found)
            self._held = restore = partial(_joined, readable, self.shape, numpy_of(self.dtype))
            self._source.replaced(restore)
        return found

    def _original(self) -> np.ndarray[Any, Any]:
        array: np.ndarray[Any, Any] = self._source.array()
        return array

    def _reordered(self, desc: Desc, seen: Desc) -> np.ndarray[Any, Any]:
        number = self._source.number if isinstance(self._source, MadeWeight) else None
        made = lasting(max(desc.nbytes, desc.reach[1]))  # a layout may begin behind its address
        if number is not None and desc.key is not None and desc.dtype == self.dtype and desc.key[2] == desc.dims:
            made.view(number.dtype)[:] = number  # no blocks that end in zeroes: the layout does not matter
            return made
        source, data = self._nearest(desc, seen)
        if copy_elements(source, data, desc, made):
            return made
        conversion = Conversion.made(engine().library, source, desc)
        if conversion is not None:
            conversion.run({Argument.SRC: data, Argument.DST: made})
            return made
        with threads(engine().library, desc.threads) if desc.threads else nullcontext():
            _run_once(primitives.reorder(source, desc), {Argument.SRC: data, Argument.DST: made})
        return made

    def _nearest(self, desc: Desc, seen: Desc) -> tuple[Desc, np.ndarray[Any, Any]]:
        """The source of a layout: a packed form that has all its bits, else the original."""
        for form in self._packed.values():
            if form.desc.dtype not in {self.dtype, desc.dtype} or not _is_bare(form.desc):
                continue
            if form.seen.same(seen):
                return form.desc, form.data
            if form.seen.is_plain and seen.is_plain and (reshaped := form.desc.reshaped(seen.dims)) is not None:
                return reshaped, form.data
        return seen, as_bytes(self._original())


@cache
def _library() -> str:
    """The library and what it uses of this CPU: what it adds to packed weights depends on them."""
    library = engine().library
    return f"oneDNN {library.version} {library.isa}"


def _is_bare(desc: Desc) -> bool:
    """Return whether nothing but the elements is in the data: what convolutions of bytes add stands behind them, and
    changes them on some machines.
    """
    return desc.key is not None and desc.is_dense and not desc.key[4]


def _restoring(form: Packed, shape: tuple[int, ...], dtype: Element) -> Callable[[], np.ndarray[Any, Any]] | None:
    """Return a function that restores the original of a packed form, or None if packing loses information. It refers
    only to the form, so that it does not keep the session's other forms alive.
    """
    whole = form.seen.is_dense and form.desc.dims == form.seen.dims
    if form.desc.dtype != dtype or not _is_bare(form.desc) or not whole:
        return None
    return partial(_restored, form, shape, numpy_of(dtype))


def _restored(form: Packed, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    array = aligned(form.seen.nbytes)
    _run_once(primitives.reorder(form.desc, form.seen), {Argument.SRC: form.data, Argument.DST: array})
    return array.view(dtype).reshape(shape)


def _joined(parts: tuple[Packed, ...], shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    columns = [_restored(part, part.seen.dims, dtype) for part in parts]
    return np.concatenate(columns, axis=-1).reshape(shape)


def _check_size(data: np.ndarray[Any, Any], nbytes: int) -> None:
    """Refuse packed weights that are too short.

    Raises:
        EPFail: They are.
    """
    if data.nbytes < nbytes:
        raise EPFail(
            f"Packed weights have {data.nbytes} bytes instead of {nbytes}.",
            fix="Remove what an earlier process kept: `ort-py cache prune --all`.",
        )


def _check_within(desc: Desc, array: np.ndarray[Any, Any]) -> None:
    """Refuse a layout that reaches outside of the array that it is to describe.

    Raises:
        EPFail: It does.
    """
    begin, end = desc.reach
    if not 0 <= begin <= end <= array.nbytes:
        raise EPFail(
            f"A layout of weights would reach from byte {begin} to byte {end} of a place of {array.nbytes} bytes.",
            fix="this is a mistake in ort-py-onednn: please report it with the model",
        )


def _run_once(primitive: Primitive, arrays: dict[int, np.ndarray[Any, Any]]) -> None:
    e = engine()
    prepare(e.library)
    scratch = (
        aligned(primitive.arguments[Argument.SCRATCHPAD].nbytes) if Argument.SCRATCHPAD in primitive.arguments else None
    )
    arguments = ffi.new("dnnl_exec_arg_t[]", len(primitive.arguments))
    made = []
    try:
        for index, (code, desc) in enumerate(primitive.arguments.items()):
            array = scratch if code == Argument.SCRATCHPAD else arrays[code]
            assert array is not None
            _check_within(desc, array)
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
