"""Seeds of random operators that have none: one setting a process, one stream a node.

Comes before `binding`, which makes generators. Knows no kernel.
"""

from __future__ import annotations

import zlib

import numpy as np

from ort_py.errors import Location

__all__ = ["process_seed", "set_process_seed", "stream_for"]

_seed: int | None = None


def set_process_seed(seed: int | None) -> None:
    """Set the seed for sessions made from now on; None draws from the system again."""
    global _seed  # noqa: PLW0603 - the setting is the process's, as onnxruntime's
    _seed = seed


def process_seed() -> int | None:
    """The seed set for this process, or None."""
    return _seed


def stream_for(seed: int | None, node: Location, call: int) -> np.random.Generator:
    """A generator for one call of a node.

    Args:
        seed: The session's seed; None for numbers that cannot be repeated.
        node: The node, whose place gives it a stream of its own: two nodes of a model draw other numbers.
        call: Number of the call, from 0: two runs of a session draw different numbers.
    """
    if seed is None:
        return np.random.default_rng()
    place = "/".join((*node.path, node.node, node.op_type)).encode()
    return np.random.default_rng([seed % 2**64, zlib.crc32(place), len(place), call])
