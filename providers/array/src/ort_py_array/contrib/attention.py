"""Attention of com.microsoft: a sequence is projected to queries, keys and values, which `self_attention` then uses.

One product makes all three; narrow floats stay float32 from there to the result, which is rounded once.
"""

from __future__ import annotations

from functools import partial

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py_array.checks import LARGE
from ort_py_array.contrib.schemas.notation import DOMAIN
from ort_py_array.contrib.self_attention import SelfAttention
from ort_py_array.precision import widened

__all__ = ["KERNELS", "attention"]


def attention(ctx: KernelContext) -> KernelCallable:
    """com.microsoft.Attention-1: ``softmax(q kᵀ · scale + bias + mask) v`` of ``x @ weights + bias`` cut in three.

    Inputs: x ``(batch, length, size)``, weights ``(size, columns)``, bias, mask_index in any form of `padding_mask`,
    past ``(2, batch, heads, rows, head size)``, attention_bias, past_sequence_length. A present is a new array, also
    where `past_present_share_buffer` says that it has the size of the past. With `do_rotary`, the first half of a
    head's elements is turned against the second.

    Raises:
        InvalidArgument: Shapes that do not belong together, or attributes out of range.
        LimitError: The projection or the present would pass the session's limits.
    """
    xp = ctx.xp
    attend = SelfAttention(ctx)
    ready = ctx.packed((1,), "widened", partial(widened, xp))

    def run(
        x: Array,
        weights: Array,
        bias: Array | None = None,
        mask_index: Array | None = None,
        past: Array | None = None,
        attention_bias: Array | None = None,
        past_length: Array | None = None,
    ) -> tuple[Array, Array | None]:
        sizes = attend.sizes(x, weights, bias)
        batch, rows = x.shape[:2]
        if batch * rows * weights.shape[1] > LARGE:
            ctx.check_allocation((batch, rows, weights.shape[1]), xp.float32)
        matrix = widened(xp, weights) if ready is None else ready
        projected = xp.matmul(widened(xp, x).reshape((batch * rows, x.shape[2])), matrix)
        if bias is not None:
            projected += widened(xp, bias)
        projected = projected.reshape((batch, rows, weights.shape[1]))
        return attend(projected, sizes, x.dtype, mask_index, past, attention_bias, past_length)

    return run


KERNELS = [
    KernelDef(
        "Attention",
        attention,
        domain=DOMAIN,
        since=1,
        outputs=2,
        host_inputs=frozenset({6}),
        implementation=f"{__name__}:attention",
    )
]
