"""The C functions of libcublasLt, by ctypes: each call checked, each failure an error with the library's own words.

Works on integer device pointers and integer stream handles, and imports no CuPy; in tests any object with the library's
functions serves in its place. Comes before `plans`, which keeps what is made here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from enum import IntEnum
from typing import Any

from ort_py.errors import EPFail

__all__ = [
    "NOT_SUPPORTED",
    "Algorithm",
    "CublasLt",
    "CublasLtError",
    "DescField",
    "HeuristicResult",
    "LayoutField",
    "PreferenceField",
]


class CublasLtError(EPFail):
    """A call of cuBLASLt failed.

    Attributes:
        status: ``cublasStatus_t``.
    """

    def __init__(self, what: str, *, status: int, why: str, fix: str) -> None:
        super().__init__(what, where="cuBLASLt", why=why, fix=fix)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, (self.what, self.status, self.why[0] if self.why else "", self.fix))


def _rebuilt(what: str, status: int, why: str, fix: str) -> CublasLtError:
    return CublasLtError(what, status=status, why=why, fix=fix)


class Algorithm(ctypes.Structure):
    """``cublasLtMatmulAlgo_t``: opaque."""

    _fields_ = (("data", c_uint64 * 8),)


class HeuristicResult(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``."""

    _fields_ = (
        ("algo", Algorithm),
        ("workspace_size", c_size_t),
        ("state", c_int),
        ("waves_count", c_float),
        ("reserved", c_int * 4),
    )


class DescField(IntEnum):
    """``cublasLtMatmulDescAttributes_t``, the ones that are set."""

    TRANSA = 3
    TRANSB = 4
    EPILOGUE = 7
    BIAS_POINTER = 8
    A_SCALE_POINTER = 17
    B_SCALE_POINTER = 18


class LayoutField(IntEnum):
    """``cublasLtMatrixLayoutAttribute_t``, the ones that are set."""

    BATCH_COUNT = 5
    STRIDED_BATCH_OFFSET = 6


class PreferenceField(IntEnum):
    """``cublasLtMatmulPreferenceAttributes_t``, the ones that are set."""

    MAX_WORKSPACE_BYTES = 1
    REDUCTION_SCHEME_MASK = 3
    MIN_ALIGNMENT_A_BYTES = 5
    MIN_ALIGNMENT_B_BYTES = 6
    MIN_ALIGNMENT_C_BYTES = 7
    MIN_ALIGNMENT_D_BYTES = 8


_OUT_OF_MEMORY = 3
NOT_SUPPORTED = 15
"""``CUBLAS_STATUS_NOT_SUPPORTED``: no algorithm serves a problem."""

_FIXES = {
    1: "Check that the driver sees the device (nvidia-smi) and that it is not older than the libraries "
    "(`ort-py doctor`).",
    _OUT_OF_MEMORY: "Free memory of the device: a smaller batch, a lower gpu_mem_limit elsewhere, or session.trim().",
    7: "Report this with the model: a size or pointer was refused that should not have been asked for.",
    8: "The device lacks what the product needs; use another element type, or a device of a newer architecture.",
    13: "An earlier kernel may have failed: run once with CUDA_LAUNCH_BLOCKING=1 to see which.",
    NOT_SUPPORTED: "Use another element type, or report this with the model: no algorithm serves these sizes.",
}
_NAMES = {
    0: "CUBLAS_STATUS_SUCCESS",
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
    16: "CUBLAS_STATUS_LICENSE_ERROR",
}

_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cublasLtCreate": (POINTER(c_void_p),),
    "cublasLtDestroy": (c_void_p,),
    "cublasLtMatmulDescCreate": (POINTER(c_void_p), c_int, c_int),
    "cublasLtMatmulDescDestroy": (c_void_p,),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatrixLayoutCreate": (POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatrixLayoutDestroy": (c_void_p,),
    "cublasLtMatrixLayoutSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulPreferenceCreate": (POINTER(c_void_p),),
    "cublasLtMatmulPreferenceDestroy": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulAlgoGetHeuristic": (
        *(c_void_p,) * 7,
        c_int,
        POINTER(HeuristicResult),
        POINTER(c_int),
    ),
    "cublasLtMatmul": (
        c_void_p,  # handle
        c_void_p,  # description
        c_void_p,  # alpha
        c_void_p,  # A
        c_void_p,
        c_void_p,  # B
        c_void_p,
        c_void_p,  # beta
        c_void_p,  # C
        c_void_p,
        c_void_p,  # D
        c_void_p,
        POINTER(Algorithm),
        c_void_p,  # workspace
        c_size_t,
        c_void_p,  # stream
    ),
}


