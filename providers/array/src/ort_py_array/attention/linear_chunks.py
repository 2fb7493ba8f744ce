"""The recurrences of linear attention in chunks of time steps: products of matrices inside, one step of state between.

With ``G`` the sum of the decays since a chunk began, a step's state is what the chunk began with, decayed by ``G_t``,
plus what earlier steps of the chunk wrote, decayed by ``G_t - G_i``. So all steps of a chunk come from three products
and a triangle of (query · key) numbers. Where a step corrects what the state holds for its key (the delta rules), what
the steps write solves a unit lower triangular system, whose inverse does not depend on the state: it is made for all
chunks at once. Every exponent is that of a real step of the recurrence, so nothing overflows that would not there.

Comes before `linear_attention`; knows no operator and no packing.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array

__all__ = ["recurrence", "step"]

_CHUNK = 64
"""Steps of a chunk: the triangle costs as much as the state's part where this is half the size of a head."""

_KEYED_CHUNK = 16
"""The same where each element of a key decays by itself, which takes an exponential a pair of steps and element."""

_GROUP = 4
"""Steps of a chunk's part in which such an exponential is taken of each pair; a divisor of the chunk."""

_NOTHING = -110.0
"""A decay whose exponential is 0 in float32; a lower one, or -inf, would only spoil the differences of sums."""


