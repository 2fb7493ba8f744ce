"""Code whose memory oneDNN never gives back, and how much of it a process may make.

The kernels of its convolutions by blocks of matrices ("brgconv") are held by a set that lives as long as the process
(`brgemm_kernel_container_t` of oneDNN 3), which tells them apart by their bytes. Those with a function among their
post-ops hold addresses of their own, so that the same convolution made twice is there twice: 10 to 90 KiB each time.
A process whose shapes keep changing would grow without bound. So such primitives are counted: `remembered` keeps what
was made, and when the number is used up, new ones get the next best code, whose memory comes back.

Knows the names of implementations only.
"""

from __future__ import annotations

import threading

__all__ = ["LASTING_ALLOWED", "is_lasting", "is_used_up", "note"]

LASTING_ALLOWED = 2048
"""Primitives of such code that a process may make: some 50 to 150 MiB. A text recogniser that sees 60 widths of lines
makes 1,000."""

_lock = threading.Lock()
_count = 0


def is_lasting(implementation: str) -> bool:
    """Whether the library never frees the code of an implementation."""
    return "brgconv" in implementation


def is_used_up() -> bool:
    """Whether no more of it should be made."""
    return _count >= LASTING_ALLOWED


def note() -> None:
    """Count a primitive whose code was generated."""
    global _count  # noqa: PLW0603 - the memory is the process's, and so is its count
    with _lock:
        _count += 1
