"""onnxruntime's enumerations, with its names and numbers.

Applications compare members with plain numbers, look them up in ``__members__``, print and pickle them; so members are
integers that print like onnxruntime's: ``OrtMemType.DEFAULT``. It is independent of what the members mean to the
engine.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class _PrintedByName(IntEnum):
    """Numbers whose text is their name: `IntEnum` prints the number since Python 3.11."""

    __str__ = Enum.__str__
    __format__ = Enum.__format__


class GraphOptimizationLevel(_PrintedByName):
    """The extent to which the graph is optimised before it runs."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(_PrintedByName):
    """Whether independent branches may run at once."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(_PrintedByName):
    """In which of the valid orders nodes run."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class OrtAllocatorType(_PrintedByName):
    """Kind of allocator: whether it keeps memory that is given back."""

    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(_PrintedByName):
    """The purpose of memory: for a device's own kernels, or for their exchange with the host."""

    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(_PrintedByName):
    """Kind of memory on a device."""

    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(_PrintedByName):
    """Kind of device that memory belongs to; `OrtHardwareDeviceType` numbers them differently."""

    CPU = 0
    GPU = 1
    NPU = 3
    FPGA = 2


class OrtSparseFormat(_PrintedByName):
    """The way in which a sparse tensor stores the places of its values."""

    ORT_SPARSE_UNDEFINED = 0
    ORT_SPARSE_COO = 1
    ORT_SPARSE_CSRC = 2
    ORT_SPARSE_BLOCK_SPARSE = 4


class OrtHardwareDeviceType(_PrintedByName):
    """Kind of a piece of hardware; `OrtMemoryInfoDeviceType` numbers them differently."""

    CPU = 0
    GPU = 1
    NPU = 2


class OrtExecutionProviderDevicePolicy(_PrintedByName):
    """By what a session chooses its providers where none is named."""

    DEFAULT = 0
    PREFER_CPU = 1
    PREFER_NPU = 2
    PREFER_GPU = 3
    MAX_PERFORMANCE = 4
    MAX_EFFICIENCY = 5
    MIN_OVERALL_POWER = 6


class OrtCompileApiFlags(_PrintedByName):
    """Refusals of `ModelCompiler`; flags are combined with ``|``."""

    NONE = 0
    ERROR_IF_NO_NODES_COMPILED = 1
    ERROR_IF_OUTPUT_FILE_EXISTS = 2


class ArenaExtendStrategy(_PrintedByName):
    """By how much an arena grows."""

    kNextPowerOfTwo = 0  # noqa: N815 - onnxruntime's spelling
    kSameAsRequested = 1  # noqa: N815


class OrtCompiledModelCompatibility(_PrintedByName):
    """Whether a compiled model fits a device."""

    EP_NOT_APPLICABLE = 0
    EP_SUPPORTED_OPTIMAL = 1
    EP_SUPPORTED_PREFER_RECOMPILATION = 2
    EP_UNSUPPORTED = 3


class OrtDeviceEpIncompatibilityReason(_PrintedByName):
    """The reason why a provider cannot use a device."""

    NONE = 0
    DRIVER_INCOMPATIBLE = 1
    DEVICE_INCOMPATIBLE = 2
    MISSING_DEPENDENCY = 4
    UNKNOWN = -2147483648
