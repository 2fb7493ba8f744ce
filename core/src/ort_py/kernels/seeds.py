"""Seeds of random operators without a seed attribute: one setting per process, one stream per node.

Comes before `binding`, which creates the generators. Does not depend on kernels.
"""

from __future__ import annotations

import zlib

import numpy as np

from ort_py.errors import Location

_seed: int | None = None


def set_process_seed(seed: int | None) -> None:
    """Set the seed for sessions made from now on; None means a random seed from the system."""
    global _seed  # noqa: PLW0603 - the setting is the process's, as onnxruntime's
    _seed = seed


def process_seed() -> int | None:
    return _seed


def stream_for(seed: int | None, node: Location, call: int) -> np.random.Generator:
    """A generator for one call of a node.

    Args:
        seed: The session's seed; None for numbers that cannot be repeated.
        node: The node, whose position determines its stream, so that two nodes of a model draw different numbers.
        call: Number of the call, from 0: two runs of a session draw different numbers.
    """
    if seed is None:
        return np.random.default_rng()
    place = "/".join((*node.path, node.node, node.op_type)).encode()
    return np.random.default_rng([seed % 2**64, zlib.crc32(place), len(place), call])
