"""The place of each operator's kernels: the modules of this package, and behind them the array library.

A new kernel is a file beside this one and a word in its line here. Modules are imported when one of their operators is
asked for. Where two declare the same operator, versions and types, the library's gives way, see `cutting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module

from ort_py.contracts import NodeSpec
from ort_py.contracts.kernel import KernelCatalog, KernelDef, kernel_defs
from ort_py_array.library import LibraryKernels, families_by_operator
from ort_py_cuda.kernels.cutting import without
from ort_py_cuda.settings import Settings, with_settings

__all__ = ["FAMILIES", "CudaKernels", "library_kernel", "our_kernels"]

FAMILIES: dict[str, str] = {
    # generated kernels
    "softmax": "Softmax LogSoftmax",
    "row_norms": (
        "LayerNormalization RMSNormalization SimplifiedLayerNormalization com.microsoft:SkipLayerNormalization "
        "com.microsoft:SkipSimplifiedLayerNormalization"
    ),
    "rotary": "RotaryEmbedding com.microsoft:RotaryEmbedding",
    "gather": "Gather GatherElements GatherND",
    "scatter": "ScatterElements Scatter ScatterND",
    "bias_gelu": "com.microsoft:BiasGelu com.microsoft:FastGelu",
    # cuDNN
    "convolution": "Conv com.microsoft:FusedConv ort_py.channels_last:Conv ort_py.channels_last:FusedConv",
    "convolution_transpose": "ConvTranspose ort_py.channels_last:ConvTranspose",
    "pooling": (
        "MaxPool AveragePool GlobalMaxPool GlobalAveragePool ort_py.channels_last:MaxPool "
        "ort_py.channels_last:AveragePool ort_py.channels_last:GlobalMaxPool ort_py.channels_last:GlobalAveragePool"
    ),
    "normalization": "BatchNormalization InstanceNormalization ort_py.channels_last:BatchNormalization",
    "attention": "Attention com.microsoft:MultiHeadAttention",
    "recurrent": "RNN GRU LSTM",
    # cuBLASLt
    "matmul": "MatMul",
    "gemm": "Gemm com.microsoft:FusedGemm",
    "fused_matmul": "com.microsoft:FusedMatMul",
    "matmul_nbits": "com.microsoft:MatMulNBits",
    "quantized_matmul": (
        "MatMulInteger QLinearMatMul com.microsoft:DynamicQuantizeMatMul com.microsoft:MatMulIntegerToFloat"
    ),
    "group_query_attention": "com.microsoft:GroupQueryAttention",
    "paged_attention": "com.microsoft:PagedAttention",
}
"""Module to operators, with the domain and a colon in front unless that is ``ai.onnx``. A module with no operator is
not imported."""


_LIBRARY = LibraryKernels()


class CudaKernels(KernelCatalog):
    """Our kernels in front of the library's.

    Args:
        ask: What the session wants; factories of ours read it, see `settings`. The defaults where None.
    """

    def __init__(self, ask: Callable[[], Settings] | None = None) -> None:
        self._ask = ask or Settings

    def kernels_of(self, domain: str, op_type: str) -> Sequence[KernelDef]:
        ours = our_kernels(domain, op_type)
        library = without(_LIBRARY.kernels_of(domain, op_type), ours)
        return [*(with_settings(definition, self._ask) for definition in ours), *library]

    def __iter__(self) -> Iterator[KernelDef]:
        operators = dict.fromkeys(_families_of())
        operators.update(dict.fromkeys((one.domain, one.op_type) for one in _LIBRARY))
        for domain, op_type in operators:
            yield from self.kernels_of(domain, op_type)


def our_kernels(domain: str, op_type: str) -> list[KernelDef]:
    """The kernels of this package for an operator; imports their modules."""
    return [
        definition
        for family in _families_of().get((domain, op_type), ())
        for definition in _declared(family)
        if (definition.domain, definition.op_type) == (domain, op_type)
    ]


def library_kernel(node: NodeSpec) -> KernelDef | None:
    """The array library's kernel for a node, None where it has none.

    For a factory of ours that cannot serve a node it declares for: ``library_kernel(ctx.node).factory(ctx)``. The
    planner reads the declaration of ours, which must then declare as much as the library's: views, host inputs, host
    outputs; and `out` only where the library's does.
    """
    for definition in _LIBRARY.kernels_of(node.domain, node.op_type):
        if definition.since <= node.since_version <= definition.last and all(
            node.type_bindings.get(variable, None) in {None, *allowed} for variable, allowed in definition.types.items()
        ):
            return definition
    return None


@cache
def _declared(family: str) -> tuple[KernelDef, ...]:
    return tuple(kernel_defs(import_module(f"{__package__}.{family}")))


@cache
def _families_of() -> dict[tuple[str, str], list[str]]:
    return families_by_operator(FAMILIES)
