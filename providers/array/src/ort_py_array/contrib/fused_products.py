"""FusedMatMul, FusedGemm and FusedConv: a product and what follows it in one node.

`matmul` and `convolution` do the work; here is only what the fused nodes add: transposed and batch-transposed operands
that BLAS reads as they stand, and activations applied to the result in place, before narrow floats are rounded.
"""

from __future__ import annotations

from collections.abc import Callable

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import shape_error
from ort_py_array.contrib.fused_activation import activation_of
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.convolution import conv
from ort_py_array.matmul import gemm, matmul
from ort_py_array.precision import widened

__all__ = ["KERNELS", "fused_conv", "fused_gemm", "fused_matmul", "operand_view"]


def fused_matmul(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.FusedMatMul-1: ``alpha · A' @ B'``.

    ``transBatch`` moves the first axis of an operand behind its batch axes, ``trans`` then swaps the last two; neither
    touches a vector. Raises InvalidArgument where the shapes do not fit.
    """
    product = matmul(ctx, ctx.node.attributes.get("alpha", 1.0), as_given=False)
    left, right = (operand_view(ctx, side) for side in "AB")

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        return product(left(a), right(b), out)

    return run


def operand_view(ctx: KernelContext, side: str) -> Callable[[Array], Array]:
    """An operand of FusedMatMul as the product takes it, for any module's product.

    Args:
        ctx: Context of the node.
        side: ``A`` or ``B``.
    """
    xp, attributes = ctx.xp, ctx.node.attributes
    swap, batch = bool(attributes.get(f"trans{side}", 0)), bool(attributes.get(f"transBatch{side}", 0))

    def view(x: Array) -> Array:
        if x.ndim < 2:
            return x
        if batch:
            x = xp.moveaxis(x, 0, -2)
        return xp.swapaxes(x, -1, -2) if swap else x

    return view


def fused_gemm(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.FusedGemm-1: Gemm and an activation with its parameters in ``activation_alpha`` and so on.

    Raises InvalidArgument for unknown activations, and for those of integers that are not defined on integers.
    """
    attributes = ctx.node.attributes
    name, kind = attributes.get("activation"), ctx.node.type_bindings.get("T", "")
    if name and name != "Relu" and "int" in kind:
        raise InvalidArgument(
            f"The activation {name} of a {kind}.",
            where=ctx.node.location,
            why="its values are not integers",
            fix="Use Relu, or none, or floating-point matrices.",
        )
    given = {name: attributes.get(f"activation_{name}") for name in ("alpha", "beta", "gamma")}
    known = {name: value for name, value in given.items() if value is not None}
    return gemm(ctx, activation_of(ctx, name, known))


def fused_conv(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.FusedConv-1: Conv, plus Z of the result's shape where there is one, and an activation.

    Raises InvalidArgument where Z has another shape, and what Conv raises.
    """
    xp = ctx.xp
    attributes = ctx.node.attributes
    activate = activation_of(ctx, attributes.get("activation"), attributes.get("activation_params", ()))

    def finish(out: Array, z: Array | None = None) -> None:
        if z is not None:
            if z.shape != out.shape:
                raise shape_error(
                    "Z must have the shape of the convolution's result.", ctx.node.location, [z.shape, out.shape]
                )
            xp.add(out, widened(xp, z), out=out)
        if activate is not None:
            activate(out)

    return conv(ctx, finish)


KERNELS = [
    KernelDef(
        name,
        factory,
        domain=DOMAIN,
        since=1,
        out=True,
        strided=strided,
        implementation=f"{__name__}:{factory.__name__}",
    )
    for name, factory, strided in (
        ("FusedMatMul", fused_matmul, True),
        ("FusedGemm", fused_gemm, True),
        ("FusedConv", fused_conv, False),
    )
]
