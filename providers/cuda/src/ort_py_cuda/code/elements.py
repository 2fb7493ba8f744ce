"""Element types as generated code spells them, and how threads are laid over rows and flat arrays.

It refers to dtypes by name, because NumPy has no bfloat16 of its own. Comes before the kernels and the regions.
"""

from __future__ import annotations

from typing import Any

from ort_py.lazy_dataclass import dataclass

__all__ = ["C_TYPES", "THREADS", "Rows", "blocks_for", "c_type", "pack_of", "rows_of"]

C_TYPES: dict[str, str] = {
    "float32": "float",
    "float64": "double",
    "float16": "half_t",
    "bfloat16": "bfloat16_t",
    "bool": "bool",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
}
"""Types of generated code, by NumPy's names."""

THREADS = 256
"""Of a block where threads need not meet."""

_MOST_PACKS = 8
_MOST_VALUES = 32
"""A thread holds: more than these would leave room for few threads."""

_WARP_ROWS = 4
"""Rows of one block where each has one warp."""


def c_type(dtype: Any) -> str | None:
    """The name of a dtype in generated code, or None if it has no such type."""
    return C_TYPES.get(dtype.name)


def blocks_for(count: int) -> tuple[int, int, int]:
    """A grid with a thread of `THREADS` for each of `count`."""
    return -(-count // THREADS), 1, 1


def pack_of(itemsize: int, width: int, *addresses: int) -> int:
    """Elements that are loaded at once: 16 bytes of them, where rows and arrays allow; else fewer, down to 1.

    Args:
        itemsize: Bytes of the largest element.
        width: Elements of a row: packs must not cross rows.
        *addresses: Where arrays of that element begin; 0 for those that are absent.
    """
    count = max(1, 16 // itemsize)
    while count > 1 and (width % count or any(address % (itemsize * count) for address in addresses)):
        count //= 2
    return count


@dataclass(frozen=True, slots=True)
class Rows:
    """Threads over rows.

    Attributes:
        pack: Elements loaded at once.
        packs: Packs that a thread holds in registers, a power of 2; 0 where the row is too long for that.
        grid: Blocks.
        block: Threads: of a row along x, rows along y.
    """

    pack: int
    packs: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


def rows_of(rows: int, width: int, pack: int, values: int = _MOST_VALUES) -> Rows:
    """The layout of threads over `rows` of `width` elements, loaded `pack` at once.

    Args:
        rows: How many.
        width: Elements of one.
        pack: Elements loaded at once.
        values: How many elements a thread may hold in registers.
    """
    count = -(-width // pack)
    most = 1
    while most < _MOST_PACKS and 2 * most * pack <= values:
        most *= 2
    if pack > values:
        return Rows(pack, 0, (rows, 1, 1), (min(512, 32 * -(-count // 32)), 1, 1))
    if count <= 32 * most:
        packs = 1
        while 32 * packs < count:
            packs *= 2
        return Rows(pack, packs, (-(-rows // _WARP_ROWS), 1, 1), (32, _WARP_ROWS, 1))
    if count <= 1024 * most:
        packs = most if count > 512 * most else most // 2 or 1  # more threads, where that leaves blocks small
        threads = 32 * -(-count // (32 * packs))
        return Rows(pack, packs, (rows, 1, 1), (threads, 1, 1))
    return Rows(pack, 0, (rows, 1, 1), (512, 1, 1))
