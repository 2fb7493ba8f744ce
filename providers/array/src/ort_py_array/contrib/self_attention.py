"""Attention of a sequence to itself, from its projection to queries, keys and values on.

What Attention and QAttention of com.microsoft have in common: they differ in how they project. The past is one array of
keys and values, the mask has any form of `attention_masks`. It does not depend on weights.
"""

from __future__ import annotations

import math
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py_array.attention.core import Rule, attend
from ort_py_array.attention.rotary_embedding import rotated
from ort_py_array.checks import shape_error
from ort_py_array.contrib.attention_masks import padding_mask
from ort_py_array.contrib.cached_keys import one_number, written
from ort_py_array.precision import rounded

__all__ = ["SelfAttention"]

_BASE = 10000.0
"""Of the angles: pair i of n turns by ``position · base^(-i / n)``."""


class SelfAttention:
    """A node's attributes, read once; called with what is projected."""

    def __init__(self, ctx: KernelContext) -> None:
        """Read the attributes of the node.

        Raises:
            InvalidArgument: The number of heads is not positive, or sizes of queries and keys differ.
        """
        attributes = ctx.node.attributes
        self._ctx = ctx
        self.heads = int(attributes["num_heads"])
        self._scale = attributes.get("scale") or None
        self._causal = bool(attributes.get("unidirectional", 0))
        self._shares = bool(attributes.get("past_present_share_buffer", 0))
        self._rotary = bool(attributes.get("do_rotary", 0))
        self._rotary_size = int(attributes.get("rotary_embedding_dim", 0))
        outputs = ctx.node.outputs
        self._presents = len(outputs) > 1 and outputs[1] is not None
        self._sizes: tuple[int, ...] = tuple(attributes.get("qkv_hidden_sizes", ()))
        bad = self._sizes and (
            len(self._sizes) != 3
            or self._sizes[0] != self._sizes[1]
            or any(size < 1 or size % max(self.heads, 1) for size in self._sizes)
        )
        if self.heads < 1 or bad:
            raise InvalidArgument(
                f"num_heads is {self.heads} and qkv_hidden_sizes {list(self._sizes)}.",
                where=ctx.node.location,
                why="queries and keys have one size, and heads divide all three",
                fix="Give sizes (size, size, size of values) that num_heads divides.",
            )

    def sizes(self, x: Array, weights: Array, bias: Array | None) -> tuple[int, int, int]:
        """Sizes of all heads of queries, keys and values together.

        Raises:
            InvalidArgument: Input, weights and bias do not fit each other or the heads.
        """
        width = weights.shape[1] if weights.ndim == 2 else -1
        found = self._sizes or (width // 3,) * 3
        fits = (
            x.ndim == 3
            and weights.ndim == 2
            and x.shape[2] == weights.shape[0]
            and (bias is None or tuple(bias.shape) == (width,))
            and sum(found) == width
            and all(size % self.heads == 0 for size in found)
        )
        if not fits:
            shapes = [x.shape, weights.shape, *([] if bias is None else [bias.shape])]
            raise shape_error(
                f"The input must be (batch, length, size), the weights (size, columns) and the bias (columns), with "
                f"columns for queries, keys and values of {self.heads} heads.",
                self._ctx.node.location,
                shapes,
            )
        return found[0], found[1], found[2]

    def __call__(
        self,
        projected: Array,
        sizes: tuple[int, int, int],
        dtype: Any,
        mask_index: Array | None,
        past: Array | None,
        attention_bias: Array | None = None,
        past_length: Array | None = None,
    ) -> tuple[Array, Array | None]:
        """The result ``(batch, length, size of values)`` and the present, both in `dtype`.

        Args:
            projected: Queries, keys and values ``(batch, length, columns)`` in float32.
            sizes: Columns of each.
            dtype: Type of the results.
            mask_index: Mask of any form.
            past: ``(2, batch, heads, rows, size)``.
            attention_bias: Added to the scores; broadcasts to ``(batch, heads, length, keys)``.
            past_length: Rows of the past that are filled where it is a buffer; on the host.
        """
        ctx, xp = self._ctx, self._ctx.xp
        batch, rows = projected.shape[:2]
        bounds = (0, sizes[0], sizes[0] + sizes[1], sum(sizes))
        q, k, v = (
            projected[..., bounds[i] : bounds[i + 1]].reshape((batch, rows, self.heads, sizes[i] // self.heads))
            for i in range(3)
        )
        length, capacity = self._past(past, past_length, q, v)
        if self._rotary:
            q, k = self._turned(q, k, length)
        keys = length + rows
        k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
        present = None
        if past is not None or self._presents:
            if k.shape != v.shape:
                raise shape_error("A present holds keys and values of one size.", ctx.node.location, [k.shape, v.shape])
            shape = (2, batch, self.heads, capacity if self._shares and past is not None else keys, k.shape[3])
            ctx.check_allocation(shape, projected.dtype)
            present = xp.empty(shape, projected.dtype)
            for index, new in enumerate((k, v)):
                old = None if past is None else past[index]
                written(ctx, old, new, (length,) * batch, shape[3], keep=self._shares, out=present[index])
            k, v = present[0, :, :, :keys], present[1, :, :, :keys]
        padding = padding_mask(ctx, mask_index, batch, rows, length, keys)
        rule = Rule(
            scale=self._scale or 1.0 / math.sqrt(q.shape[3] or 1), right=0 if self._causal and rows > 1 else None
        )
        masks = tuple(mask for mask in (attention_bias, padding) if mask is not None)
        y, _ = attend(ctx, q.swapaxes(1, 2), k, v, rule, mask=masks, offsets=length, packed=True)
        return rounded(y, dtype), None if present is None else rounded(present, dtype)

    def _past(self, past: Array | None, past_length: Array | None, q: Array, v: Array) -> tuple[int, int]:
        """Filled rows of the past, and all of them."""
        if past is None:
            return 0, 0
        wanted = (2, q.shape[0], self.heads, past.shape[3] if past.ndim == 5 else -1, q.shape[3])
        if tuple(past.shape) != wanted or v.shape[3] != q.shape[3]:
            raise shape_error(
                f"past must have the shape (2, {q.shape[0]}, {self.heads}, rows, {q.shape[3]}), and values the size of "
                "keys.",
                self._ctx.node.location,
                [past.shape, v.shape],
            )
        rows = int(past.shape[3])
        if not self._shares:
            return rows, rows
        why = f"the past is a buffer of {rows} rows, and {q.shape[1]} are added"
        return one_number(self._ctx, "past_sequence_length", past_length, 0, rows - q.shape[1], why), rows

    def _turned(self, q: Array, k: Array, start: int) -> tuple[Array, Array]:
        """Queries and keys turned by the angles of their positions."""
        xp = self._ctx.xp
        size = self._rotary_size or q.shape[3]
        if size % 2 or size > q.shape[3]:
            raise InvalidArgument(
                f"{size} elements of heads of {q.shape[3]} cannot be turned in pairs.",
                where=self._ctx.node.location,
                fix="rotary_embedding_dim must be even and no more than the size of a head.",
            )
        half = size // 2
        rates = xp.power(xp.float64(_BASE), xp.arange(half) * (-1.0 / max(half, 1)))
        angle = ((start + xp.arange(q.shape[1])).reshape((-1, 1)) * rates).reshape((1, -1, half))
        cos, sin = (turn(angle).astype(xp.float32) for turn in (xp.cos, xp.sin))
        results = []
        for x in (q, k):
            y = xp.empty(x.shape, x.dtype)
            rotated(self._ctx, x, cos, sin, y, interleaved=False)
            results.append(y)
        return results[0], results[1]
