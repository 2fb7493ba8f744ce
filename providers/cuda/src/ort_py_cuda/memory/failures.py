"""Classification of CUDA's errors: short memory, a lost device, or an error of the work.

CUDA keeps an error of a kernel and gives it to every later call; the context is of no use then ("sticky"). It contains
error numbers of the CUDA runtime and driver, and does not depend on sessions.
"""

from __future__ import annotations

from ort_py.contracts import FailureKind

__all__ = ["LOST", "OUT_OF_MEMORY", "failure_kind", "status_of"]

OUT_OF_MEMORY = frozenset({2})
"""cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY."""

LOST = frozenset(
    {
        46,  # cudaErrorDevicesUnavailable: another process has the device for itself
        100,  # cudaErrorNoDevice
        101,  # cudaErrorInvalidDevice
        201,  # cudaErrorDeviceUninitialized: somebody reset the device
        214,  # cudaErrorECCUncorrectable
        220,  # cudaErrorNvlinkUncorrectable
        226,  # cudaErrorContained: an error of memory that ended this process's work
        700,  # cudaErrorIllegalAddress
        702,  # cudaErrorLaunchTimeout: the system's watch ended a kernel
        709,  # cudaErrorContextIsDestroyed
        710,  # cudaErrorAssert
        713,  # cudaErrorTensorMemoryLeak
        714,  # cudaErrorHardwareStackError
        715,  # cudaErrorIllegalInstruction
        716,  # cudaErrorMisalignedAddress
        717,  # cudaErrorInvalidAddressSpace
        718,  # cudaErrorInvalidPc
        719,  # cudaErrorLaunchFailure
        802,  # cudaErrorSystemNotReady
        806,  # cudaErrorMpsConnectionFailed
        807,  # cudaErrorMpsRpcFailure
        808,  # cudaErrorMpsServerNotReady
        999,  # cudaErrorUnknown
    }
)
"""Errors after which the context computes nothing any more; the runtime's and the driver's numbers are the same."""

_LIBRARY_ALLOCATION = frozenset(
    {"CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUFFT_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED"}
)
"""What NVIDIA's libraries say in their errors' texts where memory is short."""


def status_of(error: BaseException) -> int | None:
    """The number of a CUDA error as CuPy raises it (``CUDARuntimeError``, ``CUDADriverError``), None for others."""
    status = getattr(error, "status", None)
    named = type(error).__name__ in {"CUDARuntimeError", "CUDADriverError"}
    return status if named and isinstance(status, int) else None


def failure_kind(error: BaseException) -> FailureKind | None:
    """Classify an exception. None if it is not one of CUDA's. Causes are searched too."""
    seen: BaseException | None = error
    for _ in range(8):  # a chain of causes may be a ring
        if seen is None:
            return None
        if isinstance(seen, MemoryError):
            return FailureKind.OUT_OF_MEMORY
        status = status_of(seen)
        if status is not None:
            if status in OUT_OF_MEMORY:
                return FailureKind.OUT_OF_MEMORY
            return FailureKind.DEVICE_LOST if status in LOST else FailureKind.FAILED
        if any(name in str(seen) for name in _LIBRARY_ALLOCATION):
            return FailureKind.OUT_OF_MEMORY
        seen = seen.__cause__ or seen.__context__
    return None
