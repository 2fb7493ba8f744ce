"""A stand-in for CuPy that needs no GPU: an array module of just the names that NumPy and CuPy 14 share.

Kernels written over `xp` run on it in the tests. It refuses what would only show on a device: names that one of the
two lacks, mixing with NumPy arrays, being turned into a NumPy array behind one's back, and every wait for the device
that is not spelt out (`int()`, `bool()`, iteration). `item` is the one wait that may be written. `to_device` and
`to_host` are the tests' ways in and out, `asarray` is the kernels' way in.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

__all__ = ["NAMES", "StandInArray", "array_module", "to_device", "to_host"]

_UFUNCS = """
 abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor cbrt ceil
copysign cos cosh deg2rad divide equal exp exp2 expm1 fabs floor floor_divide fmax fmin fmod frexp greater
greater_equal hypot invert isfinite isinf isnan ldexp left_shift less less_equal log log10 log1p log2 logaddexp
logical_and logical_not logical_or logical_xor maximum minimum mod modf multiply negative nextafter not_equal positive
power rad2deg reciprocal remainder right_shift rint sign signbit sin sinh sqrt square subtract tan tanh true_divide
trunc
""".split()  # noqa: SIM905 - a wall of quotes would hide the names

_FUNCTIONS = """
all any arange argmax argmin argpartition argsort array array_split asarray ascontiguousarray atleast_1d atleast_2d
average bincount broadcast_arrays broadcast_to clip compress concatenate copyto count_nonzero cross cumprod cumsum diag
diagonal diff dot einsum empty empty_like expand_dims extract eye flatnonzero flip full full_like hstack identity
indices inner interp isclose kron linspace matmul max mean median meshgrid min moveaxis nan_to_num nonzero ones
ones_like outer pad partition prod put put_along_axis ravel repeat reshape roll rollaxis rot90 round searchsorted
sort split squeeze stack std sum swapaxes take take_along_axis tensordot tile trace transpose tri tril triu unique
unravel_index vdot vstack var where zeros zeros_like
""".split()  # noqa: SIM905 - a wall of quotes would hide the names

_VALUES = """
bool_ complex64 complex128 dtype e finfo float16 float32 float64 iinfo inf int8 int16 int32 int64 nan newaxis pi
promote_types result_type uint8 uint16 uint32 uint64
""".split()  # noqa: SIM905 - a wall of quotes would hide the names

_AT = frozenset(("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"))
"""Ufuncs whose `at` CuPy has; `multiply` is not among them."""

NAMES: frozenset[str] = frozenset((*_UFUNCS, *_FUNCTIONS, *_VALUES))
"""Every name of the stand-in, compared by eye and by program with CuPy 14.2."""

_METHODS = (
    "astype",
    "copy",
    "max",
    "mean",
    "min",
    "prod",
    "ravel",
    "reshape",
    "squeeze",
    "sum",
    "swapaxes",
    "take",
    "transpose",
    "view",
)
_ATTRIBUTES = ("dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides")


def _refuse(what: str) -> Callable[..., NoReturn]:
    def refused(*_args: Any, **_keywords: Any) -> NoReturn:
        raise TypeError(f"A device array does not do {what}: it would wait for the device, or leave it.")

    return refused


class StandInArray:
    """An array that behaves as a device array does: NumPy inside, but with no way in that is not explicit."""

    __array_ufunc__ = None  # NumPy's functions and operators refuse it
    __hash__ = None  # type: ignore[assignment]  # as arrays are

    def __init__(self, host: Any) -> None:
        self._host = np.asarray(host)

    def __getattr__(self, name: str) -> Any:
        if name in _ATTRIBUTES:
            return getattr(self._host, name)
        if name == "T":
            return StandInArray(self._host.T)
        if name in _METHODS:
            return _wrapped(getattr(self._host, name))
        raise AttributeError(f"The stand-in array has no '{name}': NumPy's and CuPy's arrays do not share it.")

    def item(self) -> Any:
        """The only element as a Python number: the wait for the device that may be written down."""
        return self._host.item()

    def get(self) -> Any:
        """A NumPy copy: CuPy's own way to the host, for outputs that are host values (labels that may be strings)."""
        return self._host.copy()

    def __getitem__(self, index: Any) -> StandInArray:
        return StandInArray(self._host[_inside(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self._host[_inside(index)] = _inside(value)

    def __repr__(self) -> str:
        return f"StandInArray({self._host!r})"

    __array__ = _refuse("__array__")
    __bool__ = _refuse("bool()")
    __float__ = _refuse("float()")
    __index__ = _refuse("use as an index")
    __int__ = _refuse("int()")
    __iter__ = _refuse("iteration")


def _add_operators() -> None:
    binary = (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
        "matmul",
    )
    comparisons = ("eq", "ne", "lt", "le", "gt", "ge")
    for name in [*binary, *(f"r{op}" for op in binary), *comparisons, "neg", "pos", "abs", "invert"]:
        setattr(StandInArray, f"__{name}__", _operator(f"__{name}__"))


def _operator(name: str) -> Callable[..., Any]:
    def apply(self: StandInArray, *others: Any) -> Any:
        return _outside(getattr(self._host, name)(*(_inside(other) for other in others)))

    return apply


def _inside(value: Any) -> Any:
    """Unwrap the stand-in's own arrays, and refuse NumPy's."""
    if isinstance(value, StandInArray):
        return value._host
    if isinstance(value, np.ndarray):  # NumPy's scalars are numbers to CuPy too
        raise TypeError(f"A NumPy array of shape {value.shape} was mixed with device arrays.")
    if isinstance(value, tuple | list):
        return type(value)(_inside(item) for item in value)
    return value


def _outside(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return StandInArray(value)
    if isinstance(value, tuple | list):
        return type(value)(_outside(item) for item in value)
    return value


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **keywords: Any) -> Any:
        outputs = keywords.get("out")
        result = function(*map(_inside, args), **{name: _inside(value) for name, value in keywords.items()})
        return outputs if isinstance(outputs, StandInArray) else _outside(result)

    return call


class _Ufunc:
    """A ufunc: callable, with `at` where CuPy has it."""

    def __init__(self, name: str) -> None:
        self._call = _wrapped(getattr(np, name))
        if name in _AT:
            self.at = _wrapped(getattr(np, name).at)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._call(*args, **keywords)


_add_operators()


def _asarray(value: Any, dtype: Any = None) -> Any:
    """`asarray` is also the way from the host that a kernel may write: it copies."""
    if not isinstance(value, StandInArray):
        return StandInArray(np.array(value, dtype))
    return value if dtype is None else value.astype(dtype)


array_module = SimpleNamespace(
    **{name: getattr(np, name) for name in _VALUES},
    **{name: _wrapped(getattr(np, name)) for name in _FUNCTIONS},
    **{name: _Ufunc(name) for name in _UFUNCS},
)
array_module.asarray = _asarray
array_module.fft = SimpleNamespace(
    **{name: _wrapped(getattr(np.fft, name)) for name in ("fft", "ifft", "irfft", "rfft")}
)
array_module.linalg = SimpleNamespace(**{name: _wrapped(getattr(np.linalg, name)) for name in ("det", "inv")})
array_module.lib = SimpleNamespace(
    stride_tricks=SimpleNamespace(as_strided=_wrapped(np.lib.stride_tricks.as_strided)),
)


def to_device(value: Any) -> Any:
    """A NumPy array (a copy) as a stand-in array; anything else as it is."""
    return StandInArray(np.array(value)) if isinstance(value, np.ndarray | np.generic) else value


def to_host(value: Any) -> Any:
    """A stand-in array as NumPy's; anything else as it is."""
    return value._host if isinstance(value, StandInArray) else value
