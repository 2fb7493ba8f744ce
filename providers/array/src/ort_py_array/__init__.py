"""The operator library: ONNX kernels written once over an array module `xp` that is NumPy or CuPy.

Providers call `kernel_defs` for their registry and give each kernel their array module through its context. This
package knows no provider, no engine and no device; it names NumPy itself only for results that belong on the host.
Family modules are listed here by name and imported on the first call, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module

from ort_py.contracts.kernel import KernelDef
from ort_py.contracts.kernel import kernel_defs as _collect

__all__ = ["FAMILIES", "kernel_defs"]

FAMILIES = (
    "arithmetic",
    "comparison",
    "math_functions",
    "activation",
    "clipping",
    "softmax",
    "casting",
    "generation",
    "reduction",
    "arg_reduction",
    "accumulation",
    "shape",
    "movement",
    "slicing",
    "padding",
    "gather",
    "scatter",
    "selection",
    "sequences",
    "optionals",
    "ordering",
    "dropout",
    "matmul",
    "convolution",
    "pooling",
    "resize",
    "normalization",
    "recurrent",
    "attention.attention",
    "attention.flex_attention",
    "attention.rotary_embedding",
    "attention.tensor_scatter",
    "attention.swiglu",
    "attention.linear_attention",
    "attention.causal_convolution",
    "quantization",
    "classic_ml.linear",
    "classic_ml.scaling",
    "classic_ml.features",
    "classic_ml.lookup",
    "classic_ml.maps",
    "classic_ml.trees",
    "classic_ml.svm",
    "text.string_operators",
    "text.regex",
    "text.tfidf",
    "text.tokenizer",
    "random_numbers",
    "determinant",
    "losses",
    "training",
    "signal.dft",
    "signal.stft",
    "signal.weightings",
    "vision.affine_grid",
    "vision.center_crop_pad",
    "vision.col2im",
    "vision.grid_sample",
    "vision.roi_align",
    "vision.max_roi_pool",
    "vision.max_unpool",
    "vision.deform_conv",
    "vision.non_max_suppression",
    "vision.image_decoder",
    "contrib.activations",
    "contrib.fused_products",
    "contrib.normalization",
    "contrib.general",
    "contrib.distances",
    "contrib.block_quantized",
    "contrib.gather_block_quantized",
    "contrib.experts",
    "contrib.dynamic_quantize_lstm",
    "contrib.quantize_linear",
    "contrib.quantized_elementwise",
    "contrib.quantized_lookup",
    "contrib.quantized_softmax",
    "contrib.quantized_products",
    "contrib.quantized_pooling",
    "contrib.quantized_embedding",
    "contrib.generation.greedy",
    "contrib.generation.sampling",
    "contrib.generation.beam_search",
    "contrib.attention",
    "contrib.multi_head_attention",
    "contrib.group_query_attention",
    "contrib.sparse_attention",
    "contrib.rotary",
    "contrib.linear_attention",
    "contrib.quantized_attention",
)
"""Modules that declare kernels. A new family is a file in this folder and a name in this list."""


def kernel_defs() -> list[KernelDef]:
    """All kernels of the library, in the order of `FAMILIES` and of their definitions."""
    return _collect(*(import_module(f"{__name__}.{name}") for name in FAMILIES))
