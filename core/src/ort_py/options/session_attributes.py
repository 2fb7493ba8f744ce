"""The attributes of `SessionOptions` as tables: defaults, types, choices, and which of them change anything here.

Data only; `checked` enforces it, `session_options` documents it.
"""

from __future__ import annotations

from typing import Any

from ort_py.enums import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from ort_py.limits import Limits
from ort_py.options.checked import PATH
from ort_py.options.config_keys import HONOURED

__all__ = ["CHOICES", "DEFAULTS", "IN_USE", "TYPES"]

IN_USE: frozenset[str] = frozenset(
    {
        "enable_profiling",
        "execution_mode",
        "graph_optimization_level",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "optimized_model_filepath",
        "profile_file_prefix",
        "enable_cpu_mem_arena",
        "use_deterministic_compute",
        "limits",
        "precision",
        "fast_math",
        "strict",
        "pin_cpu",
        "disabled_transforms",
        "cost_model",
        "cache_dir",
        "external_data_folder",
        "verify",
        "verify_action",
    }
    | HONOURED
)
"""Attributes and config entries that change something here."""

DEFAULTS: dict[str, Any] = {
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "enable_mem_reuse": True,
    "enable_profiling": False,
    "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
    "execution_order": ExecutionOrder.DEFAULT,
    "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
    "inter_op_num_threads": 0,
    "intra_op_num_threads": 0,
    "log_severity_level": -1,
    "log_verbosity_level": 0,
    "logid": "",
    "optimized_model_filepath": "",
    "profile_file_prefix": "onnxruntime_profile_",
    "use_deterministic_compute": False,
    "use_per_session_threads": True,
    "limits": Limits(),
    "precision": "float32",
    "fast_math": False,
    "strict": None,
    "pin_cpu": False,
    "disabled_transforms": (),
    "cost_model": "transfer",
    "cache_dir": "",
    "external_data_folder": "",
    "verify": None,
    "verify_action": "log",
}
"""Every attribute with its default: onnxruntime's, then ort-py's own."""

TYPES: dict[str, tuple[type, ...]] = {
    "enable_cpu_mem_arena": (bool,),
    "enable_mem_pattern": (bool,),
    "enable_mem_reuse": (bool,),
    "enable_profiling": (bool,),
    "execution_mode": (ExecutionMode,),
    "execution_order": (ExecutionOrder,),
    "graph_optimization_level": (GraphOptimizationLevel,),
    "inter_op_num_threads": (int,),
    "intra_op_num_threads": (int,),
    "log_severity_level": (int,),
    "log_verbosity_level": (int,),
    "logid": (str,),
    "optimized_model_filepath": PATH,
    "profile_file_prefix": PATH,
    "use_deterministic_compute": (bool,),
    "use_per_session_threads": (bool,),
    "limits": (Limits,),
    "precision": (str,),
    "fast_math": (bool,),
    "strict": (str, type(None)),
    "pin_cpu": (bool,),
    "disabled_transforms": (tuple, list, set, frozenset),
    "cost_model": (str,),
    "cache_dir": PATH,
    "external_data_folder": PATH,
    "verify": (float, int, type(None)),
    "verify_action": (str,),
}
"""Types each attribute takes."""

CHOICES: dict[str, tuple[Any, ...]] = {
    "precision": ("float32", "bfloat16", "float16"),
    "strict": (None, "", "provider", "node"),
    "cost_model": ("transfer", "always"),
    "verify_action": ("log", "pin"),
}
"""Values of attributes that take some only."""
