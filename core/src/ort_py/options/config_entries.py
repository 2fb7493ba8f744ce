"""The table of config entries: options that are set by a key and a text, for sessions and for runs.

Keys are onnxruntime's, and some are ort-py's own. Entries that name a vendor are listed in `discovery.known_names`.
`config_checks` checks keys and values. Data only.
"""

from __future__ import annotations

import re

from ort_py.discovery.known_names import KNOWN_RUN_ENTRIES, KNOWN_SESSION_ENTRIES
from ort_py.errors import Fail, InvalidArgument, OptionError, OrtPyError, UsageError
from ort_py.options.spec import TEXT, Effect, EngineOption, Kind, engine_option


def _entry(
    key: str, effect: Effect, text: str, *, kind: Kind[str] = TEXT, default: str = "", own: bool = False
) -> EngineOption:
    return engine_option(key, kind, default, text, effect, own=own)


def _matching(pattern: str, title: str, refusal: type[OrtPyError]) -> Kind[str]:
    """The kind of texts that match a pattern; others are refused as onnxruntime refuses them."""

    def check(value: str, key: str) -> None:
        if not re.fullmatch(pattern, value):
            raise refusal(
                f"The config entry '{key}' is {value!r}.",
                why=f"it takes {title}",
                fix="Correct the value, or leave it out.",
            )

    return TEXT.checked(check, title)


_SWITCH: Kind[str] = Kind("'0' or '1'", (str,))
"""Any other text is taken for `0`, as onnxruntime does."""

_STRICT_SWITCH = _matching("[01]", "'0' or '1'", InvalidArgument)
_GROUP = r"\s*\d+(-\d+)?(,\d+(-\d+)?)*\s*"

_CHECKED: dict[str, Kind[str]] = {
    "gpu_graph_id": _matching(r"\s*[+-]?\d+", "a whole number", InvalidArgument),
    "optimization.minimal_build_optimizations": _matching("|save|apply", "'save' or 'apply'", InvalidArgument),
    "session.dynamic_block_base": _matching(r"(?s)\s*[+-]?\d.*", "a whole number", OptionError),
    "session.intra_op_thread_affinities": _matching(
        f"{_GROUP}(;{_GROUP})*", "processors from 1 for each thread, like '1,2;3-4'", UsageError
    ),
    "session.qdq_matmulnbits_accuracy_level": _matching(r"\s*0*[0-4]\s*", "0 to 4", Fail),
}
"""Entries without effect whose values are checked nevertheless, as onnxruntime does."""

