"""The door to libcudnn's older calls: their signatures, the check of every status, and this library's handles.

Pure ctypes: pointers and streams are integers, arrays are unknown. `descriptors` and `legacy` are built on it.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_size_t, c_uint32, c_ulonglong, c_void_p
from functools import cache
from typing import Any

from ort_py.errors import EPFail
from ort_py_cuda import libraries
from ort_py_cuda.cudnn.errors import CudnnError, Unsupported, is_refusal
from ort_py_cuda.cudnn.handles import Handles

__all__ = ["AlgorithmPerformance", "Cudnn", "cudnn", "missing_library"]

_INTS = POINTER(c_int)
_SIZE = POINTER(c_size_t)
_OUT = POINTER(c_void_p)
_SCALAR = POINTER(c_float)
_H = c_void_p  # handles, descriptors and addresses of the device are all opaque


class AlgorithmPerformance(ctypes.Structure):
    """``cudnnConvolutionFwdAlgoPerf_t`` and that of the backward calls, which have one layout."""

    _fields_ = (
        ("algo", c_int),
        ("status", c_int),
        ("time", c_float),
        ("memory", c_size_t),
        ("determinism", c_int),
        ("math_type", c_int),
        ("reserved", c_int * 3),
    )


_PERFORMANCE = POINTER(AlgorithmPerformance)

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cudnnCreate": (_OUT,),
    "cudnnDestroy": (_H,),
    "cudnnSetStream": (_H, _H),
    "cudnnSetTensorNdDescriptor": (_H, c_int, c_int, _INTS, _INTS),
    "cudnnSetFilterNdDescriptor": (_H, c_int, c_int, c_int, _INTS),
    "cudnnSetConvolutionNdDescriptor": (_H, c_int, _INTS, _INTS, _INTS, c_int, c_int),
    "cudnnSetConvolutionGroupCount": (_H, c_int),
    "cudnnSetConvolutionMathType": (_H, c_int),
    "cudnnSetPoolingNdDescriptor": (_H, c_int, c_int, c_int, _INTS, _INTS, _INTS),
    "cudnnSetActivationDescriptor": (_H, c_int, c_int, c_double),
    "cudnnPoolingForward": (_H, _H, _SCALAR, _H, _H, _SCALAR, _H, _H),
    "cudnnActivationForward": (_H, _H, _SCALAR, _H, _H, _SCALAR, _H, _H),
    "cudnnAddTensor": (_H, _SCALAR, _H, _H, _SCALAR, _H, _H),
    "cudnnBatchNormalizationForwardInference": (
        *(_H, c_int, _SCALAR, _SCALAR, _H, _H, _H, _H),
        *(_H, _H, _H, _H, _H, c_double),
    ),
    "cudnnConvolutionForward": (_H, _SCALAR, _H, _H, _H, _H, _H, c_int, _H, c_size_t, _SCALAR, _H, _H),
    "cudnnConvolutionBackwardData": (_H, _SCALAR, _H, _H, _H, _H, _H, c_int, _H, c_size_t, _SCALAR, _H, _H),
    "cudnnGetConvolutionForwardAlgorithm_v7": (_H, _H, _H, _H, _H, c_int, _INTS, _PERFORMANCE),
    "cudnnGetConvolutionBackwardDataAlgorithm_v7": (_H, _H, _H, _H, _H, c_int, _INTS, _PERFORMANCE),
    "cudnnFindConvolutionForwardAlgorithmEx": (
        *(_H, _H, _H, _H, _H, _H, _H, _H),
        *(c_int, _INTS, _PERFORMANCE, _H, c_size_t),
    ),
    "cudnnFindConvolutionBackwardDataAlgorithmEx": (
        *(_H, _H, _H, _H, _H, _H, _H, _H),
        *(c_int, _INTS, _PERFORMANCE, _H, c_size_t),
    ),
    "cudnnGetConvolutionForwardWorkspaceSize": (_H, _H, _H, _H, _H, c_int, _SIZE),
    "cudnnGetConvolutionBackwardDataWorkspaceSize": (_H, _H, _H, _H, _H, c_int, _SIZE),
    "cudnnDropoutGetStatesSize": (_H, _SIZE),
    "cudnnSetDropoutDescriptor": (_H, _H, c_float, _H, c_size_t, c_ulonglong),
    "cudnnSetRNNDescriptor_v8": (
        *(_H, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int),
        *(c_int32, c_int32, c_int32, c_int32, _H, c_uint32),
    ),
    "cudnnSetRNNDataDescriptor": (_H, c_int, c_int, c_int, c_int, c_int, _INTS, _H),
    "cudnnGetRNNWeightSpaceSize": (_H, _H, _SIZE),
    "cudnnGetRNNWeightParams": (_H, _H, c_int32, c_size_t, _H, c_int32, _H, _OUT, _H, _OUT),
    "cudnnGetRNNTempSpaceSizes": (_H, _H, c_int, _H, _SIZE, _SIZE),
    "cudnnRNNForward": (
        *(_H, _H, c_int, _H, _H, _H, _H, _H),
        *(_H, _H, _H, _H, _H, _H),
        *(c_size_t, _H, c_size_t, _H, c_size_t, _H),
    ),
    **{f"cudnnCreate{kind}Descriptor": (_OUT,) for kind in (*("Tensor", "Filter", "Convolution", "Pooling"), "RNN")},
    **{f"cudnnDestroy{kind}Descriptor": (_H,) for kind in (*("Tensor", "Filter", "Convolution", "Pooling"), "RNN")},
    **{
        f"cudnn{verb}{kind}Descriptor": (_OUT if verb == "Create" else _H,)
        for verb in ("Create", "Destroy")
        for kind in ("Activation", "Dropout", "RNNData")
    },
}

_NO_MEMORY = frozenset({4003, 4004})
"""``CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED`` and that of the device."""


class Cudnn:
    """libcudnn with checked calls.

    Args:
        library: The loaded library, or what stands in for it.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        self._functions: dict[str, Any] = {}
        self.handles = Handles(self._create, self._destroy, self._set_stream)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of `_SIGNATURES`.

        Raises:
            Unsupported: It has no implementation for these descriptors.
            MemoryError: It found memory short.
            CudnnError: Any other status but success, with the library's own words.
        """
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._declared(name)
        status = function(*arguments)
        if status:
            raise self._failure(name, status)

    def _declared(self, name: str) -> Any:
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise Unsupported(
                f"The installed cuDNN has no function {name}.", fix="Install nvidia-cudnn-cu13 or -cu12, version 9."
            ) from error
        function.argtypes = _SIGNATURES[name]
        function.restype = c_int
        return function

    def _failure(self, name: str, status: int) -> Exception:
        words = [f"{self._words_for(status)} ({status})", self._last_words()]
        if status in _NO_MEMORY:
            return MemoryError(f"{name}: {'; '.join(word for word in words if word)}")
        kind = Unsupported if is_refusal(status) else CudnnError
        error = kind(
            f"{name} failed.",
            why=words,
            fix="Check the device (nvidia-smi) and that nvidia-cudnn belongs to the installed CUDA version.",
        )
        error.status = status
        return error

    def _words_for(self, status: int) -> str:
        function = self._library.cudnnGetErrorString
        function.argtypes, function.restype = (c_int,), c_char_p
        return str((function(status) or b"").decode(errors="replace"))

    def _last_words(self) -> str:
        function = self._library.cudnnGetLastErrorString
        function.argtypes, function.restype = (c_char_p, c_size_t), None
        text = ctypes.create_string_buffer(2048)
        function(text, len(text))
        return text.value.decode(errors="replace").strip()

    def _create(self) -> c_void_p:
        handle = c_void_p()
        self.call("cudnnCreate", ctypes.byref(handle))
        return handle

    def _destroy(self, handle: c_void_p) -> None:
        self.call("cudnnDestroy", handle)

    def _set_stream(self, handle: c_void_p, stream: int) -> None:
        self.call("cudnnSetStream", handle, stream)


def cudnn() -> Cudnn:
    """The library of this process.

    Raises:
        EPFail: It cannot be loaded; says where it was looked for and what brings it.
    """
    return _opened()


@cache
def _opened() -> Cudnn:
    return Cudnn(libraries.load("cudnn"))


def missing_library() -> str | None:
    """Explain why the library cannot be loaded, or return None. Loads it, which needs no device."""
    try:
        cudnn()
    except EPFail as error:
        return "; ".join((error.what, *error.why))
    return None
