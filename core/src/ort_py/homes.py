"""The module of each public name: a table from which `ort_py` imports names at their first use.

A leaf, data only. A new public name must be added here and to the imports of `ort_py` for type checkers.
"""

from __future__ import annotations

from collections.abc import Mapping

HOMES: Mapping[str, str] = {
    "ort_py.api.session": "InferenceSession",
    "ort_py.fallback.policy": "SessionState",
    "ort_py.api.compiling": "CompileReport compile_model",
    "ort_py.api.session_manager": "SessionLease SessionManager SessionManagerStats",
    "ort_py.inspection.fingerprint": "Fingerprint",
    "ort_py.inspection.warmup": "WarmedShape WarmupReport",
    "ort_py.inspection.selection_explanation": "explain_selection",
    "ort_py.discovery.explanation": "SelectionExplanation",
    "ort_py.inspection.calibration": "calibrate",
    "ort_py.inspection.tuning": "TuningReport tune",
    "ort_py.options": "RunOptions SessionOptions",
    "ort_py.values.ort_value": "OrtValue",
    "ort_py.values.copying": "copy_tensors",
    "ort_py.api.io_binding": "IOBinding",
    "ort_py.api.session_io_binding": "SessionIOBinding",
    "ort_py.values.device": "OrtDevice",
    "ort_py.values.device_table": "OrtDeviceVendorId",
    "ort_py.values.memory_info": (
        "OrtArenaCfg OrtMemoryInfo create_and_register_allocator create_and_register_allocator_v2"
    ),
    "ort_py.values.sparse": "SparseTensor",
    "ort_py.engine.metadata": "ModelMetadata NodeArg",
    "ort_py.inspection.placement": "NodePlacement Placement",
    "ort_py.enums": "ExecutionMode ExecutionOrder GraphOptimizationLevel OrtExecutionProviderDevicePolicy",
    "ort_py.value_enums": (
        "OrtAllocatorType OrtCompileApiFlags OrtDeviceMemoryType OrtHardwareDeviceType OrtMemType "
        "OrtMemoryInfoDeviceType OrtSparseFormat"
    ),
    "ort_py.discovery": (
        "ProviderRecord RecordState get_all_providers get_available_providers get_installed_providers "
        "get_provider_records register_provider"
    ),
    "ort_py.compat.environment": (
        "disable_telemetry_events enable_telemetry_events get_build_info get_device get_version_string "
        "has_collective_ops print_debug_info set_default_logger_severity set_default_logger_verbosity "
        "set_global_thread_pool_sizes set_seed"
    ),
    "ort_py.compat.preloading": "preload_dlls",
    "ort_py.discovery.ep_devices": (
        "OrtEpDevice OrtHardwareDevice OrtSyncStream get_ep_devices register_execution_provider_library "
        "unregister_execution_provider_library"
    ),
    "ort_py.compat.graph_assignment": "OrtEpAssignedNode OrtEpAssignedSubgraph",
    "ort_py.options.ep_context": "OrtEpContextData OrtEpContextDataBuffer",
    "ort_py.compat.adapters": "AdapterFormat LoraAdapter",
    "ort_py.compat.model_compiler": "ModelCompiler OrtExternalInitializerInfo",
    "ort_py.inspection.comparison.compare": "compare",
    "ort_py.inspection.comparison.bisection": "bisect",
    "ort_py.inspection.comparison.report": "BisectionReport ComparisonReport",
    "ort_py.inspection.comparison.configuration": "SessionConfiguration",
    "ort_py.compat.alias": "install_as_onnxruntime",
    "ort_py.limits": "Limits",
    "ort_py.errors": (
        "AbsentInputError ArgumentTypeError BindingError CompiledModelError DanglingInputError DeviceReset "
        "EPFail EngineError ExecutionError Fail InconsistentGraph InvalidArgument InvalidGraph InvalidProtobuf "
        "KernelConflictError KernelInputError KernelNotFoundError LimitError MemoryLimitError MissingInputError "
        "ModelLoadCanceled ModelLoaded ModelRequiresCompilation NoModel NoSuchFile NotFound NotImplemented NotYetError "
        "OptionError OrtPyError PluginError ProviderFallbackWarning ProviderNotAvailableError "
        "ProviderNotFoundError RunTimeoutError RuntimeException UsageError"
    ),
}
"""Names, separated by spaces, by the module that has them."""
