"""Kernels that write into given arrays: both forms of a callable from one function.

A kernel with a fixed number of inputs takes its output as one more positional argument and needs nothing of this. Where
inputs at the end may be left out, `two_forms` tells them from the output. It is independent of operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, KernelForms

__all__ = ["copied", "two_forms"]


def copied(xp: Any, x: Array, out: Array | None) -> Array:
    """What an operator that changes a few elements of `x` begins with: a C-contiguous copy.

    Args:
        out: Where to copy it; it may be `x`, which is then changed itself.
    """
    if out is None:
        return xp.array(x, order="C")
    if out is not x:
        out[...] = x
    return out


def two_forms(ctx: KernelContext, run: Callable[..., Any], *, known: bool = True) -> KernelForms:
    """The forms of ``run(*inputs, out=None)``.

    Args:
        ctx: Context of the node, which says how many inputs there are.
        run: Makes its output where `out` is None; a kernel whose node has several gets a tuple.
        known: Whether the shape of the output follows from those of the inputs; otherwise the kernel has only the first
            form.
    """
    count, single = len(ctx.node.inputs), len(ctx.node.outputs) == 1

    def into(*arrays: Array) -> Any:
        return run(*arrays[:count], out=arrays[count] if single else arrays[count:])

    return KernelForms(count, run, into if known else None)
