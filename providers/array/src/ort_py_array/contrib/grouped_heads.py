"""Queries, keys and values of grouped heads as they arrive, separate or packed into one array; lengths of sequences.

What GroupQueryAttention and SparseAttention of com.microsoft have in common. It is independent of caches and attention.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.checks import host_ints, shape_error
from ort_py_array.contrib.cached_keys import one_number
from ort_py_array.precision import mean_along, rounded, widened

__all__ = ["Places", "check_heads", "lengths_of", "normalized", "places_of", "separated"]


@dataclass(frozen=True, slots=True)
class Places:
    """Positions of a call's queries and keys.

    Attributes:
        rows: Queries of a batch entry.
        added: New keys of a batch entry: as many as queries, or none where the cache is another node's.
        totals: Keys of each batch entry, the new ones included.
        total: The longest of them, by the input that says so.
        first: Whether there is no past yet.
    """

    rows: int
    added: int
    totals: tuple[int, ...]
    total: int
    first: bool

    @property
    def starts(self) -> tuple[int, ...]:
        """Position of the first query of each batch entry."""
        return tuple(0 if self.first else total - self.rows for total in self.totals)


def check_heads(ctx: KernelContext) -> tuple[int, int]:
    """(query heads, key heads) of the node.

    Raises:
        InvalidArgument: Key heads cannot each serve an equal number of query heads.
    """
    heads, key_heads = int(ctx.node.attributes["num_heads"]), int(ctx.node.attributes["kv_num_heads"])
    if heads < 1 or key_heads < 1 or heads % key_heads:
        raise InvalidArgument(
            f"num_heads is {heads} and kv_num_heads {key_heads}.",
            where=ctx.node.location,
            why="each key head serves an equal number of query heads",
            fix="num_heads must be a positive multiple of kv_num_heads.",
        )
    return heads, key_heads


def separated(
    ctx: KernelContext, query: Array, key: Array | None, value: Array | None, heads: int, key_heads: int
) -> tuple[Array, Array, Array]:
    """Views ``(batch, length, heads, size)`` of the three; without key and value the query holds all, side by side.

    Raises:
        InvalidArgument: The shapes do not fit the heads, or one of key and value is absent.
    """
    shapes = [x.shape for x in (query, key, value) if x is not None]
    total = heads if key is not None else heads + 2 * key_heads
    if (key is None) != (value is None) or query.ndim != 3 or query.shape[2] % total:
        raise shape_error(
            f"A query must be (batch, length, columns) for {heads} heads with key and value for {key_heads} heads "
            "beside it, or for all of these without.",
            ctx.node.location,
            shapes,
        )
    batch, rows, size = query.shape[0], query.shape[1], query.shape[2] // total
    q = query.reshape((batch, rows, total, size))
    if key is None or value is None:
        return q[:, :, :heads], q[:, :, heads : heads + key_heads], q[:, :, heads + key_heads :]
    added = key.shape[1] if key.ndim == 3 else -1
    wanted = (batch, added, key_heads * size)
    if tuple(key.shape) != wanted or tuple(value.shape) != wanted or added not in (0, rows):
        raise shape_error(
            f"Key and value must be ({batch}, {rows}, {key_heads * size}) for {key_heads} heads of {size}.",
            ctx.node.location,
            shapes,
        )
    k, v = (x.reshape((batch, added, key_heads, size)) for x in (key, value))
    return q, k, v


def normalized(
    ctx: KernelContext, q: Array, k: Array, q_norm: Array | None, k_norm: Array | None, epsilon: float
) -> tuple[Array, Array]:
    """Heads ``(batch, length, heads, size)``, each divided by its root mean square and multiplied by a weight.

    Where there are no weights they stay as they are.

    Raises:
        InvalidArgument: Only one weight is there, or one is not as long as a head.
    """
    if q_norm is None and k_norm is None:
        return q, k
    xp, size = ctx.xp, q.shape[3]
    results = []
    for x, weight in ((q, q_norm), (k, k_norm)):
        if weight is None or tuple(weight.shape) != (size,):
            raise InvalidArgument(
                f"q_norm_weight or k_norm_weight is {'absent' if weight is None else list(weight.shape)}.",
                where=ctx.node.location,
                fix=f"Give both with {size} entries, or neither.",
            )
        wide = widened(xp, x)
        mean = mean_along(xp, xp.square(wide), (3,))
        results.append(rounded(wide / xp.sqrt(mean + xp.float32(epsilon)) * widened(xp, weight), x.dtype))
    return results[0], results[1]


def lengths_of(ctx: KernelContext, name: str, values: Array, batch: int, least: int, most: int) -> tuple[int, ...]:
    """A host input of one length a batch entry, each within bounds.

    Raises:
        InvalidArgument: It has another number of entries, or one is out of bounds.
    """
    found = host_ints(values.reshape(-1)) or ()
    if len(found) != batch:
        what = f"{name} must have one entry for each of {batch} sequences."
        raise shape_error(what, ctx.node.location, [values.shape])
    if found and not least <= min(found) <= max(found) <= most:
        raise InvalidArgument(
            f"{name} is {list(found)}.",
            where=ctx.node.location,
            why="the new keys stand at the end of each sequence, and the whole of it in the cache",
            fix=f"Each entry must be in [{least}, {most}].",
        )
    return found


def places_of(
    ctx: KernelContext,
    shape: tuple[int, int],
    added: int,
    held: int | None,
    seqlens_k: Array,
    total: Array,
) -> Places:
    """Positions of the queries and keys of a call.

    Args:
        ctx: Context of the node.
        shape: Batch entries, and queries of each.
        added: New keys of a batch entry, 0 where the cache has them all.
        held: Rows of the past, None where it need not have every position.
        seqlens_k: Last position of each batch entry, on the host.
        total: Number of positions of the longest, on the host.

    Raises:
        InvalidArgument: Lengths that the queries or the past contradict.
    """
    batch, rows = shape
    room = held if added == 0 and held is not None else 2**31 - 1
    why = f"there are {rows} new positions" + ("" if added else f", and all keys are in a cache of {held} rows")
    longest = one_number(ctx, "total_sequence_length", total, rows, room, why)
    first = rows == longest
    least = min(0, longest - 1) if first else rows - 1
    ends = lengths_of(ctx, "seqlens_k", seqlens_k, batch, least, longest - 1)
    past = 0 if first or not ends else max(ends) + 1 - rows
    if added and held is not None and past > held:
        raise InvalidArgument(
            f"{past} keys should stand before the new ones, but the past has {held} rows.",
            where=ctx.node.location,
            why=f"total_sequence_length is {longest} with {rows} new positions",
            fix="Feed the presents of the step before as past_key and past_value, or a smaller total_sequence_length.",
        )
    return Places(rows, added, tuple(end + 1 for end in ends), longest, first)
