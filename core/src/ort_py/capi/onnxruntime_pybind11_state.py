"""The names of onnxruntime's C++ binding, above all its exception classes: the very classes that ort-py raises.

Names are looked up when they are asked for, so that
``from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument`` loads no engine. After `api` and
`low_level`; makes nothing of its own.
"""

from __future__ import annotations

from ort_py.lazy_names import lazy_names

_HOMES = {
    "ort_py.errors": (
        "DeviceReset EngineError EPFail Fail InvalidArgument InvalidGraph InvalidProtobuf ModelLoadCanceled "
        "ModelLoaded ModelRequiresCompilation NoModel NoSuchFile NotFound NotImplemented RuntimeException"
    ),
    "ort_py": (
        "AdapterFormat ExecutionMode ExecutionOrder GraphOptimizationLevel InferenceSession LoraAdapter ModelCompiler "
        "ModelMetadata NodeArg OrtAllocatorType OrtArenaCfg OrtCompileApiFlags OrtDevice OrtDeviceMemoryType "
        "OrtEpAssignedNode OrtEpAssignedSubgraph OrtEpContextData OrtEpContextDataBuffer OrtEpDevice "
        "OrtExecutionProviderDevicePolicy OrtExternalInitializerInfo OrtHardwareDevice OrtHardwareDeviceType "
        "OrtMemType OrtMemoryInfo OrtMemoryInfoDeviceType OrtSparseFormat OrtSyncStream OrtValue RunOptions "
        "SessionIOBinding SessionOptions SparseTensor copy_tensors create_and_register_allocator "
        "create_and_register_allocator_v2 disable_telemetry_events enable_telemetry_events get_all_providers "
        "get_available_providers get_build_info get_device get_ep_devices has_collective_ops "
        "register_execution_provider_library set_default_logger_severity set_default_logger_verbosity "
        "set_global_thread_pool_sizes set_seed unregister_execution_provider_library"
    ),
    "ort_py.values.vector": "OrtValueVector",
    "ort_py.values.sparse": "SparseBlockSparseView SparseCooView SparseCsrView",
    "ort_py.value_enums": "ArenaExtendStrategy OrtCompiledModelCompatibility OrtDeviceEpIncompatibilityReason",
    "ort_py.compat.emulated": "get_version_string",
    "ort_py.compat.low_level": (
        "get_all_operator_schema get_all_opkernel_def get_compatibility_info_from_model "
        "get_compatibility_info_from_model_bytes get_default_session_options "
        "get_hardware_device_ep_incompatibility_details get_hardware_devices get_model_compatibility_for_ep_devices "
        "get_registered_ep_kernel_defs is_dlpack_uint8_tensor kNextPowerOfTwo kSameAsRequested quantize_matmul_2bits "
        "quantize_matmul_4bits quantize_matmul_8bits quantize_matmul_bnb4 quantize_qdq_matmul_2bits "
        "quantize_qdq_matmul_4bits"
    ),
}

__getattr__, __dir__, __all__ = lazy_names(globals(), _HOMES)
