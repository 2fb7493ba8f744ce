"""Descriptors of libcudnn's older calls: made from sizes and strides, ended with the object that holds them.

Comes after `library`; `legacy` and `recurrence` make calls with them.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

from ort_py_cuda.cudnn.element_types import HALVES, LEGACY_CODES
from ort_py_cuda.cudnn.errors import Unsupported
from ort_py_cuda.cudnn.graphs import Sizes, Tensor, WindowOf, channels_first, channels_last
from ort_py_cuda.cudnn.library import Cudnn

__all__ = ["Descriptor", "activation", "convolution", "filters", "pooling", "tensor"]

_PROPAGATE_NAN = 1
_CROSS_CORRELATION = 1
_DEFAULT_MATH, _TENSOR_MATH, _FMA_MATH = 0, 1, 3
_NCHW, _NHWC = 0, 1


class Descriptor:
    """A descriptor of some kind, destroyed with this object.

    Args:
        library: libcudnn.
        kind: As in ``cudnnCreate<kind>Descriptor``.
    """

    __slots__ = ("__weakref__", "handle")

    def __init__(self, library: Cudnn, kind: str) -> None:
        self.handle = ctypes.c_void_p()
        library.call(f"cudnnCreate{kind}Descriptor", ctypes.byref(self.handle))
        ending = weakref.finalize(self, library.call, f"cudnnDestroy{kind}Descriptor", self.handle)
        ending.atexit = False  # the library may be gone by then


_LARGEST = 2**31 - 1


def ints(values: Sequence[int]) -> Any:
    """A C array of int.

    Raises:
        Unsupported: A value is larger than an int, which ctypes would cut off.
    """
    if max(values, default=0) > _LARGEST:
        raise Unsupported(f"cuDNN's older calls count in 32 bits, which {max(values)} does not fit.")
    return (ctypes.c_int * len(values))(*values)


def tensor(library: Cudnn, described: Tensor) -> Descriptor:
    """Descriptor of a tensor of 4 to 8 axes."""
    made = Descriptor(library, "Tensor")
    library.call(
        "cudnnSetTensorNdDescriptor",
        made.handle,
        LEGACY_CODES[described.dtype],
        len(described.dims),
        ints(described.dims),
        ints(described.strides),
    )
    return made


def filters(library: Cudnn, described: Tensor) -> Descriptor:
    """Descriptor of weights (M, C / group, kernel…), dense in either order.

    Raises:
        ValueError: They lie in memory in another way.
    """
    formats = {channels_first(described.dims): _NCHW, channels_last(described.dims): _NHWC}
    if described.strides not in formats:
        raise ValueError(f"filters of strides {described.strides}")
    made = Descriptor(library, "Filter")
    library.call(
        "cudnnSetFilterNdDescriptor",
        made.handle,
        LEGACY_CODES[described.dtype],
        formats[described.strides],
        len(described.dims),
        ints(described.dims),
    )
    return made


def convolution(library: Cudnn, window: WindowOf, group: int, dtype: str, *, tf32: bool) -> Descriptor:
    """Descriptor of a convolution with the same padding on both sides (`WindowOf.begin`), sums in float32."""
    made = Descriptor(library, "Convolution")
    library.call(
        "cudnnSetConvolutionNdDescriptor",
        made.handle,
        len(window.strides),
        ints(window.begin),
        ints(window.strides),
        ints(window.dilations),
        _CROSS_CORRELATION,
        LEGACY_CODES["float32"],
    )
    library.call("cudnnSetConvolutionGroupCount", made.handle, group)
    math = _TENSOR_MATH if dtype in HALVES else _DEFAULT_MATH if tf32 else _FMA_MATH
    library.call("cudnnSetConvolutionMathType", made.handle, math)
    return made


def pooling(library: Cudnn, mode: int, kernel: Sizes, begin: Sizes, strides: Sizes) -> Descriptor:
    """Descriptor of a pool with the same padding on both sides; NaN wins a maximum."""
    made = Descriptor(library, "Pooling")
    library.call(
        "cudnnSetPoolingNdDescriptor",
        made.handle,
        mode,
        _PROPAGATE_NAN,
        len(kernel),
        ints(kernel),
        ints(begin),
        ints(strides),
    )
    return made


def activation(library: Cudnn, mode: int, coefficient: float = 0.0) -> Descriptor:
    """Descriptor of an activation; NaN stays NaN."""
    made = Descriptor(library, "Activation")
    library.call("cudnnSetActivationDescriptor", made.handle, mode, _PROPAGATE_NAN, coefficient)
    return made
