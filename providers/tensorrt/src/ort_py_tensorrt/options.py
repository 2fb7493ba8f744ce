"""The options of both providers, named as onnxruntime names them: ``trt_…`` for TensorRT, ``nv_…`` for TensorRT-RTX.

What onnxruntime's providers take and has no meaning here is in `WITHOUT_MEANING`: it is not declared, so the core
accepts it, ignores it and lists it in the session's load report. Comes after `variants`, before `wishes`, which reads
the values.
"""

from __future__ import annotations

from ort_py.contracts import OptionSpec
from ort_py_tensorrt.variants import RTX, TENSORRT, Variant

__all__ = ["OPTIONS", "WITHOUT_MEANING", "options_of"]

_COMMON: tuple[OptionSpec, ...] = (
    OptionSpec("device_id", int, 0, "Number of the GPU, as CUDA counts those that CUDA_VISIBLE_DEVICES leaves."),
    OptionSpec(
        "user_compute_stream",
        str,
        "",
        "Address of a cudaStream_t, as a decimal or 0x number, which all runs are enqueued on. The caller keeps it "
        "alive. Without it each frame has a stream of its own.",
    ),
    OptionSpec("has_user_compute_stream", bool, False, "Set where user_compute_stream is, as onnxruntime does."),
    OptionSpec("use_tf32", bool, False, "Multiply float32 in TF32 (10 bits): faster, 1e-3 off. onnxruntime's is on."),
    OptionSpec("claim_small", bool, False, "Also take subgraphs that are too small to be worth an engine."),
    OptionSpec("build_seconds", float, 0.0, "Seconds that building one engine may take; 0 for no limit."),
    OptionSpec(
        "build_in_background",
        bool,
        False,
        "Build engines while the next provider runs their nodes. The session uses them as soon as they are built.",
    ),
    OptionSpec(
        "max_rebuilds",
        int,
        8,
        "How often a session may build an engine again for shapes that the last one was not built for.",
    ),
    OptionSpec(
        "allow_embedded_engines",
        bool,
        False,
        "Load engines that a model contains (EPContext nodes). They are code: allow it for models that you trust.",
    ),
)
"""Options that both have by the same name. The last six are ort-py's own."""


def _shared(prefix: str) -> tuple[OptionSpec, ...]:
    """Options that both have, each with its own prefix."""
    inputs = f"of inputs whose sizes a model leaves open: x:1x3x224x224,ids:1x8. Without {prefix}_profile_… engines "
    return (
        OptionSpec(f"{prefix}_max_workspace_size", int, 0, "Bytes of scratch memory of an engine; 0 for no limit."),
        OptionSpec(f"{prefix}_detailed_build_log", bool, False, "Log everything that the library says, not warnings."),
        OptionSpec(
            f"{prefix}_profile_min_shapes",
            str,
            "",
            f"Least sizes {inputs}are built at the first run, for its shapes, and again for others.",
        ),
        OptionSpec(f"{prefix}_profile_max_shapes", str, "", "Largest sizes of these inputs."),
        OptionSpec(f"{prefix}_profile_opt_shapes", str, "", "Sizes of these inputs that engines are optimised for."),
        OptionSpec(
            f"{prefix}_weight_stripped_engine_enable",
            bool,
            False,
            "Build engines without their weights, which are read from the model when an engine is loaded. The cache "
            "is smaller for it.",
        ),
        OptionSpec(f"{prefix}_ep_context_file_path", str, "", "Folder of engines that stand in files beside a model."),
        OptionSpec(
            f"{prefix}_ep_context_embed_mode",
            int,
            1,
            "Where `ort-py compile` writes engines: 1 for the model, 0 for files beside it. onnxruntime's is 0.",
            (0, 1),
        ),
    )


_CACHE = (
    OptionSpec(
        "trt_engine_cache_enable",
        bool,
        True,
        "Keep engines on disk, unless the session keeps nothing. onnxruntime's is off.",
    ),
    OptionSpec("trt_engine_cache_path", str, "", "Folder of the engines; inside the session's cache if empty."),
)

