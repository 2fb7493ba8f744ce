"""Arrays of the fake device: shape and element type are known at once, the content only when the stream got there.

Nothing turns such an array into a NumPy array, a number or a truth value behind one's back. `item` is the one wait
that a kernel may write down. A view shares its memory with the array it was made from and keeps that alive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

if TYPE_CHECKING:
    from ort_py_kit.fake_memory import FakeDevice, Memory
    from ort_py_kit.fake_stream import FakeStream

_REDUCTIONS = frozenset(("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var"))


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refused(*_args: Any, **_keywords: Any) -> NoReturn:
        raise TypeError(f"A device array does not do {what}: it would wait for the device, or leave it.")

    return refused


_PARAMETERS = dict.fromkeys(("mean", "prod", "sum"), ("axis", "dtype", "out", "keepdims")) | dict.fromkeys(
    ("max", "min"), ("axis", "out", "keepdims")
)
"""Parameters of reductions that can write to an array they are given, in order."""


class FakeArray:
    """An array in the memory of a fake device.

    Attributes:
        raw: The bytes as a NumPy array. For work on a stream only: outside one it may hold anything.
        memory: The memory block; dropped with the last array on it.
    """

    __slots__ = ("__weakref__", "memory", "raw")

    __array_ufunc__ = None  # NumPy's functions and operators refuse it
    __hash__ = None  # type: ignore[assignment]  # as arrays are

    def __init__(self, raw: np.ndarray[Any, Any], memory: Memory) -> None:
        self.raw = raw
        self.memory = memory

    @property
    def owner(self) -> FakeDevice:
        return self.memory.stream.owner

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.raw.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.raw.shape
        return shape

    @property
    def ndim(self) -> int:
        return self.raw.ndim

    @property
    def size(self) -> int:
        return self.raw.size

    @property
    def itemsize(self) -> int:
        return self.raw.itemsize

    @property
    def nbytes(self) -> int:
        return self.raw.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis."""
        return self.raw.strides

    @property
    def flags(self) -> Any:
        return self.raw.flags

    @property
    def T(self) -> FakeArray:  # noqa: N802 - NumPy's name
        return FakeArray(self.raw.T, self.memory)

    @property
    def _xp(self) -> Any:
        from ort_py_kit.fake_module import module_of

        return module_of(self.owner)

    def item(self) -> Any:
        """The only element as a Python number: waits for the stream."""
        self.owner.current_stream.synchronize()
        return self.raw.item()

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", copy: bool = True) -> FakeArray:
        """A copy with another element type; the array itself where `copy` is False and nothing changes."""
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return self._method("astype", dtype, order=order, casting=casting)

    def copy(self, order: str = "C") -> FakeArray:
        return self._method("copy", order=order)

    def view(self, dtype: Any) -> FakeArray:
        """The same bytes read as another element type."""
        return FakeArray(self.raw.view(dtype), self.memory)

    def reshape(self, *shape: Any, order: str = "C") -> FakeArray:
        """A view with another shape where the layout allows, else a copy."""
        result: FakeArray = self._xp.rearrange(lambda array: array.reshape(*shape, order=order), self)
        return result

    def ravel(self, order: str = "C") -> FakeArray:
        """A view with one axis where the layout allows, else a copy."""
        result: FakeArray = self._xp.rearrange(lambda array: array.ravel(order), self)
        return result

    def squeeze(self, axis: Any = None) -> FakeArray:
        """A view without axes of length one."""
        return FakeArray(self.raw.squeeze(axis), self.memory)

    def swapaxes(self, first: int, second: int) -> FakeArray:
        """A view with two axes exchanged."""
        return FakeArray(self.raw.swapaxes(first, second), self.memory)

    def transpose(self, *axes: Any) -> FakeArray:
        return FakeArray(self.raw.transpose(*axes), self.memory)

    def take(self, indices: Any, axis: int | None = None, out: FakeArray | None = None) -> FakeArray:
        """Elements at places along an axis."""
        result: FakeArray = self._xp.take(self, indices, axis=axis, **({} if out is None else {"out": out}))
        return result

    def __getattr__(self, name: str) -> Any:
        # Reductions as methods; NumPy's own names and positions of arguments.
        if name in _REDUCTIONS:
            return partial(self._method, name)
        raise AttributeError(f"The fake device's arrays have no '{name}'.")

    def __getitem__(self, index: Any) -> FakeArray:
        if _is_basic(index):
            picked = self.raw[index]
            if not isinstance(picked, np.ndarray):  # NumPy gives a number where a device gives a 0-d array
                whole = (*index, ...) if isinstance(index, tuple) else (index, ...)
                picked = self.raw[whole]
            return FakeArray(picked, self.memory)
        result: FakeArray = self._xp.apply(lambda array, at: array[at], self, index)
        return result

    def __setitem__(self, index: Any, value: Any) -> None:
        self._xp.mutate(lambda array, at, content: array.__setitem__(at, content), self, index, value)

    def _method(self, name: str, *args: Any, **keywords: Any) -> FakeArray:
        if name in _PARAMETERS:  # by name, so that the module sees which of them is an output
            args, keywords = (), dict(zip(_PARAMETERS[name], args, strict=False)) | keywords

        def call(array: Any, **named: Any) -> Any:
            return getattr(array, name)(*args, **named)

        result: FakeArray = self._xp.apply(call, self, **keywords)
        return result

    def __repr__(self) -> str:
        return f"FakeArray({self.dtype} {self.shape} on {self.owner.device})"

    __array__ = _refuse("__array__")
    __bool__ = _refuse("bool()")
    __float__ = _refuse("float()")
    __index__ = _refuse("use as an index")
    __int__ = _refuse("int()")
    __iter__ = _refuse("iteration")
    __len__ = _refuse("len()")


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return not any(isinstance(part, bool) for part in parts) and all(
        part is None or part is Ellipsis or isinstance(part, slice | int | np.integer) for part in parts
    )


