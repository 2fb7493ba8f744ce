"""The names of onnxruntime's C++ binding, above all its exception classes: the very classes that ort-py raises.

Exception classes are here at once; everything else is looked up when it is asked for, so that
``from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument`` loads no engine. After `api` and
`low_level`; makes nothing of its own.
"""

from __future__ import annotations

import importlib
from typing import Any

from ort_py.errors import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,  # noqa: A004 - onnxruntime's name
    RuntimeException,
)

_HOMES: dict[str, tuple[str, ...]] = {
    "ort_py": (
        "AdapterFormat",
        "ExecutionMode",
        "ExecutionOrder",
        "GraphOptimizationLevel",
        "InferenceSession",
        "LoraAdapter",
        "ModelCompiler",
        "ModelMetadata",
        "NodeArg",
        "OrtAllocatorType",
        "OrtArenaCfg",
        "OrtCompileApiFlags",
        "OrtDevice",
        "OrtDeviceMemoryType",
        "OrtEpAssignedNode",
        "OrtEpAssignedSubgraph",
        "OrtEpContextData",
        "OrtEpContextDataBuffer",
        "OrtEpDevice",
        "OrtExecutionProviderDevicePolicy",
        "OrtExternalInitializerInfo",
        "OrtHardwareDevice",
        "OrtHardwareDeviceType",
        "OrtMemType",
        "OrtMemoryInfo",
        "OrtMemoryInfoDeviceType",
        "OrtSparseFormat",
        "OrtSyncStream",
        "OrtValue",
        "RunOptions",
        "SessionIOBinding",
        "SessionOptions",
        "SparseTensor",
        "copy_tensors",
        "create_and_register_allocator",
        "create_and_register_allocator_v2",
        "disable_telemetry_events",
        "enable_telemetry_events",
        "get_all_providers",
        "get_available_providers",
        "get_build_info",
        "get_device",
        "get_ep_devices",
        "has_collective_ops",
        "register_execution_provider_library",
        "set_default_logger_severity",
        "set_default_logger_verbosity",
        "set_global_thread_pool_sizes",
        "set_seed",
        "unregister_execution_provider_library",
    ),
    "ort_py.api.values.vector": ("OrtValueVector",),
    "ort_py.api.values.sparse": ("SparseBlockSparseView", "SparseCooView", "SparseCsrView"),
    "ort_py.api.enums": ("ArenaExtendStrategy", "OrtCompiledModelCompatibility", "OrtDeviceEpIncompatibilityReason"),
    "ort_py.compat.emulated": ("get_version_string",),
    "ort_py.capi.low_level": (
        "get_all_operator_schema",
        "get_all_opkernel_def",
        "get_compatibility_info_from_model",
        "get_compatibility_info_from_model_bytes",
        "get_default_session_options",
        "get_hardware_device_ep_incompatibility_details",
        "get_hardware_devices",
        "get_model_compatibility_for_ep_devices",
        "get_registered_ep_kernel_defs",
        "is_dlpack_uint8_tensor",
        "kNextPowerOfTwo",
        "kSameAsRequested",
        "quantize_matmul_2bits",
        "quantize_matmul_4bits",
        "quantize_matmul_8bits",
        "quantize_matmul_bnb4",
        "quantize_qdq_matmul_2bits",
        "quantize_qdq_matmul_4bits",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # noqa: PLE0604 - the first names are written out, the others are those of the table
    "DeviceReset",
    "EPFail",
    "EngineError",
    "Fail",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NotFound",
    "NotImplemented",
    "RuntimeException",
    *_HOME_OF,
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