_TRT_ONLY: tuple[OptionSpec, ...] = (
    OptionSpec("trt_max_partition_iterations", int, 16, "Rounds of questions about one graph. onnxruntime's is 1000."),
    OptionSpec("trt_min_subgraph_size", int, 1, "Least number of nodes of a region."),
    OptionSpec("trt_op_types_to_exclude", str, "", "Operators that are left to others, separated by commas."),
    OptionSpec("trt_fp16_enable", bool, False, "Compute float32 models in float16, as the session's precision would."),
    OptionSpec("trt_bf16_enable", bool, False, "Compute float32 models in bfloat16."),
    OptionSpec(
        "trt_layer_norm_fp32_fallback",
        bool,
        True,
        "Compute normalisations in float32 where the rest is float16. onnxruntime's is off.",
    ),
    *_CACHE,
    OptionSpec("trt_timing_cache_enable", bool, True, "Keep the times of kernels on disk, which shortens builds."),
    OptionSpec("trt_timing_cache_path", str, "", "Folder of these times; that of the engines if empty."),
    OptionSpec(
        "trt_builder_optimization_level",
        int,
        3,
        "From 0, which builds fastest, to 5, which tries the most.",
        tuple(range(6)),
    ),
    OptionSpec("trt_auxiliary_streams", int, -1, "Streams of an engine beside its own; -1 leaves it to TensorRT."),
    OptionSpec("trt_sparsity_enable", bool, False, "Use weights of which two of four are zero."),
    OptionSpec(
        "trt_cuda_graph_enable",
        bool,
        False,
        "Capture the runs of the first shapes that come twice, and replay them.",
    ),
    OptionSpec(
        "trt_engine_hw_compatible",
        bool,
        False,
        "Build engines for all GPUs from Ampere on, at the cost of speed.",
    ),
)

_NV_ONLY: tuple[OptionSpec, ...] = (
    OptionSpec("nv_cuda_graph_enable", bool, False, "Let TensorRT-RTX capture what runs enqueue, and replay it."),
    OptionSpec("nv_max_shared_mem_size", int, 0, "Bytes of shared memory of a block; 0 leaves it to TensorRT-RTX."),
    OptionSpec("nv_runtime_cache_path", str, "", "Folder of the kernels that are compiled when engines are loaded."),
    OptionSpec(
        "compute_capabilities",
        str,
        "",
        "Devices to build for, as SM86,SM89; what TensorRT-RTX chooses if empty. An option of ort-py.",
    ),
    *(OptionSpec(f"nv_{one.name[4:]}", one.kind, one.default, one.help) for one in _CACHE),
)

_TABLES = {
    TENSORRT.provider: (*_COMMON, *_shared("trt"), *_TRT_ONLY),
    RTX.provider: (*_COMMON, *_shared("nv"), *_NV_ONLY),
}

OPTIONS: tuple[OptionSpec, ...] = tuple({one.name: one for table in _TABLES.values() for one in table}.values())
"""All options of both providers."""

WITHOUT_MEANING: dict[str, str] = {
    "trt_int8_enable": "networks are strongly typed: QuantizeLinear and DequantizeLinear in the model say what is int8",
    "trt_int8_calibration_table_name": "see trt_int8_enable",
    "trt_int8_use_native_calibration_table": "see trt_int8_enable",
    "trt_dla_enable": "accelerators beside the GPU are not supported",
    "trt_dla_core": "see trt_dla_enable",
    "trt_dump_subgraphs": "session.placement shows them",
    "trt_engine_cache_prefix": "the name of a file is the hash of all that it depends on",
    "trt_engine_decryption_enable": "a library that a model's options name is not loaded",
    "trt_engine_decryption_lib_path": "see trt_engine_decryption_enable",
    "trt_force_sequential_engine_build": "engines of a session are built one after another",
    "trt_context_memory_sharing_enable": "scratch memory comes from the session's pool, run by run",
    "trt_force_timing_cache": "times of another device are not used",
    "trt_build_heuristics_enable": "TensorRT 11 has no such setting",
    "trt_tactic_sources": "TensorRT 11 decides",
    "trt_extra_plugin_lib_paths": "a library that a model's options name is not loaded",
    "trt_dump_ep_context_model": "`ort-py compile MODEL --provider tensorrt -o FILE.onnx` writes such a model",
    "trt_onnx_model_folder_path": "an engine without weights takes them from the session's model",
    "trt_preview_features": "there are none to choose",
    "trt_load_user_initializer": "weights are always handed over without a copy",
    "nv_dump_subgraphs": "session.placement shows them",
    "nv_multi_profile_enable": "an engine has one profile, and another engine is built for other shapes",
    "nv_use_external_data_initializer": "weights are always handed over without a copy",
}
"""Options of onnxruntime's providers that change nothing here, and why."""


def options_of(variant: Variant) -> tuple[OptionSpec, ...]:
    """Return the options of one of the providers."""
    return _TABLES[variant.provider]
