"""The hash that tells one model's bytes from another's. A leaf: sessions that load nothing ask for it too."""

from __future__ import annotations

import hashlib
from typing import Any

from ort_py.graph.weights.paging import forget_pages

__all__ = ["content_hash"]

_HASHED_AT_ONCE = 4 << 20
"""Bytes of a mapped file that are in memory at once while it is hashed."""


def content_hash(content: Any) -> str:
    """Hash of a model's bytes: its fingerprint."""
    found = hashlib.blake2b(digest_size=20)
    view = memoryview(content)
    for start in range(0, view.nbytes, _HASHED_AT_ONCE):
        stop = min(start + _HASHED_AT_ONCE, view.nbytes)
        found.update(view[start:stop])
        forget_pages(view, start, stop)
    return found.hexdigest()
