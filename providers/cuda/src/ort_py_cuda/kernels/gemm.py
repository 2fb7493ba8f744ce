"""Gemm, and FusedGemm of com.microsoft, by cuBLASLt: what is added and the activation are part of the product.

One entry per column is the library's bias; a matrix is its C; all else is spread over the result first, which then is
C. Relu is an epilogue. Other activations are computed in place in the type that was added up in, before rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.fused_activation import activation_of
from ort_py_array.two_forms import two_forms
from ort_py_cuda.cublaslt.elements import Epilogue
from ort_py_cuda.cublaslt.products import multiply
from ort_py_cuda.kernels.matmul import FLOATS
from ort_py_cuda.settings import current

__all__ = ["KERNELS", "fused_gemm", "gemm"]


def gemm(ctx: KernelContext, activation: str = "", finish: Callable[[Array], Any] | None = None) -> KernelCallable:
    """Gemm 7–13: ``alpha · A' · B' + beta · C``; narrow floats are accumulated in float32 and rounded once.

    Args:
        ctx: Context of the node.
        activation: Name of what follows; "Relu" costs nothing.
        finish: Does in place what follows where that is not Relu.
    """
    xp, attributes = ctx.xp, ctx.node.attributes
    alpha, beta = float(attributes.get("alpha", 1.0)), float(attributes.get("beta", 1.0))
    turned_a, turned_b = bool(attributes.get("transA", 0)), bool(attributes.get("transB", 0))
    tf32 = current().tf32
    epilogue = Epilogue.RELU if activation == "Relu" else Epilogue.DEFAULT

    def run(a: Array, b: Array, c: Array | None = None, out: Array | None = None) -> Array:
        left, right = a.T if turned_a else a, b.T if turned_b else b
        shape = _shape(ctx, left, right, None if beta == 0.0 else c)
        ctx.check_allocation(shape, a.dtype)
        # The following steps are computed before rounding, so the product is not rounded either.
        dtype = xp.dtype(xp.float32) if finish is not None and a.dtype.itemsize == 2 else a.dtype
        y = out if out is not None and dtype == a.dtype else xp.empty(shape, dtype)
        bias, added = None, None
        if c is not None and beta != 0.0:
            c = c.astype(dtype, copy=False)
            if _is_bias(c, shape) and beta == 1.0 and dtype.name != "float64":
                bias = xp.ascontiguousarray(c.reshape(-1))
            elif c.shape == shape and c.flags.c_contiguous:
                added = c
            else:
                y[...] = c
                added = y
        multiply(
            left, right, y, bias=bias, added=added, alpha=alpha, beta=beta, epilogue=epilogue, result=dtype, tf32=tf32
        )
        if finish is not None:
            finish(y)
        if y is out or (out is None and dtype == a.dtype):
            return y
        if out is None:
            return y.astype(a.dtype)
        out[...] = y
        return out

    return two_forms(ctx, run)


def _is_bias(c: Array, shape: tuple[int, ...]) -> bool:
    """Return whether there is one entry per column, the same for all rows."""
    return bool(c.size == shape[1] and c.ndim and c.shape[-1] == shape[1])


def _shape(ctx: KernelContext, left: Array, right: Array, c: Array | None) -> tuple[int, int]:
    """Shape of the result.

    Raises:
        InvalidArgument: The operands are not two matrices that fit, or C does not broadcast to the result.
    """
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise InvalidArgument(
            f"Cannot multiply matrices of shapes {list(left.shape)} and {list(right.shape)} (transposed as the node "
            "says).",
            where=ctx.node.location,
            fix="Both must have rank 2 and the inner dimensions must be equal.",
        )
    shape = (left.shape[0], right.shape[1])
    if c is not None and (
        c.ndim > 2 or any(s not in (1, t) for s, t in zip(reversed(c.shape), reversed(shape), strict=False))
    ):
        raise InvalidArgument(
            f"C has shape {list(c.shape)}, which does not broadcast to {list(shape)}.",
            where=ctx.node.location,
            fix="Give C a shape that broadcasts to the product's, e.g. one entry per column.",
        )
    return shape


def fused_gemm(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.FusedGemm-1: Gemm and an activation with its parameters in ``activation_alpha`` and so on.

    Raises InvalidArgument for unknown activations.
    """
    attributes = ctx.node.attributes
    name = attributes.get("activation") or ""
    if name in ("", "Relu"):
        return gemm(ctx, name)
    given = {one: attributes.get(f"activation_{one}") for one in ("alpha", "beta", "gamma")}
    return gemm(ctx, name, activation_of(ctx, name, {one: value for one, value in given.items() if value is not None}))


_FUSED = tensors(DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16)

KERNELS = [
    KernelDef(
        "Gemm",
        gemm,
        since=7,
        until=13,
        types={"T": FLOATS},
        out=True,
        strided=True,
        implementation=f"{__name__}:gemm",
    ),
    KernelDef(
        "FusedGemm",
        fused_gemm,
        domain="com.microsoft",
        since=1,
        types={"T": _FUSED},
        out=True,
        strided=True,
        implementation=f"{__name__}:fused_gemm",
    ),
]
