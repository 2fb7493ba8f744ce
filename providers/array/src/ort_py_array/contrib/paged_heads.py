"""Attributes of a PagedAttention node, read once: heads, the cache's form, and the preparation of a call's queries and
keys.

Shared by the library's kernel and by those of providers that have their own. Comes before `paged_attention`; knows
no sequences.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.attention.core import Rule
from ort_py_array.checks import shape_error
from ort_py_array.contrib.grouped_heads import check_heads, separated
from ort_py_array.contrib.quantized_cache import CacheFormat, cache_format
from ort_py_array.contrib.rotary import check_caches

__all__ = ["PagedNode"]

_TYPES = {"float16": "float16", "bfloat16": "bfloat16", "int8": "int8", "float8_e4m3fn": "float8e4m3fn"}
"""Caches that are served: NumPy's name and ONNX's."""

_PACKED = "int4"
"""What a cache of uint8 has two of in a byte."""


@dataclass(frozen=True, slots=True)
class PagedNode:
    """A node's attributes.

    Attributes:
        ctx: Its context.
        heads, key_heads: Heads of queries, and of keys and values.
        latent: One cache, whose rows hold keys, and values in front of them.
        scale: Factor on scores; 0 for one over the root of a head's size.
        softcap: Bound that scores are bent to; 0 for none.
        window: Keys that a query sees, itself included; 0 for all.
        causal: Whether it sees none behind its own.
        rotary, interleaved, offset: Whether heads are turned, in pairs of neighbours, and from which element on.
        epsilon: Of the norm of queries and keys.
    """

    ctx: KernelContext
    heads: int
    key_heads: int
    latent: bool
    scale: float
    softcap: float
    window: int
    causal: bool
    rotary: bool
    interleaved: bool
    offset: int
    epsilon: float

    @classmethod
    def of(cls, ctx: KernelContext) -> PagedNode:
        """Read a node.

        Raises:
            InvalidArgument: Attributes out of range, or that contradict each other.
        """
        attributes = ctx.node.attributes
        heads, key_heads = check_heads(ctx)
        layout = attributes.get("kv_cache_layout", "SEPARATE")
        window, offset = int(attributes.get("local_window_size", -1)), int(attributes.get("rotary_offset", 0))
        if layout not in ("SEPARATE", "LATENT") or window < -1 or offset < 0 or offset % 8:
            raise InvalidArgument(
                f"kv_cache_layout is '{layout}', local_window_size {window} and rotary_offset {offset}.",
                where=ctx.node.location,
                fix="Use 'SEPARATE' or 'LATENT', a window of -1 for none, and an offset that is a multiple of 8.",
            )
        latent = layout == "LATENT"
        if latent and key_heads != 1:
            raise InvalidArgument(
                f"kv_num_heads is {key_heads}.",
                where=ctx.node.location,
                why="kv_cache_layout is 'LATENT', where all query heads share one row",
                fix="Set kv_num_heads to 1.",
            )
        return cls(
            ctx=ctx,
            heads=heads,
            key_heads=key_heads,
            latent=latent,
            scale=float(attributes.get("scale") or 0.0),
            softcap=float(attributes.get("softcap") or 0.0),
            window=max(0, window),
            causal=bool(attributes.get("is_causal", 1)),
            rotary=bool(attributes.get("do_rotary") or 0),
            interleaved=bool(attributes.get("rotary_interleaved") or 0),
            offset=offset,
            epsilon=float(attributes.get("qk_norm_epsilon", 1e-6)),
        )

    def operands(self, query: Array, key: Array | None, value: Array | None) -> tuple[Array, Array, Array | None]:
        """Views ``(tokens, heads, size)`` of queries, keys and values; no values where the cache is latent.

        Raises:
            InvalidArgument: They do not fit the heads, or one is absent or there that should not be.
        """
        where = self.ctx.node.location
        if query.ndim != 2 or any(one is not None and one.ndim != 2 for one in (key, value)):
            shapes = [one.shape for one in (query, key, value) if one is not None]
            raise shape_error("Query, key and value must be (tokens, columns).", where, shapes)
        if not self.latent:
            lone_key, lone_value = (None if one is None else one[None] for one in (key, value))
            parts = separated(self.ctx, query[None], lone_key, lone_value, self.heads, self.key_heads)
            q, k, v = (one[0] for one in parts)
            if k.shape[0] != q.shape[0]:
                raise shape_error("There must be one key and value per token.", where, [q.shape, k.shape])
            return q, k, v
        size = query.shape[1] // self.heads
        fits = key is not None and key.shape == (query.shape[0], size) and query.shape[1] == size * self.heads
        if key is None or value is not None or not fits:
            raise InvalidArgument(
                f"The query is {list(query.shape)}, the key {'absent' if key is None else list(key.shape)} and the "
                f"value {'absent' if value is None else 'there'}.",
                where=where,
                why="kv_cache_layout is 'LATENT': a token has one row for keys and values",
                fix=f"Give a key (tokens, {size}) for {self.heads} heads of {size} and no value.",
            )
        return query.reshape((query.shape[0], self.heads, size)), key.reshape((query.shape[0], 1, size)), None

    def value_size(self, size: int) -> int:
        """Elements of a value head.

        Raises:
            InvalidArgument: More than a row has, other than `size` where it may not be, or without a scale.
        """
        asked = int(self.ctx.node.attributes.get("v_head_size") or 0)
        wrong = not 0 <= asked <= size or (asked not in (0, size) and (not self.latent or not self.scale))
        if wrong:
            raise InvalidArgument(
                f"v_head_size is {asked} for heads of {size}.",
                where=self.ctx.node.location,
                why="only 'LATENT' caches have shorter values, and then the attribute scale is needed",
                fix=f"Use 0, or with both of these a number up to {size}.",
            )
        return asked or size

    def check_cache(self, key_cache: Array, value_cache: Array | None, size: int) -> tuple[int, int]:
        """Pages of the caches, and rows of a page.

        Raises:
            InvalidArgument: A cache is absent or there that should not be, or of another shape or type.
        """
        where = self.ctx.node.location
        if (value_cache is None) != self.latent:
            raise InvalidArgument(
                f"value_cache is {'absent' if value_cache is None else 'there'}.",
                where=where,
                why="a 'LATENT' cache is the only one, a 'SEPARATE' one is not",
                fix="Set kv_cache_layout to what the caches are.",
            )
        said = [self.ctx.node.attributes.get(f"{name}_cache_dtype") or "" for name in ("k", "v")]
        caches = [one for one in (key_cache, value_cache) if one is not None]
        for one, name in zip(caches, said, strict=False):
            stored = _TYPES.get(one.dtype.name, one.dtype.name)
            fits = name == _PACKED if one.dtype.name == "uint8" else name in ("", stored)
            if one.dtype != key_cache.dtype or not fits:
                raise InvalidArgument(
                    f"A cache of {one.dtype.name} with k_cache_dtype '{said[0]}' and v_cache_dtype '{said[1]}'.",
                    where=where,
                    why="both caches are of one type, and of those with two values a byte only 'int4' is served",
                    fix="Use float16, bfloat16, int8 or float8e4m3fn and no attributes, or uint8 and 'int4'.",
                )
        for one, name in zip(caches, ("k", "v"), strict=False):
            kind = self.ctx.node.attributes.get(f"{name}_quant_type") or "NONE"
            if (kind != "NONE") != (one.itemsize == 1):
                raise InvalidArgument(
                    f"{name}_quant_type is '{kind}' and the cache of {one.dtype.name}.",
                    where=where,
                    why="caches of 8 and 4 bits are quantised, others are not",
                    fix="Use 'NONE' for others, and 'PER_TENSOR' or 'PER_CHANNEL' with a scale for these.",
                )
        lead, width = key_cache.shape[:2], size // 2 if key_cache.dtype.name == "uint8" else size
        if any(tuple(one.shape) != (*lead, self.key_heads, width) or 0 in lead or len(lead) < 2 for one in caches):
            raise shape_error(
                f"A cache must be (blocks, rows, {self.key_heads}, {width}).", where, [one.shape for one in caches]
            )
        return int(lead[0]), int(lead[1])

    def format_of(self, name: str) -> CacheFormat | None:
        """Storage format of ``"k"`` or ``"v"``, or None if it is not quantised.

        Raises:
            InvalidArgument: An unknown kind.
        """
        found = cache_format(self.ctx, name)
        if found is None or self.ctx.node.attributes.get(f"{name}_cache_dtype") != _PACKED:
            return found
        return replace(found, bits=4, complement=True)

    def rule(self, size: int) -> Rule:
        """The rule by which scores become probabilities."""
        return Rule(
            scale=self.scale or 1.0 / math.sqrt(size or 1),
            left=self.window - 1 if self.window else None,
            right=0 if self.causal else None,
            softcap=self.softcap,
        )

    def check_norm(self, q_norm: Array | None, k_norm: Array | None, size: int) -> bool:
        """Return whether queries and keys are normalised.

        Raises:
            InvalidArgument: One weight is absent, or they are of other sizes.
        """
        given = [one for one in (q_norm, k_norm) if one is not None]
        if given and (len(given) == 1 or self.latent or any(tuple(one.shape) != (size,) for one in given)):
            raise InvalidArgument(
                f"q_norm_weight and k_norm_weight are {[list(one.shape) for one in given]}.",
                where=self.ctx.node.location,
                fix=f"Give both with {size} entries, or neither; 'LATENT' rows are normalised before the node.",
            )
        return bool(given)

    def check_rotary(self, cos: Array | None, sin: Array | None, size: int, last: int) -> int:
        """Pairs of elements that are turned; 0 for none.

        Args:
            cos: The cache of cosines.
            sin: The cache of sines.
            size: Elements of a head.
            last: The last position of any token, -1 for no tokens.

        Raises:
            InvalidArgument: A cache is absent, turns more than there is, or ends before the last position.
        """
        if not self.rotary:
            return 0
        if cos is None or sin is None:
            raise InvalidArgument(
                "do_rotary is set, but cos_cache or sin_cache is absent.",
                where=self.ctx.node.location,
                fix="Connect both, or turn the heads before the node.",
            )
        pairs = check_caches(self.ctx, cos, sin, max(0, size - self.offset))
        if last >= cos.shape[0]:
            raise InvalidArgument(
                f"Position {last} is outside the caches of cosines and sines.",
                where=self.ctx.node.location,
                fix=f"They have rows for the positions 0 to {cos.shape[0] - 1}; feed longer caches.",
            )
        return pairs
