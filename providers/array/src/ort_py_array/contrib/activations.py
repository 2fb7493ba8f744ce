"""com.microsoft's Gelu, QuickGelu, and with a bias BiasGelu and FastGelu.

The formulas are `activation`'s; what is new is the bias, which is added block by block. It is independent of graphs:
fusing is the optimiser's task.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.activation import gelu, swish
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.pointwise import blocked_with_bias, pointwise

__all__ = ["KERNELS", "bias_gelu", "contrib_gelu", "fast_gelu", "quick_gelu"]


@pointwise("Gelu", domain=DOMAIN, since=1)
def contrib_gelu(xp: Any, x: Array, out: Array) -> None:
    """com.microsoft.Gelu-1: ``x * (1 + erf(x / sqrt 2)) / 2``."""
    gelu(xp, x, out)


@pointwise("QuickGelu", domain=DOMAIN, since=1)
def quick_gelu(xp: Any, x: Array, out: Array, *, alpha: float = 1.7020000219345093) -> None:
    """com.microsoft.QuickGelu-1: ``x * sigmoid(alpha * x)``; attributes are float32, and so is the default of 1.702."""
    swish(xp, x, out, alpha=alpha)


def bias_gelu(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.BiasGelu-1: Gelu of ``x + bias``, the bias being as long as the last axis.

    Raises:
        InvalidArgument: It is not.
    """
    return blocked_with_bias(ctx, partial(gelu, ctx.xp))


def fast_gelu(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.FastGelu-1: Gelu's approximation by tanh, of ``x + bias`` where there is a bias.

    Raises:
        InvalidArgument: The bias is not as long as the last axis.
    """
    return blocked_with_bias(ctx, partial(gelu, ctx.xp, approximate="tanh"))


KERNELS = [
    KernelDef(
        name,
        factory,
        domain=DOMAIN,
        since=1,
        out=True,
        inplace=((0, 0),),
        implementation=f"{__name__}:{factory.__name__}",
    )
    for name, factory in (("BiasGelu", bias_gelu), ("FastGelu", fast_gelu))
]
