"""Memory of packed weights: pieces of blocks, aligned, apart from each other, and gone with the last one."""

from __future__ import annotations

import gc
import mmap
import os
import weakref

import numpy as np
import pytest

from ort_py_onednn.execution import large_pages
from ort_py_onednn.execution.large_pages import lasting

SIZE = 300_000


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks from the first byte on."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        pytest.skip("this system has no large pages to ask for")
    monkeypatch.setattr(large_pages, "_USUAL", 0)
    monkeypatch.setattr(large_pages, "_blocks", large_pages._Blocks())


def test_pieces_are_aligned_and_do_not_overlap() -> None:
    pieces = [lasting(SIZE + place) for place in range(130)]  # more than a block holds
    for number, piece in enumerate(pieces):
        assert piece.ctypes.data % 64 == 0
        assert piece.nbytes == SIZE + number
        piece[:] = number
    assert all((piece == number).all() for number, piece in enumerate(pieces))


def test_a_block_goes_with_its_last_piece() -> None:
    first, second = lasting(SIZE), lasting(SIZE)
    assert isinstance(first.base, mmap.mmap)
    block = weakref.ref(first.base)
    assert second.base is first.base
    del first
    gc.collect()
    assert block() is not None
    del second
    gc.collect()
    assert block() is None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_a_block_of_its_own() -> None:
    """What a child packs does not come to lie in its parent's weights, though a part of a block was left."""
    first = lasting(SIZE)
    first[:] = 1
    child = os.fork()
    if child == 0:
        try:
            for piece in (first, lasting(SIZE)):
                piece[:] = 2
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    second = lasting(SIZE)
    np.testing.assert_array_equal(first, 1)
    np.testing.assert_array_equal(second, 0)


def test_a_piece_counts_as_its_own_bytes() -> None:
    """Reports of memory count an array as what it is a view of, if that tells its size."""
    piece = lasting(SIZE)
    assert piece.nbytes == SIZE
    assert not hasattr(piece.base, "nbytes")


def test_small_and_large_arrays_have_memory_of_their_own() -> None:
    """A few kilobytes are not worth it, and NumPy asks for large pages for arrays of 4 MiB itself."""
    piece = lasting(SIZE)
    for nbytes in (1000, 4 << 20):
        other = lasting(nbytes)
        assert other.nbytes == nbytes
        assert other.base is not piece.base


def test_a_small_model_takes_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pages, "_USUAL", 2 * SIZE)
    monkeypatch.setattr(large_pages, "_blocks", large_pages._Blocks())
    bases = [lasting(SIZE).base for _ in range(2)]
    third, fourth = lasting(SIZE), lasting(SIZE)
    assert bases[0] is not bases[1]
    assert third.base is not bases[1]
    assert third.base is fourth.base
