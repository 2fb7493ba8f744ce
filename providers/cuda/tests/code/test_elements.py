"""The layout of threads over rows, and the number of elements loaded at once."""

from __future__ import annotations

import pytest

from ort_py_cuda.code.elements import pack_of, rows_of


@pytest.mark.parametrize("pack", [1, 2, 4, 8])
@pytest.mark.parametrize("width", [8, 24, 256, 1000, 1024, 4096, 8200, 32768, 32776, 200000])
@pytest.mark.parametrize("values", [8, 32])
def test_rows_are_covered(width: int, pack: int, values: int) -> None:
    """Threads and the packs of each reach the end of a row, within what a device allows."""
    laid = rows_of(10, width, pack, values)
    threads = laid.block[0]
    assert threads % 32 == 0
    assert threads * laid.block[1] <= 1024
    assert laid.grid[0] * laid.block[1] >= 10
    if laid.packs:
        assert threads * laid.packs * pack >= width
        assert laid.packs * pack <= max(values, pack)
    if laid.block[1] > 1:
        assert threads == 32  # rows that share a block have one warp each: they may not meet


@pytest.mark.parametrize(
    ("itemsize", "width", "addresses", "pack"),
    [
        (4, 64, (0, 256), 4),
        (2, 64, (256,), 8),
        (4, 63, (256,), 1),
        (4, 66, (256,), 2),
        (4, 64, (264,), 2),
        (8, 64, (8,), 1),
    ],
)
def test_packs(itemsize: int, width: int, addresses: tuple[int, ...], pack: int) -> None:
    """16 bytes where the width and all addresses allow."""
    assert pack_of(itemsize, width, *addresses) == pack
