"""Code whose memory oneDNN never gives back, and how much of it a process may make.

The kernels of its convolutions by blocks of matrices ("brgconv") are held by a set that lives as long as the process
(`brgemm_kernel_container_t` of oneDNN 3), which tells them apart by their bytes. Those with a function among their
post-ops hold addresses of their own, so that the same convolution made twice is there twice. A process whose shapes
keep changing would grow without bound. So primitives with such code are kept here, where `remembered` finds them, and
their bytes are added up: after the allowed number, new ones get the next best code, whose memory comes back.

It uses only the names of implementations.
"""

from __future__ import annotations

import threading
from typing import Protocol

__all__ = ["LASTING_BYTES", "forget", "is_lasting", "is_used_up", "keep"]

LASTING_BYTES = 96 << 20
"""Estimated bytes of such primitives that a process may make. A text recogniser that sees 60 widths of lines makes
1,000 of them, which take 70 MiB."""


class _Sized(Protocol):
    """A primitive, as far as it matters here."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""


_lock = threading.Lock()
_kept: list[_Sized] = []
_bytes = 0


def is_lasting(implementation: str) -> bool:
    """Return whether the library never frees the code of an implementation."""
    return "brgconv" in implementation


def is_used_up() -> bool:
    """Return whether no more of it should be made."""
    return _bytes >= LASTING_BYTES


def keep(primitive: _Sized) -> None:
    """Keep and count a primitive whose code was generated."""
    global _bytes  # noqa: PLW0603 - the memory is the process's, and so is the sum
    with _lock:
        _kept.append(primitive)
        _bytes += primitive.nbytes


def forget() -> None:
    """Let go of the primitives, for tests that count what is made. The bytes stay counted, as they stay in memory."""
    with _lock:
        _kept.clear()
