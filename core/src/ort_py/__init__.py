"""ort-py: an ONNX runtime whose execution providers are pip packages.

``import ort_py as ort`` stands in for ``import onnxruntime as ort``. Next to nothing runs at import: an onnx that is
too old is refused, names are loaded when they are first used, no plug-in is looked for, no environment variable is
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.homes import HOMES
from ort_py.lazy_names import lazy_names
from ort_py.onnx_version import refuse_older

refuse_older()

__version__ = "0.1.0"

version = __version__
package_name = "ort-py"
cuda_version = ""
"""onnxruntime's names for what a build is; nothing is built here."""

if TYPE_CHECKING:
    from ort_py.api.io_binding import IOBinding
    from ort_py.api.session import InferenceSession
    from ort_py.api.session_io_binding import SessionIOBinding
    from ort_py.api.session_manager import SessionLease, SessionManager, SessionManagerStats
    from ort_py.compat.adapters import AdapterFormat, LoraAdapter
    from ort_py.compat.alias import install_as_onnxruntime
    from ort_py.compat.environment import (
        disable_telemetry_events,
        enable_telemetry_events,
        get_build_info,
        get_device,
        get_version_string,
        has_collective_ops,
        print_debug_info,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_global_thread_pool_sizes,
        set_seed,
    )
    from ort_py.compat.graph_assignment import (
        OrtEpAssignedNode,
        OrtEpAssignedSubgraph,
    )
    from ort_py.compat.model_compiler import ModelCompiler, OrtExternalInitializerInfo
    from ort_py.compat.preloading import preload_dlls
    from ort_py.discovery import (
        ProviderRecord,
        RecordState,
        get_all_providers,
        get_available_providers,
        get_installed_providers,
        get_provider_records,
        register_provider,
    )
    from ort_py.discovery.ep_devices import (
        OrtEpDevice,
        OrtHardwareDevice,
        OrtSyncStream,
        get_ep_devices,
        register_execution_provider_library,
        unregister_execution_provider_library,
    )
    from ort_py.discovery.explanation import SelectionExplanation
    from ort_py.engine.metadata import ModelMetadata, NodeArg
    from ort_py.enums import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        OrtAllocatorType,
        OrtCompileApiFlags,
        OrtDeviceMemoryType,
        OrtExecutionProviderDevicePolicy,
        OrtHardwareDeviceType,
        OrtMemoryInfoDeviceType,
        OrtMemType,
        OrtSparseFormat,
    )
    from ort_py.errors import (
        AbsentInputError,
        ArgumentTypeError,
        BindingError,
        DanglingInputError,
        DeviceReset,
        EngineError,
        EPFail,
        ExecutionError,
        Fail,
        InconsistentGraph,
        InvalidArgument,
        InvalidGraph,
        InvalidProtobuf,
        KernelConflictError,
        KernelInputError,
        KernelNotFoundError,
        LimitError,
        MemoryLimitError,
        MissingInputError,
        ModelLoadCanceled,
        ModelLoaded,
        ModelRequiresCompilation,
        NoModel,
        NoSuchFile,
        NotFound,
        NotImplemented,  # noqa: A004 - onnxruntime's public name
        NotYetError,
        OptionError,
        OrtPyError,
        PluginError,
        ProviderFallbackWarning,
        ProviderNotAvailableError,
        ProviderNotFoundError,
        RuntimeException,
        RunTimeoutError,
        UsageError,
    )
    from ort_py.fallback.states import SessionState
    from ort_py.inspection.calibration import calibrate
    from ort_py.inspection.comparison.bisection import bisect
    from ort_py.inspection.comparison.bisection_report import BisectionReport
    from ort_py.inspection.comparison.compare import compare
    from ort_py.inspection.comparison.configuration import SessionConfiguration
    from ort_py.inspection.comparison.report import ComparisonReport
    from ort_py.inspection.fingerprint import Fingerprint
    from ort_py.inspection.placement import NodePlacement, Placement
    from ort_py.inspection.selection_explanation import explain_selection
    from ort_py.inspection.tuning import tune
    from ort_py.inspection.tuning_report import TuningReport
    from ort_py.inspection.warmup import WarmedShape, WarmupReport
    from ort_py.limits import Limits
    from ort_py.options import RunOptions, SessionOptions
    from ort_py.options.ep_context import (
        OrtEpContextData,
        OrtEpContextDataBuffer,
    )
    from ort_py.values.copying import copy_tensors
    from ort_py.values.device import OrtDevice
    from ort_py.values.device_table import OrtDeviceVendorId
    from ort_py.values.memory_info import (
        OrtArenaCfg,
        OrtMemoryInfo,
        create_and_register_allocator,
        create_and_register_allocator_v2,
    )
    from ort_py.values.ort_value import OrtValue
    from ort_py.values.sparse import SparseTensor

