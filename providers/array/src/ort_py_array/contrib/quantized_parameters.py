"""Scales and zero points of the quantised operators of com.microsoft: one value each, or one per column.

Read by the families beside it before they compute. It is independent of operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py_array.checks import constant_input

__all__ = ["constants", "single", "zero_or"]


def single(ctx: KernelContext, index: int, value: Array) -> Array:
    """The one value of a scale or zero point, of shape ``()``.

    Args:
        ctx: Context of the node.
        index: Which input it is, for the message.
        value: Any array of one element.

    Raises:
        InvalidArgument: It has more or fewer elements.
    """
    if value.size != 1:
        given = ctx.node.inputs[index]
        raise InvalidArgument(
            f"Input {index} ('{given.name if given is not None else ''}') has shape {list(value.shape)}; "
            f"{ctx.node.op_type} knows one scale and one zero point a tensor.",
            where=ctx.node.location,
            fix="Give it one element.",
        )
    return value.reshape(())


def zero_or(ctx: KernelContext, index: int, value: Array | None, like: Any) -> Array:
    """`single` of a zero point that may be absent: then 0 in the dtype `like`."""
    return ctx.xp.zeros((), like) if value is None else single(ctx, index, value)


def constants(ctx: KernelContext, indices: Iterable[int]) -> Sequence[Array | None] | None:
    """These inputs as arrays of the node's module where all that are present are known when it is bound, else None."""
    found: list[Array | None] = []
    for index in indices:
        value = constant_input(ctx, index)
        if value is None and index < len(ctx.node.inputs) and ctx.node.inputs[index] is not None:
            return None
        found.append(None if value is None else ctx.xp.asarray(value))
    return found
