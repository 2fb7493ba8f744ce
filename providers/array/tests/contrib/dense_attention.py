"""Packed batches over caches in pages, made at random, and dense attention of each sequence by itself in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Batch", "dense"]

_SIZE, _ROWS = 16, 4
_POSITIONS = 64


class Batch:
    """A batch of sequences: inputs of a PagedAttention node.

    Args:
        sequences: For each the rows it has in the cache, and its new tokens.
        heads, key_heads: Of the node.
        packed: Queries, keys and values in one input.
        sink, norm: Whether those inputs are there.
        pairs: Columns of the tables of angles; 0 for none.
        latent: Elements of a value in a 'LATENT' cache; 0 for two caches.
        rubbish: What caches hold where no sequence has rows.
        seed: Of the numbers.
    """

    def __init__(
        self,
        sequences: Sequence[tuple[int, int]],
        heads: int = 4,
        key_heads: int = 2,
        *,
        packed: bool = False,
        sink: bool = False,
        norm: bool = False,
        pairs: int = 0,
        latent: int = 0,
        rubbish: float = 3.0,
        seed: int = 0,
    ) -> None:
        self.sequences, self.heads, self.key_heads = list(sequences), heads, key_heads
        self.packed, self.sink, self.norm, self.pairs, self.latent = packed, sink, norm, pairs, latent
        self.rubbish, self.seed = rubbish, seed
        self.attributes: dict[str, Any] = {"num_heads": heads, "kv_num_heads": key_heads}
        if latent:
            self.attributes |= {"kv_cache_layout": "LATENT", "v_head_size": latent, "scale": 0.3}
        needed = [-(-(past + new) // _ROWS) for past, new in self.sequences]
        self.blocks = sum(needed) + 2
        free = np.random.default_rng(seed).permutation(self.blocks).tolist()
        self.table = np.full((len(needed), max([*needed, 1]) + 1), -1, np.int32)
        for entry, count in enumerate(needed):
            self.table[entry, :count] = [free.pop() for _ in range(count)]

    @property
    def tokens(self) -> int:
        """Tokens of the batch."""
        return sum(new for _, new in self.sequences)

    def row(self, entry: int, position: int) -> int:
        """The row of the cache, as if its pages were one, of a sequence's position."""
        return int(self.table[entry, position // _ROWS]) * _ROWS + position % _ROWS

    def slots(self) -> Any:
        """The row of each token."""
        rows = [self.row(e, past + t) for e, (past, new) in enumerate(self.sequences) for t in range(new)]
        return np.array(rows, np.int32)

    def inputs(self, dtype: Any) -> list[Any]:
        """Inputs of the node, up to the last that is there."""
        rng = np.random.default_rng(self.seed + 1)

        def some(*shape: int) -> Any:
            return rng.uniform(-1, 1, shape).astype(dtype)

        widths = [self.heads * _SIZE, self.key_heads * _SIZE, self.key_heads * _SIZE]
        parts: list[Any] = [some(self.tokens, width) for width in widths]
        if self.latent:
            parts[2] = None
        elif self.packed:
            parts = [np.concatenate(parts, axis=1), None, None]
        caches: list[Any] = []
        for _ in range(1 if self.latent else 2):
            cache = np.full((self.blocks * _ROWS, self.key_heads, _SIZE), self.rubbish).astype(dtype)
            for entry, (past, _) in enumerate(self.sequences):
                for position in range(past):
                    cache[self.row(entry, position)] = some(self.key_heads, _SIZE)
            caches.append(cache.reshape((self.blocks, _ROWS, self.key_heads, _SIZE)))
        ends = np.cumsum([0, *(new for _, new in self.sequences)]).astype(np.int32)
        starts = np.array([past for past, _ in self.sequences], np.int32)
        angle = np.arange(_POSITIONS)[:, None] * 0.3 ** np.arange(self.pairs)
        turning = [np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)] if self.pairs else [None, None]
        rest = [
            some(self.heads) if self.sink else None,
            *((1 + some(_SIZE) / 2).astype(dtype) if self.norm else None for _ in range(2)),
        ]
        return [
            *parts,
            *(caches if len(caches) == 2 else [caches[0], None]),
            ends,
            starts,
            self.table,
            *turning,
            None,
            *rest,
        ]


def _turned(x: Any, cos: Any, sin: Any, positions: Any, first: int, interleaved: bool) -> Any:
    """Heads ``(tokens, heads, size)`` turned in pairs from an element on."""
    y, pairs = x.copy(), cos.shape[1]
    for pair in range(pairs):
        one, two = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + pairs)
        a, b = x[:, :, first + one], x[:, :, first + two]
        c, s = cos[positions, pair][:, None], sin[positions, pair][:, None]
        y[:, :, first + one], y[:, :, first + two] = a * c - b * s, a * s + b * c
    return y


