"""Operators of com.microsoft that ONNX has too, most of them under the same name: its kernels serve both.

Inverse and NGramRepeatBlock have no counterpart. What differs is said at each. Comes after the ONNX families.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel, tensors
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.checks import host_ints, shape_error
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.convolution_transpose import conv_transpose
from ort_py_array.durations import ahead_of_decomposition
from ort_py_array.gather import GATHER_ND
from ort_py_array.generation import arange
from ort_py_array.ordering import unique
from ort_py_array.padding import pad
from ort_py_array.precision import rounded, widened
from ort_py_array.selection import trilu
from ort_py_array.vision.grid_sample import KERNELS as GRID_SAMPLE

__all__ = ["KERNELS", "contrib_pad", "contrib_range", "contrib_unique", "inverse", "n_gram_repeat_block"]


def _borrowed(definition: KernelDef, **changes: Any) -> KernelDef:
    """A kernel of ONNX's domain in this one."""
    return definition.replace(domain=DOMAIN, since=1, until=1, **changes)


def _declared(function: Callable[..., Any]) -> KernelDef:
    definition: KernelDef
    (definition,) = function.__kernel_defs__  # type: ignore[attr-defined]  # set by `kernel`
    return definition


def contrib_pad(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.Pad-1: ONNX's, whose pads may also stand in one row of a matrix."""
    run = pad(ctx)

    def with_row(x: Array, pads: Array, value: Array | None = None) -> Array:
        return run(x, pads.reshape(-1), value)

    return with_row


@kernel("Unique", domain=DOMAIN, since=1, outputs=3, strided=True)
def contrib_unique(ctx: KernelContext, x: Array) -> tuple[Array, ...]:
    """com.microsoft.Unique-1: different elements of a vector in the order of their first places.

    Returns them, the place of each input element among them, and how often each occurs.

    Raises:
        InvalidArgument: The input is not a vector.
    """
    if x.ndim != 1:
        raise shape_error(f"Unique needs a vector; the input has rank {x.ndim}.", ctx.node.location, [x.shape])
    values, _, inverse_, counts = unique(ctx, x, sorted=0)
    return values, inverse_, counts


@kernel("Range", domain=DOMAIN, since=1, host_inputs=frozenset({0, 1, 2}))
def contrib_range(ctx: KernelContext, start: Array, limit: Array, delta: Array | None = None) -> Array:
    """com.microsoft.Range-1: ONNX's; numbers may be vectors of one element, and the step is 1 where it is absent.

    Raises:
        InvalidArgument: An input does not have exactly one element, and what ONNX's raises.
    """
    step = (start * 0 + 1).astype(start.dtype) if delta is None else delta
    for name, number in (("start", start), ("limit", limit), ("delta", step)):
        if number.size != 1:
            raise shape_error(f"{name} has {number.size} elements instead of one.", ctx.node.location, [number.shape])
    return arange(ctx, start, limit, step)


@kernel("Inverse", domain=DOMAIN, since=1, strided=True)
def inverse(ctx: KernelContext, x: Array) -> Array:
    """com.microsoft.Inverse-1: inverses of matrices ``(..., n, n)``; float16 is computed in float32.

    Raises:
        InvalidArgument: The last two axes are not a square, or a matrix on the host has no inverse.
    """
    xp = ctx.xp
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise shape_error("Inverse needs square matrices.", ctx.node.location, [x.shape])
    if x.size == 0:
        return xp.zeros(x.shape, x.dtype)
    # With one right side for each row, a solution takes six times as long as the decomposition alone.
    ahead_of_decomposition(ctx, x.shape[-1], count=6 * prod(x.shape[:-2]))
    try:
        return rounded(xp.linalg.inv(widened(xp, x)), x.dtype)
    except ValueError as error:  # NumPy's LinAlgError is one
        raise InvalidArgument(
            "A matrix has no inverse.",
            where=ctx.node.location,
            why=str(error),
            fix="Every matrix in the batch must be invertible.",
        ) from error


def conv_transpose_with_dynamic_pads(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.ConvTransposeWithDynamicPads-1: ConvTranspose whose pads are a host input."""
    run = conv_transpose(ctx).call

    def with_pads(x: Array, w: Array, pads: Array | None = None, bias: Array | None = None) -> Array:
        return run(x, w, bias, host_ints(pads) or ())

    return with_pads


@kernel("NGramRepeatBlock", domain=DOMAIN, since=1)
def n_gram_repeat_block(ctx: KernelContext, input_ids: Array, scores: Array, *, ngram_size: int) -> Array:
    """com.microsoft.NGramRepeatBlock-1: minus infinity as score of each token that would repeat an n-gram.

    `input_ids` are ``(batch, length)``, `scores` ``(batch, vocabulary)``.

    Raises:
        InvalidArgument: The shapes do not fit, ``ngram_size`` is not positive, or a token to ban has no score.
    """
    xp, where = ctx.xp, ctx.node.location
    if input_ids.ndim != 2 or scores.ndim != 2 or input_ids.shape[0] != scores.shape[0]:
        raise shape_error("Tokens and scores must be matrices of one batch.", where, [input_ids.shape, scores.shape])
    if ngram_size < 1:
        raise InvalidArgument(f"ngram_size is {ngram_size}.", where=where, fix="It must be at least 1.")
    out = scores.copy()
    length = input_ids.shape[1]
    windows = length - ngram_size + 1
    if windows < 1 or out.size == 0:
        return out
    banned = xp.ones((input_ids.shape[0], windows), xp.bool_)
    for place in range(ngram_size - 1):  # the last tokens, compared with those of every window
        tail = input_ids[:, length - ngram_size + 1 + place].reshape((-1, 1))
        xp.logical_and(banned, xp.equal(input_ids[:, place : place + windows], tail), out=banned)
    rows, places = xp.nonzero(banned)
    tokens = input_ids[rows, places + ngram_size - 1]
    if tokens.size:
        low, high = xp.min(tokens).item(), xp.max(tokens).item()
        if low < 0 or high >= scores.shape[1]:
            raise InvalidArgument(
                f"Token {low if low < 0 else high} has no score.",
                where=where,
                why=f"the scores have {scores.shape[1]} columns",
                fix="Check the token ids and the size of the vocabulary.",
            )
        out[rows, tokens] = -xp.inf
    return out


KERNELS = [
    _borrowed(_declared(trilu)),
    _borrowed(GATHER_ND),
    *(_borrowed(one, types={"T1": tensors(DataType.FLOAT16, DataType.FLOAT, DataType.DOUBLE)}) for one in GRID_SAMPLE),
    KernelDef(
        "Pad",
        contrib_pad,
        domain=DOMAIN,
        since=1,
        strided=True,
        host_inputs=frozenset({1, 2}),
        implementation=f"{__name__}:contrib_pad",
    ),
    KernelDef(
        "ConvTransposeWithDynamicPads",
        conv_transpose_with_dynamic_pads,
        domain=DOMAIN,
        since=1,
        host_inputs=frozenset({2}),
        implementation=f"{__name__}:conv_transpose_with_dynamic_pads",
    ),
]
