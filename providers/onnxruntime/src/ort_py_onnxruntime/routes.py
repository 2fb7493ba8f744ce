"""The one table of onnxruntime's providers: what has each of them, and the options that it takes.

Comes before `installed`, which looks for the packages, and `plugin`, which makes a factory of each row. Data only; a
provider that is not here is reached through the provider `OnnxruntimeExecutionProvider` and its option `providers`.
"""

from __future__ import annotations

import importlib.util

from ort_py.devices import DeviceClass
from ort_py.lazy_dataclass import dataclass

__all__ = ["CPU", "GENERAL", "ROUTES", "Route"]

GENERAL = "OnnxruntimeExecutionProvider"
"""Name of the provider that hands regions to onnxruntime itself, on the providers that its options name."""

CPU = "CPUExecutionProvider"
"""onnxruntime's own provider for processors. ort-py's has this name, so the bridge reaches it as `GENERAL` only."""


@dataclass(frozen=True, slots=True)
class Route:
    """The way to one of onnxruntime's providers.

    Attributes:
        vendor: Maker of the hardware or library.
        device_class: Class of its best device.
        variant: Distribution of onnxruntime that has it and takes the place of another one; empty where there is none.
        plugin: Distribution that adds it to any onnxruntime; empty where there is none.
        own: Distribution of ort-py that has a provider of this name; empty where there is none.
        builds: Distributions of onnxruntime that have it without a library of its own, on one platform where one
            follows after a slash.
        library: Middle of the name of the library that holds it, ``libonnxruntime_providers_<this>``, beside
            onnxruntime's own; empty where it is inside of that.
        options: Names of the options that it takes, separated by spaces.
        memory: onnxruntime's name of the device with memory of its own that its values are in; empty where that is the
            host's, and where it is not known.
        memory_vendor: Number of the vendor of that device.
        tried: Whether it is seen in a run only what it computes. Then sizes have to be known, and nodes are tried.
        dlpack_types: DLPack's numbers of the arrays of other libraries that onnxruntime takes there.
    """

    vendor: str
    device_class: DeviceClass
    variant: str = ""
    plugin: str = ""
    own: str = ""
    builds: tuple[str, ...] = ()
    library: str = ""
    options: str = ""
    tried: bool = False
    memory: str = ""
    memory_vendor: int = 0
    dlpack_types: tuple[int, ...] = ()

    @property
    def memory_kind(self) -> str:
        """Kind of the device in ort-py: onnxruntime's name, unless packages of ort-py have arrays of another library
        under it. Empty where there is no device.
        """
        owners = [one.own for one in ROUTES.values() if one.own and one.memory == self.memory]
        shared = self.memory and any(importlib.util.find_spec(own.replace("-", "_")) for own in owners)
        return f"onnxruntime-{self.memory}" if shared else self.memory

    @property
    def advice(self) -> str:
        """The package to install for it."""
        ways = []
        if self.own:
            ways.append(f"pip install {self.own}, which is ort-py's own provider of this name")
        if self.plugin:
            ways.append(f"pip install onnxruntime {self.plugin}")
        if self.variant:
            ways.append(f"pip install {self.variant}, in place of another onnxruntime")
        ways.append(f"with your own build of onnxruntime use {GENERAL} and its option 'providers'")
        return "; or ".join(ways)


_GPU, _NPU, _CPU = DeviceClass.GPU, DeviceClass.NPU, DeviceClass.CPU
_NVIDIA = 0x10DE
_CUDA_ARRAYS = (2, 13)
"""kDLCUDA and kDLCUDAManaged."""