# Where each public name lives, by group: sessions, values and metadata, enumerations, providers, limits, errors.
__all__ = [
    "AbsentInputError",
    "AdapterFormat",
    "ArgumentTypeError",
    "BindingError",
    "BisectionReport",
    "ComparisonReport",
    "DanglingInputError",
    "DeviceReset",
    "EPFail",
    "EngineError",
    "ExecutionError",
    "ExecutionMode",
    "ExecutionOrder",
    "Fail",
    "Fingerprint",
    "GraphOptimizationLevel",
    "IOBinding",
    "InconsistentGraph",
    "InferenceSession",
    "InvalidArgument",
    "InvalidGraph",
    "InvalidProtobuf",
    "KernelConflictError",
    "KernelInputError",
    "KernelNotFoundError",
    "LimitError",
    "Limits",
    "LoraAdapter",
    "MemoryLimitError",
    "MissingInputError",
    "ModelCompiler",
    "ModelLoadCanceled",
    "ModelLoaded",
    "ModelMetadata",
    "ModelRequiresCompilation",
    "NoModel",
    "NoSuchFile",
    "NodeArg",
    "NodePlacement",
    "NotFound",
    "NotImplemented",
    "NotYetError",
    "OptionError",
    "OrtAllocatorType",
    "OrtArenaCfg",
    "OrtCompileApiFlags",
    "OrtDevice",
    "OrtDeviceMemoryType",
    "OrtDeviceVendorId",
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
    "OrtPyError",
    "OrtSparseFormat",
    "OrtSyncStream",
    "OrtValue",
    "Placement",
    "PluginError",
    "ProviderFallbackWarning",
    "ProviderNotAvailableError",
    "ProviderNotFoundError",
    "ProviderRecord",
    "RecordState",
    "RunOptions",
    "RunTimeoutError",
    "RuntimeException",
    "SelectionExplanation",
    "SessionConfiguration",
    "SessionIOBinding",
    "SessionLease",
    "SessionManager",
    "SessionManagerStats",
    "SessionOptions",
    "SessionState",
    "SparseTensor",
    "TuningReport",
    "UsageError",
    "WarmedShape",
    "WarmupReport",
    "__version__",
    "bisect",
    "calibrate",
    "compare",
    "copy_tensors",
    "create_and_register_allocator",
    "create_and_register_allocator_v2",
    "cuda_version",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "explain_selection",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_ep_devices",
    "get_installed_providers",
    "get_provider_records",
    "get_version_string",
    "has_collective_ops",
    "install_as_onnxruntime",
    "package_name",
    "preload_dlls",
    "print_debug_info",
    "register_execution_provider_library",
    "register_provider",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
    "tune",
    "unregister_execution_provider_library",
    "version",
]


if not TYPE_CHECKING:  # a type checker that saw this would take every misspelt name for one of ort_py's
    # onnxruntime's own module imports its `capi`; here it is loaded when it is asked for.
    __getattr__, __dir__ = lazy_names(globals(), HOMES, {"capi": "ort_py.capi"})
