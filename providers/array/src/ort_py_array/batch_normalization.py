"""BatchNormalization: one multiplication and one addition in inference, statistics of the batch in training mode."""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.dtypes import float_attribute
from ort_py.errors import InvalidArgument
from ort_py_array.precision import rounded, widened

__all__ = ["KERNELS", "batch_normalization"]


def batch_normalization(ctx: KernelContext) -> KernelCallable:
    """BatchNormalization 1–15: ``(x - mean) / sqrt(var + epsilon) · scale + bias``, by channel.

    With ``spatial`` 0 (until 7) the parameters hold one entry per position instead. In training mode mean and variance
    are the batch's; the running ones are the second and third output, until 9 followed by the batch's. Training is
    asked for by ``is_test`` 0 (1, 6), by outputs besides the first (7, 9) or by ``training_mode`` (14, 15). Where the
    parameters are constants, they become one factor and one summand when the session is planned.

    Raises:
        InvalidArgument: A parameter's shape does not fit the input.
    """
    xp = ctx.xp
    attributes = ctx.node.attributes
    epsilon = attributes.get("epsilon", float_attribute(1e-5))
    momentum = attributes.get("momentum", float_attribute(0.9))
    count = len(ctx.node.outputs)
    by_position = not attributes.get("spatial", 1)
    training = _trains(ctx)
    constants = [ctx.constant(index) for index in range(1, 5)]
    prepared: tuple[Array, Array] | None = None
    if not training and not by_position and all(constant is not None for constant in constants):
        known = [xp.asarray(constant) for constant in constants]
        prepared = _folded(xp, known[0], known[1], known[2], known[3], epsilon)

    def run(x: Array, scale: Array, bias: Array, mean: Array, var: Array, *outs: Array) -> tuple[Any, ...]:
        for name, parameter in (("scale", scale), ("B", bias), ("mean", mean), ("var", var)):
            wanted = tuple(x.shape[1:]) if by_position else tuple(x.shape[1:2]) or (1,)
            if tuple(parameter.shape) != wanted:
                raise InvalidArgument(
                    f"{name} has shape {list(parameter.shape)} instead of {list(wanted)}; the input has shape "
                    f"{list(x.shape)}.",
                    where=ctx.node.location,
                    fix=f"Give it the shape {list(wanted)}.",
                )
        wide = widened(xp, x)
        more: tuple[Any, ...] = (None,) * 4
        if training:
            axes = (0,) if by_position else tuple(axis for axis in range(x.ndim) if axis != 1)
            if wide.size:
                seen_mean, seen_var = xp.mean(wide, axis=axes), xp.var(wide, axis=axes)
            else:
                seen_mean = seen_var = xp.sum(wide, axis=axes) * xp.nan
            more = (
                rounded(widened(xp, mean) * momentum + seen_mean * (1 - momentum), mean.dtype),
                rounded(widened(xp, var) * momentum + seen_var * (1 - momentum), var.dtype),
                rounded(seen_mean, mean.dtype),
                rounded(seen_var, var.dtype),
            )
            factor, summand = _folded(xp, scale, bias, seen_mean, seen_var, epsilon)
        else:
            factor, summand = prepared or _folded(xp, scale, bias, mean, var, epsilon)
        shape = factor.shape if by_position or x.ndim < 2 else (-1,) + (1,) * (x.ndim - 2)
        factor = factor.reshape(shape).astype(wide.dtype, copy=False)
        summand = summand.reshape(shape).astype(wide.dtype, copy=False)
        if not outs:
            y = xp.multiply(wide, factor)
            return rounded(xp.add(y, summand, y), x.dtype), *more[: count - 1]
        y = xp.multiply(wide, factor, outs[0] if wide.dtype == x.dtype else None)
        rounded(xp.add(y, summand, y), x.dtype, outs[0])
        for out, result in zip(outs[1:], more, strict=False):
            out[...] = result
        return outs

    return run


def _trains(ctx: KernelContext) -> bool:
    attributes, outputs = ctx.node.attributes, ctx.node.outputs
    if ctx.node.since_version < 7:
        return not attributes.get("is_test", 0)
    if ctx.node.since_version < 14:
        return any(output is not None for output in outputs[1:])
    return bool(attributes.get("training_mode", 0))


def _folded(xp: Any, scale: Array, bias: Array, mean: Array, var: Array, epsilon: float) -> tuple[Array, Array]:
    """(factor, summand): float64 on the few parameters costs nothing and keeps the result within one rounding."""
    wide = [parameter.astype(xp.float64) for parameter in (scale, bias, mean, var)]
    factor = wide[0] / xp.sqrt(wide[3] + epsilon)
    return factor, wide[1] - wide[2] * factor


KERNELS = [
    KernelDef(
        "BatchNormalization",
        batch_normalization,
        since=since,
        until=until,
        outputs=None,
        out=True,
        inplace=((0, 0),),
        implementation=f"{__name__}:batch_normalization",
    )
    for since, until in ((1, 9), (14, 15))
]
