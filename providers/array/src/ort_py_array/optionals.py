"""Optionals: a tensor or sequence that may be absent. Every element type.

In a slot an optional is the value itself or None, so wrapping and unwrapping move nothing, and whether there is an
element is known on the host without looking at a device.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np  # the answer is a host tensor, whatever the array module is

from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.errors import InvalidArgument

__all__ = ["optional", "optional_get_element", "optional_has_element"]


def optional(ctx: KernelContext) -> KernelCallable:
    """Optional-15..28: the input, which may be absent; then `type` says of what the optional is.

    Raises:
        InvalidArgument: There is neither an input nor a type.
    """
    if not any(ctx.node.inputs) and "type" not in ctx.node.attributes:
        raise InvalidArgument(
            "An empty Optional does not say what it could hold.",
            where=ctx.node.location,
            fix="Set its attribute 'type', or give it an input.",
        )
    return _itself


def _itself(value: Any = None) -> Any:
    return value


@kernel("OptionalHasElement", since=15, until=28, strided=True, host_outputs=frozenset({0}))
def optional_has_element(_ctx: KernelContext, value: Any = None) -> Any:
    """OptionalHasElement-15..28: whether there is an element, as a bool scalar on the host.

    From 18 on the input may be a tensor or a sequence, which there always is, or absent altogether.
    """
    return np.array(value is not None)


def optional_get_element(ctx: KernelContext) -> KernelCallable:
    """OptionalGetElement-15..28: the element. From 18 on a tensor or a sequence is its own element.

    Raises:
        InvalidArgument: In the call: there is none.
    """
    return partial(_element, ctx)


def _element(ctx: KernelContext, value: Any = None) -> Any:
    if value is None:
        raise InvalidArgument(
            "The optional is empty.",
            where=ctx.node.location,
            fix="Ask OptionalHasElement first, and branch with If.",
        )
    return value


KERNELS: list[KernelDef] = [
    KernelDef(
        "Optional",
        optional,
        since=15,
        until=28,
        views=((0, 0),),
        strided=True,
        implementation=f"{__name__}:optional",
    ),
    KernelDef(
        "OptionalGetElement",
        optional_get_element,
        since=15,
        until=28,
        views=((0, 0),),
        strided=True,
        implementation=f"{__name__}:optional_get_element",
    ),
]
