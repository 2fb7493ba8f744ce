"""Schemas of mixtures of experts."""

from __future__ import annotations

from ort_py_array.contrib.schemas.notation import operator, same_shape

__all__ = ["SCHEMAS"]

_ATTRIBUTES = {
    "activation_alpha": 1.0,
    "activation_beta": 0.0,
    "activation_type": "relu",
    "k": 1,
    "normalize_routing_weights": 0,
    "swiglu_fusion": 0,
    "swiglu_limit": float | None,
    "use_sparse_mixer": 0,
}

SCHEMAS = [
    operator(
        "MoE",
        "input: T, router_probs: T, fc1_experts_weights: T, fc1_experts_bias: T?, fc2_experts_weights: T, "
        "fc2_experts_bias: T?, fc3_experts_weights: T?, fc3_experts_bias: T?",
        "output: T",
        attributes=_ATTRIBUTES,
        shapes=same_shape(0),
        T="float float16 bfloat16",
    ),
    operator(
        "QMoE",
        "input: T, router_probs: T, fc1_experts_weights: T1, fc1_scales: T2?, fc1_experts_bias: T?, "
        "fc2_experts_weights: T1, fc2_scales: T2?, fc2_experts_bias: T?, fc3_experts_weights: T1?, fc3_scales: T2?, "
        "fc3_experts_bias: T?, fc1_zero_points: T1?, fc2_zero_points: T1?, fc3_zero_points: T1?, router_weights: T?, "
        "fc1_global_scale: T4?, fc2_global_scale: T4?, fc1_act_scale: T4?, fc2_act_scale: T4?, "
        "fc1_act_block_scale: T2?, fc2_act_block_scale: T2?",
        "output: T",
        attributes={
            **_ATTRIBUTES,
            "accuracy_level": 0,
            "block_size": int | None,
            "expert_weight_bits": 4,
            "fc1_expert_weight_bits": int | None,
            "fc2_expert_weight_bits": int | None,
            "fc3_expert_weight_bits": int | None,
            "quant_type": "int",
            "weights_prepacked": -1,
        },
        shapes=same_shape(0),
        T="float float16 bfloat16",
        T1="uint8 float8e4m3fn",
        T2="float float16 bfloat16 float8e8m0 float8e4m3fn",
        T4="float",
    ),
]
