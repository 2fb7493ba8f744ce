"""BiasGelu and FastGelu of com.microsoft: one expression, compiled as a region of one node.

The sum and the function are computed where each element is loaded, vectors of 16 bytes at a time.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.contracts.kernel import kernel_defs as declared
from ort_py.dtypes import numpy_dtype
from ort_py_array.contrib import activations as library
from ort_py_cuda.kernels.covering import FLOATS, covering
from ort_py_cuda.regions.operators import emit
from ort_py_cuda.regions.program import Builder, Input
from ort_py_cuda.regions.region import RegionContext, elementwise

__all__ = ["KERNELS", "bias_gelu"]


def bias_gelu(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """BiasGelu-1 and FastGelu-1; a bias that does not fit is the library's to refuse."""
    node = ctx.node
    first = node.inputs[0]
    if first is None or first.data_type is None:
        return general
    builder = Builder()
    dtype = numpy_dtype(first.data_type).name
    count = sum(value is not None for value in node.inputs)
    terms = [builder.put(Input(place, dtype)) for place in range(count)]
    result = emit(builder, node, terms, lambda _index: None)
    region = elementwise(builder.finish([result], [False], 0), RegionContext(ctx.xp, ctx.xp.empty), node.location)

    def run(x: Array, *rest: Array | None) -> Array:
        bias = rest[0] if count > 1 else None
        if bias is not None and (x.ndim == 0 or tuple(bias.shape) != tuple(x.shape[-1:]) or bias.dtype != x.dtype):
            return general(x, *rest)
        (y,) = region.run(x) if bias is None else region.run(x, bias)
        return y

    return run


KERNELS: list[KernelDef] = covering(
    declared(library), ("BiasGelu", "FastGelu"), bias_gelu, types=FLOATS, out=False, inplace=()
)
