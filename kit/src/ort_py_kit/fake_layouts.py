"""The fake device's kernels for data with the channels last: the standard ones between Transposes.

What a provider gets that prefers such a layout. It shows where Transposes are left in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ort_py.contracts import CHANNELS_LAST, KernelContext, KernelDef


def channels_last_kernels(kernels: Sequence[KernelDef], operators: Collection[str]) -> list[KernelDef]:
    """Kernels of the other form.

    Args:
        kernels: Kernels of the standard form, with one input that is data, the first.
    """
    return [
        KernelDef(one.op_type, _factory(one), domain=CHANNELS_LAST, strided=True)
        for one in kernels
        if one.op_type in operators and not one.domain
    ]


def _factory(definition: KernelDef) -> Callable[[KernelContext], Callable[..., Any]]:
    def factory(ctx: KernelContext) -> Callable[..., Any]:
        call, xp = definition.factory(ctx), ctx.xp

        def turned(x: Any, *others: Any) -> Any:
            return xp.moveaxis(call(xp.moveaxis(x, -1, 1), *others), 1, -1).copy()

        return turned

    return factory
