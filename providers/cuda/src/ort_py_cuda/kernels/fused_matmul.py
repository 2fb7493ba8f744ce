"""FusedMatMul of com.microsoft by cuBLASLt: a factor and transposed operands, which cost nothing."""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.contrib.fused_products import operand_view
from ort_py_array.matmul import matmul_shape
from ort_py_cuda.cublaslt.products import multiply
from ort_py_cuda.kernels.matmul import FLOATS
from ort_py_cuda.settings import current

__all__ = ["KERNELS", "fused_matmul"]


def fused_matmul(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.FusedMatMul-1: ``alpha · A' @ B'``.

    ``transBatch`` moves the first axis of an operand behind its batch axes, ``trans`` then swaps the last two; neither
    touches a vector. Raises InvalidArgument where the shapes do not fit.
    """
    alpha = float(ctx.node.attributes.get("alpha", 1.0))
    tf32 = current().tf32
    left, right = operand_view(ctx, "A"), operand_view(ctx, "B")

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        a, b = left(a), right(b)
        ctx.check_allocation(matmul_shape(ctx, a, b), a.dtype)
        return multiply(a, b, out, alpha=alpha, tf32=tf32)

    return run


KERNELS = [
    KernelDef(
        "FusedMatMul",
        fused_matmul,
        domain="com.microsoft",
        since=1,
        types={"T": FLOATS},
        out=True,
        strided=True,
        implementation=f"{__name__}:fused_matmul",
    )
]
