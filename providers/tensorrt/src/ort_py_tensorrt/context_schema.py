"""The schema of EPContext: the operator in which onnxruntime's providers keep what their compilers made.

The node says nothing of the types of its outputs; those are in the model's own list of values. Imports no library.
"""

from __future__ import annotations

from ort_py.contracts import FormalParameter, OperatorSchema

__all__ = ["CONTEXT_SCHEMA", "DOMAIN", "OPERATOR"]

OPERATOR = "EPContext"
DOMAIN = "com.microsoft"

_TYPES = frozenset(
    f"tensor({name})"
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float", "double", "bfloat16"),
    )
)

CONTEXT_SCHEMA = OperatorSchema(
    OPERATOR,
    DOMAIN,
    inputs=(FormalParameter("inputs", "T", variadic=True, homogeneous=False),),
    outputs=(FormalParameter("outputs", "T", variadic=True, homogeneous=False),),
    attributes={
        "main_context": 1,
        "ep_cache_context": str | None,
        "embed_mode": 1,
        "ep_sdk_version": str | None,
        "onnx_model_filename": str | None,
        "hardware_architecture": str | None,
        "partition_name": str | None,
        "source": str | None,
        "notes": str | None,
        "max_size": 0,
    },
    types={"T": _TYPES},
)
"""The schema that onnxruntime registers."""
