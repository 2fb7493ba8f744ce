"""BatchNormalization in inference and InstanceNormalization through cuDNN.

BatchNormalization is one of cuDNN's older calls, in both layouts, with parameters in float32; training, and parameters
by position, are the array library's. InstanceNormalization is a graph of the front end.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelFactory, tensors
from ort_py.dtypes import DataType
from ort_py_cuda.cudnn import graphs, legacy
from ort_py_cuda.cudnn.element_types import SUPPORTED, type_name
from ort_py_cuda.cudnn.errors import Unsupported
from ort_py_cuda.cudnn.frontend import missing_frontend
from ort_py_cuda.cudnn.library import cudnn, missing_library
from ort_py_cuda.cudnn.plans import Plan, shared_plans
from ort_py_cuda.kernels.pictures import (
    CHANNELS_LAST,
    InStandardForm,
    addresses,
    aligned,
    described,
    first_sizes,
    holds_last,
    vector,
)
from ort_py_cuda.kernels.standing import note_fallback, over_library

__all__ = ["KERNELS", "batch_normalization", "instance_normalization"]

_REMEMBERED = 16
"""Shapes whose call a node keeps; a dictionary that stops growing is safe to share between threads."""


def _trains(ctx: KernelContext) -> bool:
    """Return whether statistics are the batch's, which each version of the operator asks for in its own way."""
    attributes, version = ctx.node.attributes, ctx.node.since_version
    if holds_last(ctx.node) or version >= 14:
        return bool(attributes.get("training_mode", 0))
    if version < 7:
        return not attributes.get("is_test", 0)
    return any(output is not None for output in ctx.node.outputs[1:])


def batch_normalization(ctx: KernelContext, library: KernelFactory | None = None) -> KernelCallable:
    """BatchNormalization 1–15 in either layout, in inference: ``(x - mean) / sqrt(var + epsilon) · scale + bias``."""
    attributes = ctx.node.attributes
    several = not holds_last(ctx.node)
    outputs = len(ctx.node.outputs)
    missing = missing_library()
    if missing is None and (_trains(ctx) or not attributes.get("spatial", 1)):
        missing = "it trains, or has parameters by position"
    if library is not None and missing is not None:
        note_fallback(ctx, missing)
        return library(ctx)
    xp, last = ctx.xp, holds_last(ctx.node)
    epsilon = float(attributes.get("epsilon", 1e-5))
    known: dict[Any, legacy.BatchNorm | str] = {}
    standard = InStandardForm(ctx)

    def made(x: Array, parameters: tuple[Array, ...]) -> legacy.BatchNorm | str:
        sizes, dtype = first_sizes(x.shape, last) if x.ndim > 1 else x.shape, type_name(x)
        if missing is not None:
            return missing
        if dtype not in SUPPORTED or not 3 <= len(sizes) <= 5 or 0 in sizes:
            return f"{dtype} of shape {list(x.shape)}"
        if any(tuple(one.shape) != (sizes[1],) for one in parameters):
            return "parameters that do not fit"  # the array library says which
        try:
            return legacy.BatchNorm(
                cudnn(), described("x", sizes, dtype, last), described("y", sizes, dtype, last), epsilon
            )
        except Unsupported as refusal:
            return "; ".join((refusal.what, *refusal.why))

    def run(x: Array, scale: Array, bias: Array, mean: Array, var: Array, *outs: Array) -> Any:
        parameters = (scale, bias, mean, var)
        key = (x.shape, x.dtype.num, *(one.shape for one in parameters))
        call = known.get(key)
        if call is None:
            call = made(x, parameters)
            if len(known) < _REMEMBERED:
                known[key] = call
        y: Array | None = None
        if not isinstance(call, str):
            y = outs[0] if outs else xp.empty(x.shape, x.dtype)
            # A few numbers a channel: halves are widened on each call, kept alive until it is enqueued.
            given = aligned(xp, x, *(one.astype(xp.float32, copy=False) for one in parameters))
            try:
                call(xp, ctx.device.index, addresses(*given, y))
            except Unsupported as refusal:
                call = known[key] = "; ".join((refusal.what, *refusal.why))
        if isinstance(call, str):
            y = standard(call, x, *parameters, out=outs[0] if outs else None)
        if not several:
            return y
        return outs or (y, *(None,) * (outputs - 1))

    return run


def instance_normalization(ctx: KernelContext, library: KernelFactory | None = None) -> KernelCallable:
    """InstanceNormalization 1–22: each channel of each picture standardised over its space, scaled and shifted."""
    missing = missing_frontend()
    if library is not None and missing is not None:
        note_fallback(ctx, missing)
        return library(ctx)
    xp = ctx.xp
    epsilon = float(ctx.node.attributes.get("epsilon", 1e-5))
    known: dict[Any, Plan | str] = {}
    standard = InStandardForm(ctx)

    def made(x: Array, scale: Array, bias: Array, y: Array) -> Plan | str:
        sizes, dtype = tuple(x.shape), type_name(x)
        if dtype not in SUPPORTED or not 3 <= len(sizes) <= 5 or 0 in sizes:
            return f"{dtype} of shape {list(sizes)}"
        if scale.shape != bias.shape or tuple(scale.shape) != (sizes[1],):
            return "parameters that do not fit"  # the array library says which
        picture = described("x", sizes, dtype, last=False)
        graph = graphs.instance_norm(
            picture,
            vector("scale", sizes[1], picture, "float32"),
            vector("bias", sizes[1], picture, "float32"),
            described("y", sizes, dtype, last=False),
            epsilon,
        )
        given = aligned(xp, x, *(one.astype(xp.float32, copy=False) for one in (scale, bias)))
        try:
            return shared_plans().plan(xp, graph, ctx.device.index, addresses(*given, y))
        except Unsupported as refusal:
            return "; ".join((refusal.what, *refusal.why))

    def run(x: Array, scale: Array, bias: Array, out: Array | None = None) -> Array:
        key = (x.shape, x.dtype.num, scale.shape, bias.shape)
        plan = known.get(key)
        y = xp.empty(x.shape, x.dtype) if out is None else out
        if plan is None:
            plan = made(x, scale, bias, y)
            if len(known) < _REMEMBERED:
                known[key] = plan
        if isinstance(plan, str):
            return standard(plan, x, scale, bias, out=out)
        given = aligned(xp, x, *(one.astype(xp.float32, copy=False) for one in (scale, bias)))
        plan(xp, ctx.device.index, addresses(*given, y))
        return y

    return run


_FLOATS = tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)
_EACH = {"T": _FLOATS, "T1": _FLOATS, "T2": _FLOATS, "U": _FLOATS}

KERNELS = [
    *over_library("BatchNormalization", batch_normalization, types=_EACH),
    # Not in place, as the library's: x is read again after y has been begun.
    *over_library("InstanceNormalization", instance_normalization, types={"T": _FLOATS}, inplace=()),
    KernelDef(
        "BatchNormalization",
        batch_normalization,
        domain=CHANNELS_LAST,
        out=True,
        implementation=f"{__name__}:batch_normalization",
    ),
]
