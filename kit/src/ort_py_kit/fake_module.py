"""The array module of a fake device: the names NumPy and CuPy share, each of which queues its work and returns.

Result shapes and element types are found by running the NumPy function on arrays of zeros that take no memory. What
only rearranges (reshape, transpose, split, …) returns views. What needs the content to know its shape (nonzero,
unique, …) waits, as it does on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py_kit.fake_array import FakeArray, empty_array

if TYPE_CHECKING:
    from ort_py_kit.fake_memory import FakeDevice


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_UFUNCS = _words(
    """
    abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor cbrt ceil
    copysign cos cosh divide equal exp exp2 expm1 fabs floor floor_divide fmax fmin fmod greater greater_equal hypot
    invert isfinite isinf isnan ldexp left_shift less less_equal log log10 log1p log2 logaddexp logical_and logical_not
    logical_or logical_xor maximum minimum mod modf multiply negative nextafter not_equal positive power reciprocal
    remainder right_shift rint sign signbit sin sinh sqrt square subtract tan tanh true_divide trunc
    """
)
_FUNCTIONS = _words(
    """
    all any arange argmax argmin argpartition argsort average broadcast_arrays clip concatenate count_nonzero cumprod
    cumsum diag diff dot einsum eye full full_like hstack identity inner interp isclose linspace matmul max mean median
    meshgrid min nan_to_num ones ones_like outer pad partition prod repeat roll round searchsorted sort stack std sum
    take take_along_axis tensordot tile trace tri tril triu unravel_index var vdot vstack where zeros zeros_like
    """
)
_WAITING = _words("bincount compress extract flatnonzero nonzero unique")
_VIEWING = _words(
    """
    array_split ascontiguousarray atleast_1d atleast_2d broadcast_to diagonal expand_dims flip moveaxis ravel reshape
    rollaxis rot90 split squeeze swapaxes transpose
    """
)
"""Functions that return views where the layout allows it."""
_MUTATING = _words("copyto put_along_axis")
_SPACES = {"fft": _words("fft ifft irfft rfft"), "linalg": _words("det inv")}
"""Functions of namespaces below the module."""
_VALUES = _words(
    """
    bool_ complex64 complex128 dtype e finfo float16 float32 float64 iinfo inf int8 int16 int32 int64 nan newaxis pi
    promote_types result_type uint8 uint16 uint32 uint64
    """
)


_OUT = {"concatenate": 2, "dot": 2, "take": 3}
"""Position of the output of functions that are not ufuncs, when it is not given by name."""


class FakeModule:
    """`xp` of one fake device. Any other name is refused: a real device's module has no more."""

    def __init__(self, owner: FakeDevice) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        found: Any
        if name in _VALUES:
            found = getattr(np, name)
        elif name in _VIEWING:
            found = partial(self.rearrange, getattr(np, name))
        elif name in _FUNCTIONS:
            found = partial(self.apply, getattr(np, name))
        elif name in _UFUNCS:
            found = _Ufunc(self, getattr(np, name))
        elif name in _WAITING:
            found = partial(self.wait_and_apply, getattr(np, name))
        elif name in _MUTATING:
            found = partial(self.mutate, getattr(np, name))
        elif name == "lib":
            tricks = np.lib.stride_tricks
            views = {
                trick: partial(self.rearrange, getattr(tricks, trick))
                for trick in ("as_strided", "sliding_window_view")
            }
            found = SimpleNamespace(stride_tricks=SimpleNamespace(**views))
        elif name in _SPACES:
            space = getattr(np, name)
            found = SimpleNamespace(**{one: partial(self.apply, getattr(space, one)) for one in _SPACES[name]})
        else:
            raise AttributeError(f"The fake device's array module has no '{name}'.")
        setattr(self, name, found)
        return found

    def empty(self, shape: Any, dtype: Any = np.float64) -> FakeArray:
        dims = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        return empty_array(self._owner, dims, np.dtype(dtype), self._owner.current_stream)

    def empty_like(self, like: FakeArray, dtype: Any = None) -> FakeArray:
        """An array of poison in the shape of another."""
        return self.empty(like.shape, like.dtype if dtype is None else dtype)

    def asarray(self, value: Any, dtype: Any = None) -> FakeArray:
        """A device array as it is, anything of the host copied: the way in that a kernel may write down."""
        if isinstance(value, FakeArray):
            return value if dtype is None else value.astype(dtype, copy=False)
        host = np.array(value, dtype)
        stored: FakeArray = self._store(lambda: host, host)
        return stored

    def array(self, value: Any, dtype: Any = None, copy: bool = True, order: str = "K") -> FakeArray:
        if isinstance(value, FakeArray):
            return value.astype(dtype or value.dtype, order)
        return self.asarray(value, dtype)

    def apply(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Queue ``function`` on raw arrays; returns the arrays its results will be in."""
        place = _OUT.get(getattr(function, "__name__", ""))
        if place is not None and len(args) > place:
            args, keywords = args[:place], {**keywords, "out": args[place]}
        raw, raw_keywords = self._raw(args), self._raw(keywords)
        out = keywords.get("out")
        if out is not None:
            self._owner.current_stream.enqueue(lambda: _quiet(function, raw, raw_keywords))
            return out
        shaped = _quiet(function, _zeros(raw), _zeros(raw_keywords))
        return self._store(lambda: _quiet(function, raw, raw_keywords), shaped)

    def rearrange(self, function: Callable[..., Any], array: Any, *args: Any, **keywords: Any) -> Any:
        """Views where the function makes views, else its work is queued."""
        if not isinstance(array, FakeArray):
            return self.apply(function, array, *args, **keywords)
        made = _quiet(function, self._raw((array, *args)), keywords)
        if made is array.raw:
            return array
        pieces = made if isinstance(made, list) else [made]
        if not all(np.may_share_memory(piece, array.raw) for piece in pieces):
            return self.apply(function, array, *args, **keywords)
        views = [FakeArray(piece, array.memory) for piece in pieces]
        return views if isinstance(made, list) else views[0]

    def mutate(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> None:
        """Queue a function that writes to its first argument."""
        raw, raw_keywords = self._raw(args), self._raw(keywords)
        self._owner.current_stream.enqueue(lambda: _quiet(function, raw, raw_keywords))

    def wait_and_apply(self, function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Wait for the stream, then compute: for results whose shape the content decides."""
        self._owner.current_stream.synchronize()
        result = _quiet(function, self._raw(args), self._raw(keywords))
        return self._store(lambda: result, result)

    def _store(self, compute: Callable[[], Any], shaped: Any) -> Any:
        """Device arrays shaped like `shaped`, filled with what `compute` returns when the stream gets there."""
        stream = self._owner.current_stream
        several = isinstance(shaped, tuple | list)
        pieces = shaped if several else [shaped]
        arrays = [empty_array(self._owner, np.shape(piece), np.asarray(piece).dtype, stream) for piece in pieces]
        goals = [array.raw for array in arrays]

        def fill() -> None:
            computed = compute()
            for goal, content in zip(goals, computed if several else [computed], strict=True):
                goal[...] = content

        stream.enqueue(fill)
        if not several:
            return arrays[0]
        return arrays if isinstance(shaped, list) else tuple(arrays)

    def _raw(self, value: Any) -> Any:
        if isinstance(value, FakeArray):
            if value.owner is not self._owner:
                raise TypeError(f"An array on {value.owner.device} was mixed with arrays on {self._owner.device}.")
            return value.raw
        if isinstance(value, np.ndarray):  # NumPy's scalars are numbers to a device too
            raise TypeError(f"A NumPy array of shape {value.shape} was mixed with device arrays.")
        if isinstance(value, tuple | list):
            return type(value)([self._raw(item) for item in value])
        if isinstance(value, dict):
            return {key: self._raw(item) for key, item in value.items()}
        return value


class _Ufunc:
    """A ufunc: callable, with `at`."""

    def __init__(self, module: FakeModule, ufunc: np.ufunc) -> None:
        self._module = module
        self._ufunc = ufunc

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        outputs = args[self._ufunc.nin :]
        if outputs:
            args, keywords = args[: self._ufunc.nin], {**keywords, "out": outputs[0]}
        return self._module.apply(self._ufunc, *args, **keywords)

    def at(self, array: FakeArray, *args: Any) -> None:
        """The work is done in place, in stream order."""
        self._module.mutate(self._ufunc.at, array, *args)


def module_of(owner: FakeDevice) -> FakeModule:
    """The device's array module, always the same one."""
    module = owner.module
    if not isinstance(module, FakeModule):
        module = owner.module = FakeModule(owner)
    return module


def _zeros(value: Any) -> Any:
    """Arrays of zeros of the same shapes that take no memory: zero is a valid index and a valid axis length."""
    if isinstance(value, np.ndarray):
        return np.broadcast_to(np.zeros((), value.dtype), value.shape)
    if isinstance(value, tuple | list):
        return type(value)([_zeros(item) for item in value])
    if isinstance(value, dict):
        return {key: _zeros(item) for key, item in value.items()}
    return value


def _quiet(function: Callable[..., Any], args: Any, keywords: Any) -> Any:
    """Devices raise no floating-point errors, and none for a matrix without inverse."""
    with np.errstate(all="ignore"):
        try:
            return function(*args, **keywords)
        except np.linalg.LinAlgError:
            return np.full_like(args[0], np.nan)
