"""The one table of vendors' names in the core: providers and provider options that onnxruntime knows.

Applications written for onnxruntime name these. A name here that is not installed is *not installed*; any other is a
misspelling. An option here that our provider does not have is accepted, ignored and reported; any other is refused or
warned about. Holds data only.
"""

from __future__ import annotations

_BRIDGE = "ort-py-onnxruntime"

KNOWN_PROVIDERS: dict[str, str | None] = {
    "NvTensorRTRTXExecutionProvider": "ort-py-tensorrt",
    "TensorrtExecutionProvider": "ort-py-tensorrt",
    "CUDAExecutionProvider": "ort-py-cuda",
    "MIGraphXExecutionProvider": _BRIDGE,
    "OpenVINOExecutionProvider": "ort-py-openvino",
    "DnnlExecutionProvider": "ort-py-onednn",
    "VitisAIExecutionProvider": _BRIDGE,
    "QNNExecutionProvider": _BRIDGE,
    "NnapiExecutionProvider": _BRIDGE,
    "VSINPUExecutionProvider": _BRIDGE,
    "JsExecutionProvider": None,
    "CoreMLExecutionProvider": "ort-py-coreml",
    "ACLExecutionProvider": _BRIDGE,
    "DmlExecutionProvider": _BRIDGE,
    "RknpuExecutionProvider": _BRIDGE,
    "WebNNExecutionProvider": None,
    "WebGpuExecutionProvider": _BRIDGE,
    "XnnpackExecutionProvider": "ort-py-xnnpack",
    "CANNExecutionProvider": _BRIDGE,
    "AzureExecutionProvider": _BRIDGE,
    "CPUExecutionProvider": "ort-py-cpu",
}
"""Every provider name of onnxruntime 1.31, in its order, with the distribution of ort-py that provides it."""

FORMER_PROVIDERS: frozenset[str] = frozenset(
    {"ArmNNExecutionProvider", "ROCMExecutionProvider", "SNPEExecutionProvider", "TvmExecutionProvider"}
)
"""Names that earlier versions of onnxruntime had. Applications still list them: not installed, but no misspelling."""


def is_known(name: str) -> bool:
    """Return whether onnxruntime knows, or once knew, a provider of this name."""
    return name in KNOWN_PROVIDERS or name in FORMER_PROVIDERS


def package_for(name: str) -> str | None:
    """The distribution of ort-py that provides a name, or None."""
    return KNOWN_PROVIDERS.get(name)


_CUDA = """
    device_id gpu_mem_limit arena_extend_strategy cudnn_conv_algo_search cudnn_conv_use_max_workspace
    cudnn_conv1d_pad_to_nc1d do_copy_in_default_stream has_user_compute_stream user_compute_stream
    default_memory_arena_cfg
    gpu_external_alloc gpu_external_free gpu_external_empty_cache enable_cuda_graph enable_skip_layer_norm_strict_mode
    tunable_op_enable tunable_op_tuning_enable tunable_op_max_tuning_duration_ms use_ep_level_unified_stream use_tf32
    prefer_nhwc prefer_nhwc_layout fuse_conv_bias sdpa_kernel
"""
_TENSORRT = """
    device_id has_user_compute_stream user_compute_stream trt_max_partition_iterations trt_min_subgraph_size
    trt_max_workspace_size trt_fp16_enable trt_bf16_enable trt_int8_enable trt_int8_calibration_table_name
    trt_int8_use_native_calibration_table trt_dla_enable trt_dla_core trt_dump_subgraphs trt_engine_cache_enable
    trt_engine_cache_path trt_engine_cache_prefix trt_engine_decryption_enable trt_engine_decryption_lib_path
    trt_force_sequential_engine_build trt_context_memory_sharing_enable trt_layer_norm_fp32_fallback
    trt_timing_cache_enable trt_timing_cache_path trt_force_timing_cache trt_detailed_build_log
    trt_build_heuristics_enable trt_sparsity_enable trt_builder_optimization_level trt_auxiliary_streams
    trt_tactic_sources trt_extra_plugin_lib_paths trt_profile_min_shapes trt_profile_max_shapes trt_profile_opt_shapes
    trt_cuda_graph_enable trt_dump_ep_context_model trt_ep_context_file_path trt_ep_context_embed_mode
    trt_weight_stripped_engine_enable trt_onnx_model_folder_path trt_engine_hw_compatible trt_preview_features
    trt_op_types_to_exclude trt_load_user_initializer nv_dump_subgraphs nv_multi_profile_enable
"""
_OPENVINO = """
    device_type device_id device_luid precision num_of_threads num_streams cache_dir load_config context
    enable_opencl_throttling enable_qdq_optimizer enable_causallm disable_dynamic_shapes model_priority reshape_input
    layout
"""
_OTHERS = """
    use_arena intra_op_num_threads ModelFormat MLComputeUnits RequireStaticInputShapes EnableOnSubgraphs
    SpecializationStrategy ProfileComputePlan AllowLowPrecisionAccumulationOnGPU ModelCacheDirectory coreml_flags
    migraphx_fp16_enable migraphx_bf16_enable migraphx_fp8_enable migraphx_int8_enable migraphx_exhaustive_tune
    migraphx_model_cache_dir migraphx_mem_limit backend_path backend_type profiling_level profiling_file_path
    rpc_control_latency vtcm_mb htp_performance_mode htp_graph_finalization_optimization_mode soc_model htp_arch
    enable_htp_fp16_precision offload_graph_io_quantization qnn_context_priority qnn_saver_path
    performance_preference device_filter disable_metacommands enable_graph_capture deviceType powerPreference
    preferredLayout config_file cache_key enable_fast_math npu_mem_limit enable_cann_graph precision_mode
    op_select_impl_mode
    optypelist_for_implmode dump_graphs dump_om_model nv_use_external_data_initializer
"""

KNOWN_OPTIONS: frozenset[str] = frozenset(f"{_CUDA}{_TENSORRT}{_OPENVINO}{_OTHERS}".split())
"""Provider options that onnxruntime knows for any of its providers."""

KNOWN_RUN_ENTRIES: dict[str, str] = {
    "qnn.htp_perf_mode": "How fast a Qualcomm NPU works during the run.",
    "qnn.htp_perf_mode_post_run": "How fast a Qualcomm NPU works after the run.",
    "qnn.lora_config": "A file that configures LoRA adapters on a Qualcomm NPU.",
    "qnn.rpc_control_latency": "How long a call to a Qualcomm NPU may take.",
}
"""Config entries of a run that name a vendor, with what they do in onnxruntime."""

KNOWN_SESSION_ENTRIES: dict[str, str] = {
    "session.resource_cuda_partitioning_settings": "How much memory of a CUDA device the nodes of a session may take."
}
"""Config entries of a session that name a vendor, with what they do in onnxruntime."""