_SESSION = (
    _entry(
        "ep.context_enable",
        Effect.RUNS,
        "Asks onnxruntime to write a compiled model. ort-py keeps compiled parts in its cache instead and only checks "
        "that there would be a place for the file.",
        kind=_SWITCH,
        default="0",
    ),
    _entry(
        "ep.context_file_path",
        Effect.RUNS,
        "The file for the compiled model; needed with `ep.context_enable` where the model is given as bytes.",
    ),
    _entry(
        "optimization.disable_specified_optimizers",
        Effect.PROGRAM,
        "Names of graph transforms that are not run, separated by semicolons; they are added to `disabled_transforms`.",
    ),
    _entry(
        "session.compiled_model",
        Effect.RUNS,
        "`strict` refuses a compiled model that does not fit this machine, these versions or these options, even if it "
        "contains the original model. Otherwise the original is prepared anew.",
        kind=_matching("|strict", "'strict'", InvalidArgument),
        own=True,
    ),
    _entry(
        "session.disable_cpu_ep_fallback",
        Effect.PROGRAM,
        "`1` makes it an error if a node can only run on the CPU.",
        kind=_SWITCH,
        default="0",
    ),
    _entry(
        "session.fallback_failures",
        Effect.RUNS,
        "The number of failed runs after which a provider is left out. Earlier failures are handled by repeating "
        "the run.",
        default="1",
        own=True,
    ),
    _entry(
        "session.fallback_retry_seconds",
        Effect.RUNS,
        "Seconds until a provider that was left out is tried again; `0` for never.",
        default="60",
        own=True,
    ),
    _entry(
        "session.fast_math",
        Effect.PROGRAM,
        "`1` does the same as the attribute `fast_math`.",
        kind=_STRICT_SWITCH,
        default="0",
        own=True,
    ),
    _entry(
        "session.keep_model_bytes",
        Effect.RUNS,
        "Whether a session keeps the bytes of its model for pickling: `1` always, `0` never. If it is not set, "
        "bytes of up to 64 MiB are kept, not counting large constants.",
        own=True,
    ),
    _entry(
        "session.load_model_format",
        Effect.RUNS,
        "`ORTPY` lets a model that is given as bytes be a compiled model. `ORT` asks for onnxruntime's own format, "
        "which is refused.",
        default="ONNX",
    ),
    _entry(
        "session.model_cache",
        Effect.RUNS,
        "Whether the prepared model is kept in the cache: `1` always, even if it was prepared quickly or given as "
        "bytes; `0` never.",
        own=True,
    ),
    _entry(
        "session.model_external_initializers_file_folder_path",
        Effect.MACHINE,
        "The folder with the external data of a model that is given as bytes; `external_data_folder` takes precedence.",
    ),
    _entry(
        "session.optimized_model_external_initializers_file_name",
        Effect.RUNS,
        "A file next to `optimized_model_filepath` that large constants are written to.",
    ),
    _entry(
        "session.optimized_model_external_initializers_min_size_in_bytes",
        Effect.RUNS,
        "The size in bytes from which a constant counts as large.",
        default="1024",
    ),
    _entry(
        "session.placement",
        Effect.PROGRAM,
        "Names of the providers to use, in order, separated by commas. This overrides what `ort-py tune` measured. "
        "`order` means all providers in their own order.",
        own=True,
    ),
    _entry(
        "session.plugin_kernels_override",
        Effect.PROGRAM,
        "`1` lets kernels of plug-ins take the place of the providers' own; otherwise they are only used where a "
        "provider has none.",
        kind=_SWITCH,
        default="0",
        own=True,
    ),
    _entry(
        "session.record_ep_graph_assignment_info",
        Effect.RUNS,
        "`1` makes `InferenceSession.get_provider_graph_assignment_info` available. `placement` has more "
        "information and is always available.",
        kind=_SWITCH,
        default="0",
    ),
    _entry(
        "session.save_model_format",
        Effect.RUNS,
        "`ORT` asks to write the optimised model in onnxruntime's own format, which is refused.",
        default="ONNX",
    ),
    _entry(
        "session.trim_when_memory_is_short",
        Effect.RUNS,
        "`0` prevents the session from releasing unused memory when the process has little left.",
        kind=_SWITCH,
        default="1",
        own=True,
    ),
)

_RUN = (
    _entry(
        "memory.enable_memory_arena_shrinkage",
        Effect.RUNS,
        "Devices whose unused memory is released after the run, like `cpu:0`.",
        kind=_matching(r";*(?:(?:cpu|gpu):\d+(?:;+|$))*", "devices like 'cpu:0;gpu:0'", InvalidArgument),
    ),
)


def _without_effect(names: dict[str, str]) -> tuple[EngineOption, ...]:
    return tuple(_entry(key, Effect.NONE, text, kind=_CHECKED.get(key, TEXT)) for key, text in names.items())


