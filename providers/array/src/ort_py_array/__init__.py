"""The operator library: ONNX kernels written once over an array module `xp` that is NumPy or CuPy.

Providers call `kernel_defs` for their registry and give each kernel their array module through its context. This
package knows no provider, no engine and no device; it names NumPy itself only for results that belong on the host.
Family modules are listed here by name and imported on the first call, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

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
    "quantization",
    "classic_ml",
    "contrib.dynamic_quantize_lstm",
)
"""Modules that declare kernels. A new family is a file in this folder and a name in this list."""


def kernel_defs() -> list[KernelDef]:
    """All kernels of the library, in the order of `FAMILIES` and of their definitions."""
    present = [name for name in FAMILIES if find_spec(f"{__name__}.{name}") is not None]
    return _collect(*(import_module(f"{__name__}.{name}") for name in present))
