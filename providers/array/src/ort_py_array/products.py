"""Matrix products, large ones split over the run's threads.

During a run BLAS has one thread (the engine sees to it), so every product large enough to gain from more goes through
here. Each part is a product of whole entries, rows or columns: none reads what another writes, and every element is
summed up in one part.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext

__all__ = ["SPLIT_FROM", "product"]

_PART = 1 << 22
"""Multiply-adds that a part has at least. Waking a thread takes as long as 3 million of them in float32."""

SPLIT_FROM = 2 * _PART
"""Multiply-adds from which a product may be split: who knows that its own has less need not ask."""

_ROWS, _COLUMNS = 12, 192
"""Rows and columns are cut at multiples of these: kernels of OpenBLAS for x86-64 (those before AVX, with AVX2 and with
AVX-512) then round each element as they do in the whole product, so that a result has the same bits on any number of
threads. At other places they do not."""

_ENTRIES = 4
"""A leading axis of this length is cut rather than each matrix."""


def product(ctx: KernelContext, left: Array, right: Array, out: Array | None = None) -> Array:
    """`xp.matmul`, in parts where it is large.

    Args:
        ctx: Context of the node.
        left: Shape ``(..., m, k)``, or a vector.
        right: Shape ``(..., k, n)``, or a vector; leading axes broadcast.
        out: Array to put the result into; a new one where it is None.
    """
    xp = ctx.xp
    if not _splits(left, right):
        return xp.matmul(left, right) if out is None else xp.matmul(left, right, out=out)
    lead = xp.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    shape = (*lead, left.shape[-2], right.shape[-1])
    y: Any = xp.empty(shape, left.dtype) if out is None else out
    back, unit = _cut(shape) if left.dtype.kind == "f" else (_cut(shape)[0], 1)
    size = shape[-back]
    units = max(1, size // unit)

    def part(first: int, last: int) -> None:
        places = slice(first * unit, size if last == units else last * unit)
        some_left = left if back == 1 else _at(left, back, places)
        some_right = right if back == 2 else _at(right, back, places)
        xp.matmul(some_left, some_right, out=_at(y, back, places))

    ctx.parallel_for(units, -(-_PART * units // (prod(shape) * left.shape[-1])), part)
    return y


def _splits(left: Array, right: Array) -> bool:
    """Return whether a product is large enough for two parts, and one that can be cut."""
    # Most products are small, and one multiplication is enough to recognise these.
    if left.size * right.shape[-1] < SPLIT_FROM and (
        left.ndim >= right.ndim or right.size * left.shape[-2 if left.ndim > 1 else 0] < SPLIT_FROM
    ):
        return False
    return (
        left.ndim > 1
        and right.ndim > 1
        and left.shape[-1] == right.shape[-2]
        and left.dtype == right.dtype
        and getattr(left, "device", None) == "cpu"
    )


def _cut(shape: tuple[int, ...]) -> tuple[int, int]:
    """The axis of a result to cut, counted from the back, and the multiple to cut at."""
    longest = max(range(3, len(shape) + 1), key=lambda back: shape[-back], default=0)
    if longest and shape[-longest] >= _ENTRIES:
        return longest, 1
    rows, columns = shape[-2] // _ROWS, shape[-1] // _COLUMNS
    return (1, _COLUMNS) if columns > rows else (2, _ROWS)


def _at(x: Array, back: int, places: slice) -> Array:
    """`x` at some places of an axis, counted from the back; whole where it has no such axis or one entry for all."""
    if x.ndim < back or x.shape[-back] == 1:
        return x
    return x[(..., places, *(slice(None),) * (back - 1))]