_IGNORED_SESSION_ENTRIES: dict[str, str] = {
    "ep.context_embed_mode": "Whether compiled parts are embedded in the compiled model.",
    "ep.context_model_external_initializers_file_name": "A file for the constants of a compiled model.",
    "ep.context_node_name_prefix": "How the names of compiled nodes begin.",
    "ep.enable_weightless": "Leaves the weights out of a compiled model.",
    "ep.share_ep_contexts": "Lets sessions share compiled parts.",
    "ep.stop_share_ep_contexts": "Ends the sharing of compiled parts after this session.",
    "mlas.disable_kleidiai": "Leaves out a library of kernels for Arm processors.",
    "mlas.enable_gemm_fastmath_arm64_bfloat16": "Multiplies float32 matrices in bfloat16 on Arm processors.",
    "mlas.kleidiai.conv_igemm_max_work": "How large a convolution may be for one of the Arm library's algorithms.",
    "mlas.nchwc_depthwise_sliding": "Chooses an algorithm for depthwise convolutions in the NCHWc layout.",
    "mlas.nchwc_pointwise_conv_max_input_channel_batch": "Input channels that a pointwise convolution takes at a time.",
    "mlas.qnbit.force_fp32": "Computes products with weights of a few bits in float32.",
    "mlas.use_lut_gemm": "Multiplies weights of a few bits by look-up tables.",
    "optimization.constant_folding_max_output_size_in_bytes": "How large a constant may be that folding makes.",
    "optimization.enable_cast_chain_elimination": "Removes chains of `Cast`.",
    "optimization.enable_gelu_approximation": "Replaces `Gelu` by an approximation.",
    "optimization.enable_memory_probe_recompute_config": "Chooses what training computes again to save memory.",
    "optimization.memory_optimizer_config": "A file that says what training computes again to save memory.",
    "optimization.minimal_build_optimizations": "Saves or applies optimisations for builds without an optimiser.",
    "session.allow_released_opsets_only": "Refuses opsets that were not released.",
    "session.collect_node_memory_stats_to_file": "A file for the memory that each node takes.",
    "session.compile_only": "Compiles the model and makes no session that runs.",
    "session.debug_layout_transformation": "Checks what the change of the layout did.",
    "session.disable_aot_function_inlining": "Keeps functions of the model until a provider was chosen.",
    "session.disable_double_qdq_remover": "Keeps pairs of QuantizeLinear and DequantizeLinear that follow each other.",
    "session.disable_model_compile": "Refuses models that would have to be compiled.",
    "session.disable_prepacking": "Leaves weights in the form that the model has them in.",
    "session.disable_qdq_constant_folding": "Leaves out the folding of constants in quantised models.",
    "session.disable_quant_qdq": "Leaves out the fusion of quantised operators.",
    "session.dynamic_block_base": "How finely the work of a kernel is divided among threads.",
    "session.enable_cpu_mem_arena": "The attribute `enable_cpu_mem_arena`, as a model's file may carry it.",
    "session.enable_dq_matmulnbits_fusion": "Makes `MatMulNBits` of dequantised products.",
    "session.enable_mem_pattern": "The attribute `enable_mem_pattern`, as a model's file may carry it.",
    "session.enable_moe_expert_counting": "Counts how often each expert of a mixture is used.",
    "session.enable_moe_expert_statistics": "Logs how often each expert of a mixture is used.",
    "session.enable_profiling": "The attribute `enable_profiling`, as a model's file may carry it.",
    "session.enable_quant_qdq_cleanup": "Removes pairs of QuantizeLinear and DequantizeLinear that nothing used.",
    "session.enable_saved_runtime_optimizations": "Applies optimisations that the model's file carries.",
    "session.execution_mode": "The attribute `execution_mode`, as a model's file may carry it.",
    "session.fail_on_suboptimal_compiled_model": "Refuses compiled models that would run better if compiled again.",
    "session.force_spinning_stop": "Stops threads from waiting actively as soon as a run has ended.",
    "session.function_expansion_byte_limit": "How many bytes the inlining of functions may make.",
    "session.function_expansion_node_limit": "How many nodes the inlining of functions may make; see `limits`.",
    "session.gqa_value_layout": "The layout of the values in grouped attention.",
    "session.graph_optimization_level": "The attribute `graph_optimization_level`, as a model's file may carry it.",
    "session.graph_optimizations_loop_level": "How often optimisations are repeated.",
    "session.inter_op.allow_spinning": "Whether threads between operators wait actively. Threads of ort-py sleep.",
    "session.inter_op.spin_backoff_max": "How far the pauses of such threads grow.",
    "session.inter_op.spin_duration_us": "How long such threads wait actively.",
    "session.inter_op_num_threads": "The attribute `inter_op_num_threads`, as a model's file may carry it.",
    "session.intra_op.allow_spinning": "Whether threads within operators wait actively. Threads of ort-py sleep.",
    "session.intra_op.spin_backoff_max": "How far the pauses of such threads grow.",
    "session.intra_op.spin_duration_us": "How long such threads wait actively.",
    "session.intra_op_num_threads": "The attribute `intra_op_num_threads`, as a model's file may carry it.",
    "session.intra_op_thread_affinities": "Binds each thread but the first to processors.",
    "session.layer_assignment_settings": "Assigns annotated layers to devices; here see `session.placement`.",
    "session.log_id": "The attribute `logid`, as a model's file may carry it.",
    "session.log_severity_level": "The attribute `log_severity_level`, as a model's file may carry it.",
    "session.log_verbosity_level": "The attribute `log_verbosity_level`, as a model's file may carry it.",
    "session.max_shape_override": "The largest shapes that a device is prepared for.",
    "session.moe_expert_counter_alpha": "How quickly the counts of experts decay.",
    "session.moe_expert_counter_beta": "What one use adds to the count of an expert.",
    "session.moe_expert_counter_state_file": "A file with the counts of experts to begin with.",
    "session.name_based_layer_assignment": "Assigns layers to devices by the names of nodes.",
    "session.node_partition_config_file": "A file that assigns nodes to streams.",
    "session.optimized_model_filepath": "The attribute `optimized_model_filepath`, as a model's file may carry it.",
    "session.prepack.enable_parallel": "Packs weights on several threads.",
    "session.qdq_matmulnbits_accuracy_level": "How exactly `MatMulNBits` made of dequantised products computes.",
    "session.qdq_matmulnbits_block_size": "The block size of `MatMulNBits` made of dequantised products.",
    "session.qdqisint8allowed": "Allows signed integers of 8 bits in fused operators.",
    "session.save_external_prepacked_constant_initializers": "Writes packed weights with the optimised model.",
    "session.set_denormal_as_zero": "Takes denormal numbers for zero.",
    "session.strict_shape_type_inference": "Makes an error of what shape inference warns about.",
    "session.strict_workspace_verification": "Checks that kernels keep to the memory that was reserved for them.",
    "session.use_deterministic_compute": "The attribute `use_deterministic_compute`, as a model's file may carry it.",
    "session.use_device_allocator_for_initializers": "Takes the memory of constants from the device, not the arena.",
    "session.use_env_allocators": "Lets sessions share the allocators that the environment has.",
    "session.use_external_initializer_file_buffers_directly": "Reads constants in place from files given in memory.",
    "session.use_ort_model_bytes_directly": "Keeps the bytes of a model in onnxruntime's own format.",
    "session.use_ort_model_bytes_for_initializers": "Reads constants in place from such bytes.",
    "session.use_per_session_threads": "The attribute `use_per_session_threads`, as a model's file may carry it.",
    "session.x64quantprecision": "Trades speed for exactness in products of 8-bit integers.",
}

_IGNORED_RUN_ENTRIES: dict[str, str] = {
    "disable_synchronize_execution_providers": "Does not wait for devices at the end of the run.",
    "gpu_graph_id": "Tells several recorded graphs of a device apart.",
}

SESSION_ENTRIES: dict[str, EngineOption] = {
    spec.name: spec for spec in (*_SESSION, *_without_effect({**_IGNORED_SESSION_ENTRIES, **KNOWN_SESSION_ENTRIES}))
}
"""Config entries of a session by key."""

RUN_ENTRIES: dict[str, EngineOption] = {
    spec.name: spec for spec in (*_RUN, *_without_effect({**_IGNORED_RUN_ENTRIES, **KNOWN_RUN_ENTRIES}))
}
"""Config entries of a run by key."""


def effect_of(key: str) -> Effect:
    spec = SESSION_ENTRIES.get(key) or RUN_ENTRIES.get(key)
    return Effect.NONE if spec is None else spec.effect
