"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: how improbable the right classes were.

Both pick one class a sample, weigh it, and reduce; they differ in whether log-probabilities or scores come in. Narrow
floats are added up in float32. Labels are checked: on a device, a wrong one would silently read another score.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import ALL_FLOATS, KernelContext, kernel
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.checks import shape_error
from ort_py_array.precision import rounded, widened

__all__ = ["negative_log_likelihood_loss", "softmax_cross_entropy_loss"]

_REDUCTIONS = ("mean", "sum", "none")
_ELEMENTS = 1 << 15
"""Scores of one block: they are read several times."""


@kernel("NegativeLogLikelihoodLoss", since=12, until=22, types={"T": ALL_FLOATS})
def negative_log_likelihood_loss(
    ctx: KernelContext,
    x: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """NegativeLogLikelihoodLoss-12..22 of log-probabilities ``[n][class][…]`` and labels ``[n][…]``.

    Samples labelled `ignore_index` count nothing, in the mean's divisor neither.

    Raises:
        InvalidArgument: The shapes do not go together, a label is outside ``[0, class)`` and not ignored, or the
            reduction is unknown.
    """
    xp = ctx.xp
    _check(ctx, x, target, weight, reduction)
    labels, ignored = _labels(ctx, target, x.shape[1], ignore_index)
    picked = xp.take_along_axis(x, xp.expand_dims(labels, 1), axis=1).reshape(target.shape)
    return _reduced(ctx, widened(xp, picked), labels, ignored, weight, reduction, x.dtype)


@kernel("SoftmaxCrossEntropyLoss", since=12, until=13, types={"T": ALL_FLOATS}, outputs=2)
def softmax_cross_entropy_loss(
    ctx: KernelContext,
    scores: Array,
    labels: Array,
    weights: Array | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Array, Array | None]:
    """SoftmaxCrossEntropyLoss-12..13 of scores ``[n][class][…]`` and labels ``[n][…]``; if asked, log-probabilities.

    Raises:
        InvalidArgument: As for `negative_log_likelihood_loss`.
    """
    xp, outputs = ctx.xp, ctx.node.outputs
    _check(ctx, scores, labels, weights, reduction)
    safe, ignored = _labels(ctx, labels, scores.shape[1], ignore_index)
    wanted = len(outputs) > 1 and outputs[1] is not None
    wide_type = xp.dtype(xp.float32) if scores.itemsize == 2 else scores.dtype
    log_prob = xp.empty(scores.shape, scores.dtype) if wanted else None
    picked = xp.empty(labels.shape, wide_type)
    batch, row = scores.shape[0], prod(scores.shape[1:])

    def part(start: int, stop: int) -> None:
        for first in range(start, stop, some):
            rows = slice(first, min(first + some, stop))
            shifted = widened(xp, scores[rows])
            shifted = shifted - xp.max(shifted, axis=1, keepdims=True)
            total = xp.log(xp.sum(xp.exp(shifted), axis=1, keepdims=True))
            chosen = xp.take_along_axis(shifted, xp.expand_dims(safe[rows], 1), axis=1)
            picked[rows] = (chosen - total).reshape(picked[rows].shape)
            if log_prob is not None:
                shifted -= total
                log_prob[rows] = shifted

    if scores.size:
        some = max(1, _ELEMENTS // row) if ctx.device == HOST else batch
        ctx.parallel_for(batch, some, part)
    return _reduced(ctx, picked, safe, ignored, weights, reduction, scores.dtype), log_prob


def _check(ctx: KernelContext, x: Array, target: Array, weight: Array | None, reduction: str) -> None:
    where = ctx.node.location
    if x.ndim < 2 or tuple(target.shape) != (x.shape[0], *x.shape[2:]):
        raise shape_error(
            f"{ctx.node.op_type} needs scores [n][class][…] and labels [n][…].", where, [x.shape, target.shape]
        )
    if weight is not None and tuple(weight.shape) != (x.shape[1],):
        raise InvalidArgument(
            f"Weights of shape {list(weight.shape)} do not fit {x.shape[1]} classes.",
            where=where,
            fix="Give one weight a class.",
        )
    if reduction not in _REDUCTIONS:
        raise InvalidArgument(f"reduction is '{reduction}'.", where=where, fix=f"Use one of {', '.join(_REDUCTIONS)}.")


def _labels(ctx: KernelContext, target: Array, classes: int, ignore_index: int | None) -> tuple[Array, Array | None]:
    """(labels with 0 for ignored ones, where they are ignored or None); the labels are checked."""
    xp = ctx.xp
    ignored = None if ignore_index is None else xp.equal(target, ignore_index)
    labels = target if ignored is None else xp.where(ignored, 0, target)
    if labels.size == 0:
        return labels, ignored
    low, high = xp.min(labels).item(), xp.max(labels).item()
    if low < 0 or high >= classes:
        exception = "be marked by 'ignore_index'" if ignore_index is None else f"be {ignore_index}, which is ignored"
        raise InvalidArgument(
            f"Label {low if low < 0 else high} is out of range for {classes} classes.",
            where=ctx.node.location,
            fix=f"Labels must be in [0, {classes - 1}], or {exception}.",
        )
    return labels, ignored


def _reduced(
    ctx: KernelContext,
    picked: Array,
    labels: Array,
    ignored: Array | None,
    weight: Array | None,
    reduction: str,
    dtype: Any,
) -> Array:
    """The loss of the picked log-probabilities, rounded to `dtype`."""
    xp = ctx.xp
    loss = xp.negative(picked)
    applied = None if weight is None else xp.take(widened(xp, weight), labels, axis=0)
    if applied is not None:
        loss = xp.multiply(loss, applied)
    if ignored is not None:
        loss = xp.where(ignored, loss.dtype.type(0), loss)  # also where it is infinite or weighs nothing
    if reduction == "none":
        return rounded(xp.asarray(loss), dtype)
    total = xp.sum(loss)
    if reduction == "mean":
        total = total / _divisor(xp, loss, applied, ignored)
    return rounded(xp.asarray(total), dtype)


def _divisor(xp: Any, loss: Array, applied: Array | None, ignored: Array | None) -> Any:
    kind = loss.dtype.type
    if applied is None:
        return kind(loss.size) if ignored is None else kind(loss.size) - xp.sum(ignored).astype(loss.dtype)
    return xp.sum(applied if ignored is None else xp.where(ignored, kind(0), applied))
