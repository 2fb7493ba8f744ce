"""onnxruntime's enumerations of memory, devices, sparse tensors and compiled models: few sessions look at one.

Like those of `enums`, they have the names and numbers of onnxruntime.
"""

from __future__ import annotations

from ort_py.enums import PrintedByName


class OrtAllocatorType(PrintedByName):
    """Kind of allocator: whether it keeps memory that is given back."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(PrintedByName):
    """The purpose of memory: for a device's own kernels, or for their exchange with the host."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(PrintedByName):
    """Kind of memory on a device."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(PrintedByName):
    """Kind of device that memory belongs to; `OrtHardwareDeviceType` numbers them differently."""

    CPU = 0
    GPU = 1
    NPU = 3
    FPGA = 2


class OrtSparseFormat(PrintedByName):
    """The way in which a sparse tensor stores the places of its values."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtHardwareDeviceType(PrintedByName):
    """Kind of a piece of hardware; `OrtMemoryInfoDeviceType` numbers them differently."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtCompileApiFlags(PrintedByName):
    """Refusals of `ModelCompiler`; flags are combined with ``|``."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class ArenaExtendStrategy(PrintedByName):
    """By how much an arena grows."""

    kNextPowerOfTwo = 0  # noqa: N815 - onnxruntime's spelling
    kSameAsRequested = 1  # noqa: N815


class OrtCompiledModelCompatibility(PrintedByName):
    """Whether a compiled model fits a device."""

    EP_NOT_APPLICABLE = 0
    EP_SUPPORTED_OPTIMAL = 1
    EP_SUPPORTED_PREFER_RECOMPILATION = 2
    EP_UNSUPPORTED = 3


class OrtDeviceEpIncompatibilityReason(PrintedByName):
    """The reason why a provider cannot use a device."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = -2147483648
