"""Schemas of the operators in `contrib`, by family; a provider that runs the library contributes all of them.

A family is a module here with a list ``SCHEMAS`` and its operators below. It is imported when more of one of them is
wanted than its name: most models that are asked about have an operator or two of other domains. Importing this package
imports no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from ort_py.contracts import OperatorSchema

__all__ = ["FAMILIES", "schemas"]

FAMILIES = {
    "recurrent": "DynamicQuantizeLSTM",
    "quantization": """QuantizeLinear QGemm DequantizeLinear DynamicQuantizeMatMul MatMulIntegerToFloat QLinearConv
        QLinearAveragePool QLinearGlobalAveragePool NhwcMaxPool QEmbedLayerNormalization""",
    "quantized_elementwise": """QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearWhere QLinearConcat
        QLinearSoftmax""",
    "activations": "Gelu QuickGelu BiasGelu FastGelu",
    "products": "FusedMatMul FusedGemm FusedConv",
    "normalization": """SkipLayerNormalization SkipSimplifiedLayerNormalization ai.onnx:SimplifiedLayerNormalization
        EmbedLayerNormalization""",
    "general": """Inverse Trilu Pad Unique Range GatherND CDist ConvTransposeWithDynamicPads NGramRepeatBlock
        GridSample""",
    "block_quantized": "MatMulNBits MatMulBnb4 GatherBlockQuantized",
    "experts": "MoE QMoE",
    "text": "Tokenizer",
    "attention": """Attention QAttention MultiHeadAttention DecoderMaskedMultiHeadAttention GroupQueryAttention
        PagedAttention SparseAttention""",
    "sequence_mixing": "RotaryEmbedding MRotaryEmbedding LinearAttention CausalConvWithState",
    "generation": "GreedySearch Sampling BeamSearch WhisperBeamSearch",
}
"""Operators of each family, of onnxruntime's domain where no other is named; all are of version 1."""

_LATE = ("inputs", "outputs", "attributes", "types", "infer")


class _NamedSchema(OperatorSchema):
    """A schema of which only the name is known until its family is imported."""

    __slots__ = ("_family",)

    def __init__(self, domain: str, op_type: str, family: str) -> None:
        known = {"domain": domain, "op_type": op_type, "since_version": 1, "_family": family}
        for name, value in known.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name not in _LATE:
            raise AttributeError(name)
        family: Sequence[OperatorSchema] = import_module(f"{__name__}.{self._family}").SCHEMAS
        whole = next(one for one in family if (one.domain, one.op_type) == (self.domain, self.op_type))
        for late in _LATE:
            object.__setattr__(self, late, getattr(whole, late))
        return getattr(whole, name)


@cache
def schemas() -> tuple[OperatorSchema, ...]:
    """The schemas of all families, the same objects each time."""
    named = [(family, *one.rpartition(":")) for family, text in FAMILIES.items() for one in text.split()]
    domains = {"": "com.microsoft", "ai.onnx": ""}
    return tuple([_NamedSchema(domains.get(domain, domain), op_type, family) for family, domain, _, op_type in named])
