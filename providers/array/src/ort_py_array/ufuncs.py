"""Declaring operators that are one function of the array module: no code of our own runs between engine and ufunc.

`ufunc` is for functions that take their output as a further positional argument. Family modules put the result into
their ``KERNELS`` lists. It does not depend on operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.dtypes import DataType
from ort_py_array.broadcasting import aligned, broadcast_shape
from ort_py_array.pointwise import blocked

__all__ = ["extremum", "legacy_ufunc", "ufunc"]


def ufunc(
    op_type: str,
    name: str,
    *,
    since: int,
    until: int | None = None,
    inputs: int,
    inplace: bool = True,
    types: Mapping[str, frozenset[str]] | None = None,
) -> KernelDef:
    """An operator that is the bare ufunc `name` of the array module.

    Args:
        op_type: Operator.
        name: Name of the ufunc in NumPy and CuPy.
        since, until, types: As in `KernelDef`.
        inputs: 1 or 2.
        inplace: Whether the result may overwrite an input: not where the element types differ.
    """
    return KernelDef(
        op_type=op_type,
        factory=partial(_module_function, name),
        since=since,
        until=until,
        types=types or {},
        out=True,
        inplace=tuple((index, 0) for index in range(inputs)) if inplace else (),
        strided=True,
        output_shape=broadcast_shape if inputs > 1 else None,
        implementation=f"ufunc:{name}",
    )


_SLOW_IN_HALF = frozenset({"ceil", "floor", "rint"})
"""Functions that NumPy computes of float16 one by one. In float32 they take a third of the time, and are as exact."""


def _module_function(name: str, ctx: KernelContext) -> KernelCallable:
    function: KernelCallable = getattr(ctx.xp, name)
    if name in _SLOW_IN_HALF and ctx.device == HOST:
        value = ctx.node.inputs[0]
        if value is not None and value.data_type is DataType.FLOAT16:
            return blocked(ctx, function)
    return function


def legacy_ufunc(
    op_type: str, name: str, *, until: int, types: Mapping[str, frozenset[str]] | None = None
) -> KernelDef:
    """A binary operator before opset 7, whose `axis` and `broadcast` attributes say how shapes meet."""
    return KernelDef(
        op_type=op_type,
        factory=partial(_legacy_factory, name),
        since=1,
        until=until,
        types=types or {},
        strided=True,
        implementation=f"ufunc:{name}",
    )


def _legacy_factory(name: str, ctx: KernelContext) -> KernelCallable:
    function = getattr(ctx.xp, name)
    axis, broadcast = ctx.node.attributes.get("axis"), ctx.node.attributes.get("broadcast", 0)
    where = ctx.node.location

    def run(a: Array, b: Array) -> Array:
        return function(a, aligned(a, b, axis, broadcast, where))

    return run


def extremum(function: Any) -> KernelCallable:
    """`maximum` or `minimum` with a positional output, which NumPy 2.4 deprecated for these two alone.

    See https://numpy.org/doc/stable/release/2.4.0-notes.html; a keyword costs 0.1 µs a call more.
    """

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        return function(a, b) if out is None else function(a, b, out=out)

    return run
