"""RotaryEmbedding of ai.onnx and com.microsoft as one kernel that reads positions where they are, on the device.

A position outside the caches is noted and raised after the run (`faults`), so that no node waits. What the kernel was
not written for, and all that is malformed, goes to the array library, which says what is wrong.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.contracts.kernel import kernel_defs as declared
from ort_py_array.attention import rotary_embedding as library
from ort_py_array.contrib import rotary as contrib_library
from ort_py_cuda.code.elements import THREADS, blocks_for, c_type
from ort_py_cuda.code.faults import Site, record_of
from ort_py_cuda.kernels.covering import FLOATS, built, contiguous, covering, current_stream

__all__ = ["KERNELS", "contrib_rotary", "rotary", "turn"]

_FIELDS = 14


def turn(
    x: Array,
    out: Array,
    heads: int,
    size: int,
    cos: Array,
    sin: Array,
    positions: Array | None,
    site: Site,
    *,
    interleaved: bool,
    first_only: bool = False,
) -> None:
    """Enqueue the turning of heads.

    Args:
        x: ``(batch, length, heads * size)`` or ``(batch, heads, length, size)``, C-contiguous.
        out: Of the same shape and type; not `x`.
        heads, size: Heads, and elements of one.
        cos: ``(rows, half)`` where there are positions, else ``(batch or 1, length, half)``.
        sin: Likewise.
        positions: ``(batch, length)`` int64, or one number; None where the caches have a row a place.
        site: For a position outside the caches.
        interleaved: Whether a pair is two neighbours.
        first_only: Whether `positions` is the position of the first place.
    """
    batch = x.shape[0]
    length = x.shape[1] if x.ndim == 3 else x.shape[2]
    strides = (
        (length * heads * size, heads * size, size) if x.ndim == 3 else (heads * length * size, size, length * size)
    )
    half = cos.shape[-1]
    rows = prod(cos.shape[:-1])
    if positions is None:
        way, position_batch = "NO_POSITIONS", length if cos.shape[0] > 1 else 0
    else:
        way, position_batch = ("FIRST", 0) if first_only else ("EACH", length if positions.shape[0] > 1 else 0)
    kind = c_type(x.dtype)
    kernel = built(
        ("rotary",),
        "rotate_heads",
        f"const {kind} *x, const {kind} *cosines, const {kind} *sines, const int64 *positions, {kind} *y, Turned t, "
        "Fault *fault",
        f"PPPPP{_FIELDS}qP",
        f"rotate<{kind}, int64, {way}, {str(interleaved).lower()}>(x, cosines, sines, positions, y, t, fault);",
    )
    stream = current_stream()
    kernel(
        blocks_for(batch * length * heads * (size - half)),
        (THREADS, 1, 1),
        stream,
        x.data.ptr,
        cos.data.ptr,
        sin.data.ptr,
        0 if positions is None else positions.data.ptr,
        out.data.ptr,
        *(batch, length, heads, size, half),
        *strides,
        *strides,
        rows,
        position_batch,
        site.number,
        record_of(stream),
    )


def rotary(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """RotaryEmbedding-23 of ai.onnx."""
    xp, attributes = ctx.xp, ctx.node.attributes
    site = Site.of_position(ctx.node.location)
    interleaved, given_heads = bool(attributes.get("interleaved", 0)), attributes.get("num_heads", 0)
    dim = attributes.get("rotary_embedding_dim", 0)

    def run(x: Array, cos: Array, sin: Array, positions: Array | None = None) -> Array:
        heads = given_heads if x.ndim == 3 else x.shape[1] if x.ndim == 4 else 0
        if not _usable(x, cos, sin) or heads < 1 or (x.ndim == 3 and x.shape[2] % heads):
            return general(x, cos, sin, positions)
        size = x.shape[2] // heads if x.ndim == 3 else x.shape[3]
        lead = tuple(x.shape[:2]) if x.ndim == 3 else (x.shape[0], x.shape[2])
        half = (dim or size) // 2
        wanted = (*lead, half) if positions is None else (cos.shape[0], half)
        if (
            (dim or size) % 2
            or 2 * half > size
            or tuple(cos.shape) != wanted
            or (positions is not None and not _are_positions(positions, lead))
        ):
            return general(x, cos, sin, positions)
        out = xp.empty(x.shape, x.dtype)
        turn(x, out, heads, size, cos, sin, positions, site, interleaved=interleaved)
        return out

    return run


def contrib_rotary(ctx: KernelContext, general: KernelCallable) -> KernelCallable:
    """RotaryEmbedding-1 of com.microsoft."""
    xp, attributes = ctx.xp, ctx.node.attributes
    site = Site.of_position(ctx.node.location)
    interleaved, given_heads = bool(attributes.get("interleaved", 0)), attributes.get("num_heads", 0)
    dim = attributes.get("rotary_embedding_dim", 0)

    def run(x: Array, positions: Array, cos: Array, sin: Array) -> Array:
        if not _usable(x, cos, sin) or cos.ndim != 2 or x.ndim not in (3, 4):
            return general(x, positions, cos, sin)
        pairs = cos.shape[1]
        if x.ndim == 4:
            heads, length, size = x.shape[1:]
        else:
            length = x.shape[1]
            size = x.shape[2] // given_heads if dim and given_heads > 0 else 2 * pairs
            heads = x.shape[2] // size if size else 0
        first_only = positions.size == 1 and (positions.ndim < 2 or length != 1)
        if (
            (dim and (given_heads < 1 or dim != 2 * pairs))
            or 2 * pairs > size
            or (x.ndim == 3 and heads * size != x.shape[2])
            or positions.dtype != xp.int64
            or not (first_only or _are_positions(positions, (x.shape[0], length)))
        ):
            return general(x, positions, cos, sin)
        out = xp.empty(x.shape, x.dtype)
        turn(x, out, heads, size, cos, sin, positions, site, interleaved=interleaved, first_only=first_only)
        return out

    return run


def _usable(x: Array, cos: Array, sin: Array) -> bool:
    return bool(
        c_type(x.dtype) is not None
        and x.size
        and cos.size
        and cos.dtype == x.dtype == sin.dtype
        and cos.shape == sin.shape
        and contiguous(x, cos, sin)
    )


def _are_positions(positions: Any, lead: tuple[int, ...]) -> bool:
    return positions.dtype.name == "int64" and tuple(positions.shape) == lead and bool(positions.flags.c_contiguous)


KERNELS: list[KernelDef] = [
    *covering(declared(library), ("RotaryEmbedding",), rotary, types=FLOATS),
    *covering(declared(contrib_library), ("RotaryEmbedding",), contrib_rotary, types=FLOATS),
]
