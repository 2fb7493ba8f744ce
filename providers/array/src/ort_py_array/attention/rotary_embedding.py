"""RotaryEmbedding-23 of ai.onnx, and `rotated`, which the operators of com.microsoft share.

Each pair of elements of a head is a complex number that is turned by an angle of its position. The result is written
once, without parts that would be concatenated; narrow floats are turned in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.checks import check_indices, shape_error
from ort_py_array.precision import is_narrow, widened

__all__ = ["angles", "rotary_embedding", "rotated"]

_ELEMENTS = 65536
"""Of a block: its input, result and two products stay in a core's second-level cache."""


def rotated(ctx: KernelContext, x: Array, cos: Array, sin: Array, out: Array, *, interleaved: bool) -> None:
    """Turn the first elements of each head, copy the rest.

    Args:
        ctx: Context of the node; its pool gets blocks of positions.
        x: ``(batch, length, heads, size)``, any strides.
        cos: Cosines ``(batch or 1, length, half)``; the first ``2 · half`` elements of a head are turned.
        sin: Sines of the same shape.
        out: Where to write, of the shape and type of `x`, heads contiguous; not `x`.
        interleaved: Whether a pair is two neighbours, not an element of the first and one of the second half.
    """
    half, size = cos.shape[2], x.shape[3]
    turn = _turn_neighbours if interleaved else _turn_halves
    if not x.size:
        return
    batch, length, heads = x.shape[:3]
    step = min(length, max(1, _ELEMENTS // (heads * size)))
    entries = max(1, _ELEMENTS // (step * heads * size))

    def positions(start: int, stop: int) -> None:
        for entry in range(0, batch, entries):
            of = slice(entry, entry + entries)
            shared = slice(None) if cos.shape[0] == 1 else of
            for begin in range(start, stop, step):
                at = slice(begin, min(begin + step, stop))
                part, result = x[of, at], out[of, at]
                turn(ctx.xp, part[..., : 2 * half], cos[shared, at], sin[shared, at], result[..., : 2 * half])
                if 2 * half < size:
                    result[..., 2 * half :] = part[..., 2 * half :]

    ctx.parallel_for(x.shape[1], step, positions)


def _turn_halves(xp: Any, x: Array, cos: Array, sin: Array, out: Array) -> None:
    # Whole heads are multiplied: loops over halves, of a few dozen elements, cost more to begin. Copies begin sooner.
    half = cos.shape[2]
    c, s = widened(xp, cos)[:, :, None], widened(xp, sin)[:, :, None]
    wide = widened(xp, x)
    across = xp.empty_like(wide)  # whose axes lie in the same order, so that loops join them
    across[..., :half] = wide[..., half:]
    across[..., half:] = wide[..., :half]
    xp.multiply(across, xp.concatenate((xp.negative(s), s), axis=3), out=across)
    c = xp.concatenate((c, c), axis=3)
    if is_narrow(out.dtype):
        out[...] = wide * c + across
    else:
        xp.multiply(wide, c, out=out)
        xp.add(out, across, out=out)


def _turn_neighbours(xp: Any, x: Array, cos: Array, sin: Array, out: Array) -> None:
    # Two neighbours are a complex number in memory, and complex products run at full speed where strides of 2 do not.
    angle = xp.stack((widened(xp, cos), widened(xp, sin)), axis=-1)
    kind = xp.complex128 if angle.dtype == xp.float64 else xp.complex64
    turning = angle.reshape((*angle.shape[:2], 1, -1)).view(kind)
    wide = widened(xp, x)
    if wide.strides[-1] != wide.itemsize:
        wide = xp.ascontiguousarray(wide)
    if is_narrow(out.dtype):
        out[...] = xp.multiply(wide.view(kind), turning).view(wide.dtype)
    else:
        xp.multiply(wide.view(kind), turning, out=out.view(kind))


@kernel("RotaryEmbedding", since=23, strided=True)
def rotary_embedding(
    ctx: KernelContext,
    x: Array,
    cos_cache: Array,
    sin_cache: Array,
    position_ids: Array | None = None,
    *,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Array:
    """RotaryEmbedding-23: each head of `x` turned by the angles of its position.

    `x` is ``(batch, heads, length, size)``, or ``(batch, length, heads · size)`` with `num_heads`. The caches hold one
    row a position, chosen by `position_ids` ``(batch, length)``, or without those one row for each place
    ``(batch, length, half)``. `rotary_embedding_dim` elements of a head are turned, all where it is 0.

    Raises:
        InvalidArgument: Shapes that do not fit, a missing number of heads, an odd or too large number of elements to
            turn, or a position outside the caches.
    """
    xp, where = ctx.xp, ctx.node.location
    if x.ndim == 3:
        if num_heads is None or num_heads < 1 or x.shape[2] % num_heads:
            raise InvalidArgument(
                f"num_heads is {num_heads} for an input of shape {list(x.shape)}.",
                where=where,
                why="the last axis of an input of rank 3 holds all heads",
                fix="Set num_heads to a divisor of the last axis.",
            )
        heads = x.reshape((x.shape[0], x.shape[1], num_heads, x.shape[2] // num_heads))
    elif x.ndim == 4:
        heads = x.swapaxes(1, 2)
    else:
        raise shape_error("The input must have rank 3 or 4.", where, [x.shape])
    dim = rotary_embedding_dim or heads.shape[3]
    if dim % 2 or not 0 <= dim <= heads.shape[3]:
        raise InvalidArgument(
            f"{dim} elements of heads of {heads.shape[3]} cannot be turned in pairs.",
            where=where,
            fix="rotary_embedding_dim must be even and no more than the size of a head.",
        )
    cos, sin = angles(ctx, cos_cache, sin_cache, position_ids, tuple(heads.shape[:2]), dim // 2)
    y = xp.empty(x.shape, x.dtype)
    rotated(
        ctx, heads, cos, sin, y.reshape(heads.shape) if x.ndim == 3 else y.swapaxes(1, 2), interleaved=bool(interleaved)
    )
    return y


def angles(
    ctx: KernelContext, cos: Array, sin: Array, positions: Array | None, lead: tuple[int, ...], half: int
) -> tuple[Array, Array]:
    """Cosine and sine of each place, ``(batch, length, half)``.

    Args:
        ctx: Context of the node.
        cos: Cache ``(positions, half)`` where `positions` is given, else ``(batch, length, half)``.
        sin: Of the same shape.
        positions: Rows of the caches ``(batch, length)``, or None.
        lead: ``(batch, length)``.
        half: Pairs of a head that are turned.

    Raises:
        InvalidArgument: The shapes do not fit, or a position is outside the caches.
    """
    where = ctx.node.location
    wanted = (*lead, half) if positions is None else (cos.shape[0] if cos.ndim else 0, half)
    if tuple(cos.shape) != wanted or tuple(sin.shape) != wanted:
        raise shape_error(f"The caches must have the shape {list(wanted)}.", where, [cos.shape, sin.shape])
    if positions is None:
        return cos, sin
    if tuple(positions.shape) != lead:
        raise shape_error(f"position_ids must have the shape {list(lead)}.", where, [positions.shape])
    check_indices(ctx, positions, cos.shape[0])
    return ctx.xp.take(cos, positions, axis=0), ctx.xp.take(sin, positions, axis=0)