def _add_operators() -> None:
    binary = {
        "add": "add",
        "sub": "subtract",
        "mul": "multiply",
        "truediv": "divide",
        "floordiv": "floor_divide",
        "mod": "mod",
        "pow": "power",
        "and": "bitwise_and",
        "or": "bitwise_or",
        "xor": "bitwise_xor",
        "lshift": "left_shift",
        "rshift": "right_shift",
        "matmul": "matmul",
    }
    compare = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater"}
    compare["ge"] = "greater_equal"
    unary = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
    for short, name in {**binary, **compare, **unary}.items():
        setattr(FakeArray, f"__{short}__", _operator(name))
    for short, name in binary.items():
        setattr(FakeArray, f"__r{short}__", _reflected(name))


def _operator(name: str) -> Callable[..., Any]:
    def apply(self: FakeArray, *others: Any) -> Any:
        return getattr(self._xp, name)(self, *others)

    return apply


def _reflected(name: str) -> Callable[..., Any]:
    def apply(self: FakeArray, other: Any) -> Any:
        return getattr(self._xp, name)(other, self)

    return apply


_add_operators()


def empty_array(owner: FakeDevice, shape: tuple[int, ...], dtype: np.dtype[Any], stream: FakeStream) -> FakeArray:
    """An array of poison for work on a stream.

    Raises:
        TypeError: Strings and other objects are not the business of a device.
        MemoryError: The device does not have that much.
    """
    if dtype.hasobject:
        raise TypeError(f"{owner.device} holds no arrays of {dtype}.")
    count = 1
    for dim in shape:
        count *= dim
    memory = owner.allocate(count * dtype.itemsize, stream)
    raw = memory.block[: count * dtype.itemsize].view(dtype).reshape(shape)
    return FakeArray(raw, memory)