def dense(batch: Batch, inputs: Sequence[Any], **attributes: Any) -> list[Any]:
    """Results of the node: result, keys and values of the caches, in float64."""
    given: list[Any] = [None if x is None else x.astype(np.float64) if x.dtype.kind not in "iu" else x for x in inputs]
    given += [None] * (17 - len(given))
    query, key, value, key_cache, value_cache = given[:5]
    cos, sin, mapping, sink, q_norm, k_norm = given[8:14]
    heads, key_heads = batch.heads, batch.key_heads
    if key is None:
        query, key, value = np.split(query, np.cumsum([heads * _SIZE, key_heads * _SIZE]), axis=1)
    q, k = query.reshape((-1, heads, _SIZE)), key.reshape((-1, key_heads, _SIZE))
    if q_norm is not None:
        q, k = (
            x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w for x, w in ((q, q_norm), (k, k_norm))
        )  # fmt: skip
    positions = np.array([past + t for past, new in batch.sequences for t in range(new)], int)
    if attributes.get("do_rotary"):
        how = attributes.get("rotary_offset", 0), bool(attributes.get("rotary_interleaved"))
        q, k = (_turned(x, cos, sin, positions, *how) for x in (q, k))
    slots = batch.slots() if mapping is None else mapping
    sides = []
    for cache, new in ((key_cache, k), (value_cache, value)):
        if cache is not None:
            side = cache.reshape((-1, key_heads, _SIZE)).copy()
            side[slots[slots >= 0]] = new.reshape((-1, key_heads, _SIZE))[slots >= 0]
            sides.append(side)
    keys, values = sides[0], sides[-1]
    y = np.empty((batch.tokens, heads, batch.latent or _SIZE))
    token, scale = 0, {**batch.attributes, **attributes}.get("scale") or _SIZE**-0.5
    cap, window = attributes.get("softcap", 0.0), attributes.get("local_window_size", -1)
    for entry, (past, new) in enumerate(batch.sequences):
        rows = [batch.row(entry, position) for position in range(past + new)]
        for position in range(past, past + new):
            last = position if attributes.get("is_causal", 1) else past + new - 1
            first = max(0, position + 1 - window) if window > 0 else 0
            for head in range(heads):
                own = rows[first : last + 1], head // (heads // key_heads)
                scores = keys[own[0], own[1]] @ q[token, head] * scale
                scores = cap * np.tanh(scores / cap) if cap else scores
                top = max(scores.max(), -np.inf if sink is None else sink[head])
                chances = np.exp(scores - top)
                total = chances.sum() + (0 if sink is None else np.exp(sink[head] - top))
                y[token, head] = chances / total @ values[own[0], own[1]][:, : y.shape[2]]
            token += 1
    shape = (batch.blocks, _ROWS, key_heads, _SIZE)
    return [y.reshape((batch.tokens, heads * y.shape[2])), *(one.reshape(shape) for one in sides)]
