"""MatMul of floating-point arrays by cuBLASLt. Integers are left to the array library, where CuPy multiplies them."""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py_array.matmul import matmul_shape
from ort_py_cuda.cublaslt.products import multiply
from ort_py_cuda.settings import current

__all__ = ["FLOATS", "KERNELS", "matmul"]

FLOATS = tensors(DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16)
"""What cuBLASLt multiplies and ONNX's products take."""


def matmul(ctx: KernelContext) -> KernelCallable:
    """MatMul 1–13: as numpy.matmul; narrow floats are accumulated in float32 and rounded once.

    float32 is multiplied as TF32 only with the provider's option. Raises InvalidArgument where shapes do not fit.
    """
    tf32 = current().tf32

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        ctx.check_allocation(matmul_shape(ctx, a, b), a.dtype)
        return multiply(a, b, out, tf32=tf32)

    return run


KERNELS = [
    KernelDef(
        "MatMul",
        matmul,
        since=1,
        until=13,
        types={"T": FLOATS},
        out=True,
        strided=True,
        implementation=f"{__name__}:matmul",
    )
]