ROUTES: dict[str, Route] = {
    "NvTensorRTRTXExecutionProvider": Route(
        "NVIDIA",
        _GPU,
        own="ort-py-tensorrt",
        plugin="onnxruntime-ep-nv-tensorrt-rtx-cu13",
        library="nv_tensorrt_rtx",
        options=(
            "device_id has_user_compute_stream user_compute_stream nv_max_workspace_size nv_max_shared_mem_size "
            "nv_dump_subgraphs nv_detailed_build_log nv_profile_min_shapes nv_profile_max_shapes "
            "nv_profile_opt_shapes nv_cuda_graph_enable nv_multi_profile_enable nv_use_external_data_initializer "
            "nv_runtime_cache_path"
        ),
        memory="cuda",
        memory_vendor=_NVIDIA,
        dlpack_types=_CUDA_ARRAYS,
    ),
    "TensorrtExecutionProvider": Route(
        "NVIDIA",
        _GPU,
        own="ort-py-tensorrt",
        variant="onnxruntime-gpu",
        library="tensorrt",
        options=(
            "device_id has_user_compute_stream user_compute_stream trt_max_partition_iterations trt_min_subgraph_size "
            "trt_max_workspace_size trt_fp16_enable trt_bf16_enable trt_int8_enable "
            "trt_int8_calibration_table_name trt_int8_use_native_calibration_table trt_dla_enable trt_dla_core "
            "trt_dump_subgraphs trt_engine_cache_enable trt_engine_cache_path trt_engine_cache_prefix "
            "trt_force_sequential_engine_build trt_context_memory_sharing_enable trt_layer_norm_fp32_fallback "
            "trt_timing_cache_enable trt_timing_cache_path trt_force_timing_cache trt_detailed_build_log "
            "trt_build_heuristics_enable trt_sparsity_enable trt_builder_optimization_level trt_auxiliary_streams "
            "trt_tactic_sources trt_extra_plugin_lib_paths trt_profile_min_shapes trt_profile_max_shapes "
            "trt_profile_opt_shapes trt_cuda_graph_enable trt_engine_hw_compatible trt_op_types_to_exclude"
        ),
        memory="cuda",
        memory_vendor=_NVIDIA,
        dlpack_types=_CUDA_ARRAYS,
    ),
    "CUDAExecutionProvider": Route(
        "NVIDIA",
        _GPU,
        own="ort-py-cuda",
        variant="onnxruntime-gpu",
        library="cuda",
        options=(
            "device_id gpu_mem_limit arena_extend_strategy cudnn_conv_algo_search cudnn_conv_use_max_workspace "
            "cudnn_conv1d_pad_to_nc1d do_copy_in_default_stream has_user_compute_stream user_compute_stream "
            "enable_cuda_graph enable_skip_layer_norm_strict_mode tunable_op_enable tunable_op_tuning_enable "
            "use_ep_level_unified_stream use_tf32 prefer_nhwc fuse_conv_bias sdpa_kernel"
        ),
        memory="cuda",
        memory_vendor=_NVIDIA,
        dlpack_types=_CUDA_ARRAYS,
    ),
    "MIGraphXExecutionProvider": Route(
        "AMD",
        _GPU,
        variant="onnxruntime-migraphx",
        library="migraphx",
        options=(
            "device_id migraphx_fp16_enable migraphx_bf16_enable migraphx_fp8_enable migraphx_int8_enable "
            "migraphx_exhaustive_tune migraphx_model_cache_dir migraphx_mem_limit"
        ),
        memory="gpu",
        memory_vendor=0x1002,
    ),
    "OpenVINOExecutionProvider": Route(
        "Intel",
        _CPU,
        own="ort-py-openvino",
        plugin="onnxruntime-ep-openvino",
        variant="onnxruntime-openvino",
        library="openvino",
        options=(
            "device_type device_id device_luid precision num_of_threads num_streams cache_dir load_config "
            "enable_opencl_throttling enable_qdq_optimizer enable_causallm disable_dynamic_shapes model_priority "
            "reshape_input layout"
        ),
    ),
    "DnnlExecutionProvider": Route("Intel", _CPU, own="ort-py-onednn", library="dnnl", options="use_arena"),
    "VitisAIExecutionProvider": Route("AMD", _NPU, library="vitisai", options="config_file cache_dir cache_key"),
    "QNNExecutionProvider": Route(
        "Qualcomm",
        _NPU,
        plugin="onnxruntime-qnn",
        library="qnn",
        options=(
            "backend_path backend_type profiling_level profiling_file_path rpc_control_latency vtcm_mb "
            "htp_performance_mode htp_graph_finalization_optimization_mode soc_model htp_arch device_id "
            "enable_htp_fp16_precision offload_graph_io_quantization qnn_context_priority qnn_saver_path"
        ),
    ),
    "NnapiExecutionProvider": Route("Google", _NPU),
    "VSINPUExecutionProvider": Route("VeriSilicon", _NPU),
    "CoreMLExecutionProvider": Route(
        "Apple",
        _NPU,
        own="ort-py-coreml",
        variant="onnxruntime",
        builds=("onnxruntime/darwin",),
        options=(
            "ModelFormat MLComputeUnits RequireStaticInputShapes EnableOnSubgraphs SpecializationStrategy "
            "ProfileComputePlan AllowLowPrecisionAccumulationOnGPU ModelCacheDirectory"
        ),
    ),
    "ACLExecutionProvider": Route("Arm", _CPU, options="enable_fast_math"),
    "DmlExecutionProvider": Route(
        "Microsoft",
        _GPU,
        variant="onnxruntime-directml",
        builds=("onnxruntime-directml",),
        options="device_id performance_preference device_filter disable_metacommands enable_graph_capture",
        memory="dml",
        memory_vendor=0x1414,
    ),
    "RknpuExecutionProvider": Route("Rockchip", _NPU),
    "WebGpuExecutionProvider": Route(
        "Microsoft",
        _GPU,
        plugin="onnxruntime-ep-webgpu",
        builds=("onnxruntime-webgpu",),
        options="deviceId powerPreference preferredLayout enableGraphCapture storageBufferCacheMode validationMode",
        memory="webgpu",
    ),
    "XnnpackExecutionProvider": Route("Google", _CPU, own="ort-py-xnnpack", options="intra_op_num_threads"),
    "CANNExecutionProvider": Route(
        "Huawei",
        _NPU,
        variant="onnxruntime-cann",
        library="cann",
        options=(
            "device_id npu_mem_limit arena_extend_strategy enable_cann_graph precision_mode op_select_impl_mode "
            "optypelist_for_implmode dump_graphs dump_om_model"
        ),
        memory="cann",
        memory_vendor=0x19E5,
    ),
    "AzureExecutionProvider": Route(
        "Microsoft",
        _CPU,
        variant="onnxruntime",
        builds=("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml"),
    ),
    "MLXExecutionProvider": Route("Apple", _GPU, plugin="onnxruntime-ep-mlx"),
    "ggml": Route(
        "ggml.ai",
        _CPU,
        plugin="onnxruntime-ggml",
        tried=True,
        options="device threads partial dump attention profile weights accel gpu_min_weight_bytes",
    ),
}
"""The providers by the names that onnxruntime has for them."""
