"""`python -m benchmarks.large_pages [--megabytes N] [--piece KILOBYTES]`: how fast packed weights can be read.

The oneDNN provider packs weights of a few hundred kilobytes each. They are read here one after the other, as a decoder
does for each word: from memory in pages of the usual size, and from the blocks in large pages that the provider asks
for (`ort_py_onednn.execution.large_pages`). The share of the blocks that the system gave in large pages is shown, too:
0 where it gives none.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from ort_py_onednn.execution.large_pages import aligned, lasting

__all__ = ["main"]

_ROUNDS = 15
_SKIPPED = 8 << 20
"""Bytes that the provider leaves in pages of the usual size, so that small models need no block."""


def main(arguments: list[str]) -> int:
    """Print a row for each kind of memory."""
    parser = argparse.ArgumentParser(prog="benchmarks.large_pages", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=96, help="weights of the model (96)")
    parser.add_argument("--piece", type=int, default=432, help="kilobytes of one weight (432, as 4 bits of 576 x 1536)")
    chosen = parser.parse_args(arguments)
    size = chosen.piece << 10
    count = max(1, (chosen.megabytes << 20) // size)
    skipped = [lasting(size) for _ in range(-(-_SKIPPED // size))]
    print(f"{'memory':24} {'GB/s':>6} {'in large pages':>15}")
    for name, take in (("usual pages", aligned), ("blocks in large pages", lasting)):
        before = _in_large_pages()
        pieces = [take(size) for _ in range(count)]
        for piece in pieces:
            piece[:] = 1
        share = (_in_large_pages() - before) / (count * size)
        print(f"{name:24} {_rate(pieces):6.1f} {min(1.0, share):15.0%}", flush=True)
    del skipped
    return 0


def _rate(pieces: list[np.ndarray]) -> float:
    """The fastest of some rounds over all pieces, in 1e9 bytes a second."""
    target = np.empty(pieces[0].nbytes, np.uint8)
    fastest = float("inf")
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        for piece in pieces:
            np.copyto(target, piece)
        fastest = min(fastest, time.perf_counter() - begun)
    return sum(piece.nbytes for piece in pieces) / fastest / 1e9


def _in_large_pages() -> int:
    """Bytes of this process that lie in large pages, as Linux counts them; 0 elsewhere."""
    try:
        lines = Path("/proc/self/smaps").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