def recurrence(
    xp: Any, q: Array, k: Array, v: Array, state: Array, decay: Array | None, beta: Array | None
) -> tuple[Array, Array]:
    """Run ``S = exp(g) S + k (beta (v - exp(g) Sᵀ k))ᵀ; o = Sᵀ q`` over time; without beta ``S = exp(g) S + k vᵀ``.

    Args:
        xp: Array module.
        q: Queries ``(batch, heads, group, time, size)``.
        k: Keys ``(batch, heads, time, size)``.
        v: Values ``(batch, heads, time, value size)``.
        state: float32 ``(batch, heads, size, value size)``; left alone.
        decay: Logarithms ``(batch, heads, time, 1 or size)``, None for none.
        beta: Rates of update ``(batch, heads or 1, time, 1)``, None to write values as they are.

    Returns:
        float32 outputs ``(batch, heads, group, time, value size)`` and the last state.
    """
    lead, time, group = k.shape[:2], k.shape[2], q.shape[2]
    keyed = decay is not None and decay.shape[3] > 1
    chunk = max(_GROUP, min(-(-time // _GROUP) * _GROUP, _KEYED_CHUNK)) if keyed else max(1, min(time, _CHUNK))
    count = -(-time // chunk)
    keys, values = (_in_chunks(xp, x, count, chunk) for x in (k, v))
    queries = _in_chunks(xp, q, count, chunk).swapaxes(2, 3)  # (batch, heads, chunks, group, steps, size)
    sums = None
    if decay is not None:
        sums = xp.cumsum(xp.maximum(_in_chunks(xp, decay, count, chunk).astype(xp.float64), _NOTHING), axis=3)
    rate = None if beta is None else _in_chunks(xp, beta, count, chunk)

    read, write = _pairs(xp, queries, keys, sums, keyed, rate is not None)
    into, out = keys, keys
    last = None
    if sums is not None:
        since = xp.exp(sums.astype(xp.float32))
        out = keys * xp.exp((sums[:, :, :, -1:] - sums).astype(xp.float32))
        last = since[:, :, :, -1]
        queries = queries * since[:, :, :, None]
        into = keys * since
    queries = queries.reshape((*lead, count, group * chunk, k.shape[3]))
    read = read.reshape((*lead, count, group * chunk, chunk))
    if rate is not None and write is not None:
        write *= rate
        inverse = _inverse(xp, write)
        values = xp.matmul(inverse, values * rate)
        into = xp.matmul(inverse, into * rate)
    y = xp.empty((*lead, count, group * chunk, v.shape[3]), xp.float32)
    for part in range(count):
        written = values[:, :, part]
        if rate is not None:
            written = written - xp.matmul(into[:, :, part], state)
        y[:, :, part] = xp.matmul(queries[:, :, part], state)
        y[:, :, part] += xp.matmul(read[:, :, part], written)
        if last is not None:
            state = state * last[:, :, part, :, None]
        state = state + xp.matmul(out[:, :, part].swapaxes(2, 3), written)
    y = y.reshape((*lead, count, group, chunk, v.shape[3])).swapaxes(2, 3)
    return y.reshape((*lead, group, count * chunk, v.shape[3]))[:, :, :, :time], state


def step(
    xp: Any, q: Array, k: Array, v: Array, past: Array | None, decay: Array | None, beta: Array | None, state: Array
) -> Array:
    """`recurrence` for a single step, which passes over the state as seldom as it can: that is all it costs.

    Args:
        xp, q, k, v, decay, beta: As in `recurrence`, the time being 1.
        past: The state before, of any floating type; None is zeros.
        state: float32, where the state after the step is written.

    Returns:
        float32 outputs ``(batch, heads, group, 1, value size)``.
    """
    if past is None:
        state[...] = 0
    elif decay is None:
        state[...] = past
    else:
        fading = xp.exp(decay.astype(xp.float32)).swapaxes(2, 3)
        xp.multiply(past if past.dtype == xp.float32 else past.astype(xp.float32), fading, out=state)
    queries, key, written = q[:, :, :, 0].astype(xp.float32), k.astype(xp.float32), v.astype(xp.float32)
    if beta is not None:
        written = (written - xp.matmul(key, state)) * beta.astype(xp.float32)
    column = key.swapaxes(2, 3)
    y = xp.matmul(queries, state)
    y += xp.matmul(queries, column) * written
    xp.add(state, column * written, out=state)
    return y[:, :, :, None]


def _in_chunks(xp: Any, x: Array, count: int, chunk: int) -> Array:
    """float32 ``(..., chunks, steps, size)``; steps behind the last are 0, which writes and decays nothing."""
    time = x.shape[-2]
    padded = xp.empty((*x.shape[:-2], count * chunk, x.shape[-1]), xp.float32)
    padded[..., :time, :] = x
    padded[..., time:, :] = 0
    return padded.reshape((*x.shape[:-2], count, chunk, x.shape[-1]))


def _pairs(xp: Any, q: Array, k: Array, sums: Array | None, keyed: bool, corrected: bool) -> tuple[Array, Array | None]:
    """Share of the write of step `i` that step `t` reads, ``i <= t``, by query; and by key ``i < t`` for the delta
    rules.

    Returns:
        ``(batch, heads, chunks, group, t, i)`` and ``(batch, heads, chunks, t, i)`` or None.
    """
    chunk = k.shape[3]
    steps = xp.arange(chunk)
    later = xp.greater(steps, steps.reshape((-1, 1)))  # i > t
    if sums is not None and keyed:
        read, write = _keyed_pairs(xp, q, k, sums, corrected)
    else:
        across = k.swapaxes(3, 4)
        read = xp.matmul(q, across[:, :, :, None])
        write = xp.matmul(k, across) if corrected else None
        if sums is not None:
            kept = xp.exp(xp.where(later, -xp.inf, sums - sums.swapaxes(3, 4)).astype(xp.float32))
            read *= kept[:, :, :, None]
            if write is not None:
                write *= kept
        else:
            read *= xp.logical_not(later)
    if write is not None:
        write *= xp.less(steps, steps.reshape((-1, 1)))
    return read, write


def _keyed_pairs(xp: Any, q: Array, k: Array, sums: Array, corrected: bool) -> tuple[Array, Array | None]:
    """`_pairs` where each element of the keys decays by itself.

    Pairs of steps in one group of `_GROUP` need an exponential each; for others it is a product of two, from the one
    step to the end of the group before the other's, and on from there.
    """
    lead, chunk, size = k.shape[:3], k.shape[3], k.shape[4]
    groups, heads = chunk // _GROUP, q.shape[3]
    read = xp.zeros((*q.shape[:5], chunk), xp.float32)
    write = xp.zeros((*lead, chunk, chunk), xp.float32) if corrected else None
    steps = xp.arange(_GROUP)
    later = xp.greater(steps, steps.reshape((-1, 1)))[..., None]
    for group in range(groups):
        here, before = slice(group * _GROUP, (group + 1) * _GROUP), slice(group * _GROUP)
        total, own = sums[:, :, :, here], k[:, :, :, here]
        apart = xp.where(later, -xp.inf, total[:, :, :, :, None] - total[:, :, :, None])
        decayed = own[:, :, :, None] * xp.exp(apart.astype(xp.float32))  # (batch, heads, chunks, t, i, size)
        by_query = xp.matmul(decayed, xp.moveaxis(q[:, :, :, :, here], 3, 5))  # (batch, heads, chunks, t, i, group)
        read[:, :, :, :, here, here] = xp.moveaxis(by_query, 5, 3)
        if write is not None:
            write[:, :, :, here, here] = xp.matmul(decayed, own[..., None])[..., 0]
        if group == 0:
            continue
        border = sums[:, :, :, group * _GROUP - 1, None]
        across = (k[:, :, :, before] * xp.exp((border - sums[:, :, :, before]).astype(xp.float32))).swapaxes(3, 4)
        since = xp.exp((total - border).astype(xp.float32))
        queries = (q[:, :, :, :, here] * since[:, :, :, None]).reshape((*lead, heads * _GROUP, size))
        read[:, :, :, :, here, before] = xp.matmul(queries, across).reshape((*lead, heads, _GROUP, group * _GROUP))
        if write is not None:
            write[:, :, :, here, before] = xp.matmul(own * since, across)
    return read, write


def _inverse(xp: Any, strict: Array) -> Array:
    """``(I + strict)⁻¹`` of strictly lower triangular matrices, row by row: sums of powers would lose all digits."""
    size = strict.shape[-1]
    inverse = xp.zeros(strict.shape, strict.dtype)
    inverse[...] = xp.eye(size, dtype=strict.dtype)
    for row in range(1, size):
        above = inverse[..., :row, :row]
        inverse[..., row, :row] = -xp.matmul(strict[..., row : row + 1, :row], above)[..., 0, :]
    return inverse