class CublasLt:
    """libcublasLt with its functions typed and checked.

    Args:
        library: The loaded library, or something that has its functions.
    """

    def __init__(self, library: Any) -> None:
        self._functions: dict[str, Callable[..., int]] = {}
        for name, arguments in _PROTOTYPES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, c_int
            self._functions[name] = function
        self._text = library.cublasLtGetStatusString
        self._text.argtypes, self._text.restype = (c_int,), c_char_p
        self._version = library.cublasLtGetVersion
        self._version.argtypes, self._version.restype = (), c_size_t
        self.matmul = self._functions["cublasLtMatmul"]
        """The product itself, unchecked: its caller hands the status to `check`."""

    @property
    def version(self) -> str:
        """Version of the library, e.g. ``"13.10.0"``."""
        number = int(self._version())
        major, rest = divmod(number, 10000)  # 13.10.0 is 131000
        return f"{major}.{rest // 100}.{rest % 100}"

    def check(self, status: int, call: str) -> None:
        """Raise what a status means.

        Raises:
            MemoryError: The library found memory short: the core trims and tries once more.
            CublasLtError: Anything else but success.
        """
        if status == 0:
            return
        text = self._text(status)
        said = text.decode(errors="replace") if isinstance(text, bytes) else "no text"
        name = _NAMES.get(status, f"status {status}")
        if status == _OUT_OF_MEMORY:
            raise MemoryError(f"{call}: {name}: {said}. {_FIXES[status]}")
        fix = _FIXES.get(status, "Run `ort-py doctor`, which compares driver, device and libraries.")
        raise CublasLtError(f"{call} failed.", status=status, why=f"{name}: {said}", fix=fix)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function and check its status."""
        self.check(self._functions[name](*arguments), name)

    def _made(self, name: str, *arguments: Any) -> int:
        pointer = c_void_p()
        self.call(name, byref(pointer), *arguments)
        return pointer.value or 0

    def create_handle(self) -> int:
        """A handle on the current device. It may be used from any thread."""
        return self._made("cublasLtCreate")

    def create_description(self, compute: int, scale: int) -> int:
        """A ``cublasLtMatmulDesc_t``."""
        return self._made("cublasLtMatmulDescCreate", compute, scale)

    def create_layout(self, kind: int, rows: int, columns: int, ld: int) -> int:
        """A ``cublasLtMatrixLayout_t`` of a column-major matrix."""
        return self._made("cublasLtMatrixLayoutCreate", kind, rows, columns, ld)

    def create_preference(self) -> int:
        """A ``cublasLtMatmulPreference_t``."""
        return self._made("cublasLtMatmulPreferenceCreate")

    def _set(self, name: str, target: int, field: int, value: ctypes._SimpleCData[Any]) -> None:
        self.call(name, target, int(field), byref(value), ctypes.sizeof(value))

    def set_description(self, target: int, field: DescField, value: int) -> None:
        """Set an attribute; pointers are 8 bytes, the others 4."""
        pointer = field in (DescField.BIAS_POINTER, DescField.A_SCALE_POINTER, DescField.B_SCALE_POINTER)
        self._set("cublasLtMatmulDescSetAttribute", target, field, c_uint64(value) if pointer else c_int32(value))

    def set_layout(self, target: int, field: LayoutField, value: int) -> None:
        """Set an attribute: the count has 4 bytes, the offset 8."""
        count = field is LayoutField.BATCH_COUNT
        self._set("cublasLtMatrixLayoutSetAttribute", target, field, c_int32(value) if count else c_int64(value))

    def set_preference(self, target: int, field: PreferenceField, value: int) -> None:
        """Set an attribute: the size of the workspace has 8 bytes, all else 4."""
        size = field is PreferenceField.MAX_WORKSPACE_BYTES
        self._set("cublasLtMatmulPreferenceSetAttribute", target, field, c_uint64(value) if size else c_uint32(value))

    def heuristic(
        self, handle: int, description: int, layouts: tuple[int, int, int], preference: int
    ) -> HeuristicResult:
        """The algorithm that the library thinks best.

        Args:
            handle: Of the device.
            description: What is computed.
            layouts: Of A, of B, and of C and D.
            preference: Workspace and alignments.

        Raises:
            CublasLtError: It has none.
        """
        result, found = HeuristicResult(), c_int()
        a, b, c = layouts
        name = "cublasLtMatmulAlgoGetHeuristic"
        self.call(name, handle, description, a, b, c, c, preference, 1, byref(result), byref(found))
        if found.value < 1 or result.state:
            self.check(result.state or NOT_SUPPORTED, name)
        return result
