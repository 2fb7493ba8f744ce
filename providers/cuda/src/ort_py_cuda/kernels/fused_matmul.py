"""FusedMatMul of com.microsoft by cuBLASLt: a factor and transposed operands, which cost nothing."""

from __future__ import annotations

from collections.abc import Callable

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
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
    left, right = _viewed(ctx, "A"), _viewed(ctx, "B")

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        a, b = left(a), right(b)
        ctx.check_allocation(matmul_shape(ctx, a, b), a.dtype)
        return multiply(a, b, out, alpha=alpha, tf32=tf32)

    return run


def _viewed(ctx: KernelContext, side: str) -> Callable[[Array], Array]:
    xp, attributes = ctx.xp, ctx.node.attributes
    swap, batch = bool(attributes.get(f"trans{side}", 0)), bool(attributes.get(f"transBatch{side}", 0))

    def view(x: Array) -> Array:
        if x.ndim < 2:
            return x
        if batch:
            x = xp.moveaxis(x, 0, -2)
        return xp.swapaxes(x, -1, -2) if swap else x

    return view


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
