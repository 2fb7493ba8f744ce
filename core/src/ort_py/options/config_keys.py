"""Config keys that onnxruntime knows, and what each does here: one table, and the check of a key.

A key it knows is accepted, honoured or without effect; the session's load report names those without. A key close to
a known one is a misspelling and refused; any other gets one warning. In compatibility mode all are accepted silently,
as there. Holds no values' meaning: `config_values` checks those when a session is made.
"""

from __future__ import annotations

from ort_py.discovery.environment import compat_mode
from ort_py.discovery.known_names import KNOWN_RUN_KEYS, KNOWN_SESSION_KEYS
from ort_py.discovery.user_warnings import warn_user
from ort_py.errors import OptionError
from ort_py.suggestions import close_names, question

__all__ = ["HONOURED", "RUN_KEYS", "SESSION_KEYS", "check_key"]

HONOURED: frozenset[str] = frozenset(
    {
        "ep.context_enable",
        "ep.context_file_path",
        "memory.enable_memory_arena_shrinkage",
        "optimization.disable_specified_optimizers",
        "session.disable_cpu_ep_fallback",
        "session.fallback_failures",
        "session.fallback_retry_seconds",
        "session.fast_math",
        "session.keep_model_bytes",
        "session.load_model_format",
        "session.model_cache",
        "session.model_external_initializers_file_folder_path",
        "session.optimized_model_external_initializers_file_name",
        "session.optimized_model_external_initializers_min_size_in_bytes",
        "session.placement",
        "session.plugin_kernels_override",
        "session.record_ep_graph_assignment_info",
        "session.save_model_format",
        "session.trim_when_memory_is_short",
    }
)
"""Keys that change something here; bytes kept, prepared models, placement, plug-ins' kernels and memory pressure are
ort-py's own."""

_WITHOUT_EFFECT = """
    ep.context_embed_mode ep.context_model_external_initializers_file_name ep.context_node_name_prefix
    ep.enable_weightless ep.share_ep_contexts ep.stop_share_ep_contexts mlas.disable_kleidiai
    mlas.enable_gemm_fastmath_arm64_bfloat16 mlas.kleidiai.conv_igemm_max_work mlas.nchwc_depthwise_sliding
    mlas.nchwc_pointwise_conv_max_input_channel_batch mlas.qnbit.force_fp32 mlas.use_lut_gemm
    optimization.constant_folding_max_output_size_in_bytes optimization.enable_cast_chain_elimination
    optimization.enable_gelu_approximation optimization.enable_memory_probe_recompute_config
    optimization.memory_optimizer_config optimization.minimal_build_optimizations session.allow_released_opsets_only
    session.collect_node_memory_stats_to_file session.compile_only session.debug_layout_transformation
    session.disable_aot_function_inlining session.disable_double_qdq_remover session.disable_model_compile
    session.disable_prepacking session.disable_qdq_constant_folding session.disable_quant_qdq
    session.dynamic_block_base session.enable_cpu_mem_arena session.enable_dq_matmulnbits_fusion
    session.enable_mem_pattern session.enable_moe_expert_counting session.enable_moe_expert_statistics
    session.enable_profiling session.enable_quant_qdq_cleanup session.enable_saved_runtime_optimizations
    session.execution_mode session.fail_on_suboptimal_compiled_model session.force_spinning_stop
    session.function_expansion_byte_limit session.function_expansion_node_limit session.gqa_value_layout
    session.graph_optimization_level session.graph_optimizations_loop_level session.inter_op.allow_spinning
    session.inter_op.spin_backoff_max session.inter_op.spin_duration_us session.inter_op_num_threads
    session.intra_op.allow_spinning session.intra_op.spin_backoff_max session.intra_op.spin_duration_us
    session.intra_op_num_threads session.intra_op_thread_affinities session.layer_assignment_settings session.log_id
    session.log_severity_level session.log_verbosity_level session.max_shape_override session.moe_expert_counter_alpha
    session.moe_expert_counter_beta session.moe_expert_counter_state_file session.name_based_layer_assignment
    session.node_partition_config_file session.optimized_model_filepath session.prepack.enable_parallel
    session.qdq_matmulnbits_accuracy_level session.qdq_matmulnbits_block_size session.qdqisint8allowed
    session.save_external_prepacked_constant_initializers
    session.set_denormal_as_zero session.strict_shape_type_inference session.strict_workspace_verification
    session.use_deterministic_compute session.use_device_allocator_for_initializers session.use_env_allocators
    session.use_external_initializer_file_buffers_directly session.use_ort_model_bytes_directly
    session.use_ort_model_bytes_for_initializers session.use_per_session_threads session.x64quantprecision
"""

RUN_KEYS: frozenset[str] = KNOWN_RUN_KEYS | {
    "memory.enable_memory_arena_shrinkage",
    "gpu_graph_id",
    "disable_synchronize_execution_providers",
}
"""Keys of a run's options."""

SESSION_KEYS: frozenset[str] = (HONOURED - RUN_KEYS) | frozenset(_WITHOUT_EFFECT.split()) | KNOWN_SESSION_KEYS
"""Keys of a session's options."""

_CLOSE = 0.88
"""How alike a misspelling is to what is meant; keys share long beginnings, which make any two of them look alike."""

_FAMILIES = ("ep.", "mlas.")
"""Beginnings of keys that belong to a provider or a kernel library: what follows is theirs to know."""


def check_key(key: str, scope: str) -> None:
    """Refuse a misspelt config key, and warn about an unknown one.

    Args:
        key: The key.
        scope: ``"session"`` or ``"run"``.

    Raises:
        OptionError: The key is close to one that is known, and the program does not run in compatibility mode.
    """
    known = RUN_KEYS if scope == "run" else SESSION_KEYS
    if key in known or key in SESSION_KEYS or key in RUN_KEYS or compat_mode():
        return
    hint = question(close_names(key, sorted(known), cutoff=_CLOSE))
    if hint:
        raise OptionError(
            f"There is no {scope} config key '{key}'.",
            why="onnxruntime knows none of this name, and one that is close to it",
            fix=f"{hint} Set ORT_PY_COMPAT=1 to have unknown keys ignored.",
        )
    if not key.startswith(_FAMILIES):
        warn_user(f"There is no {scope} config key '{key}'; it is ignored.", UserWarning)
