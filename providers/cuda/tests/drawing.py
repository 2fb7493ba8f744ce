"""Random numbers of a test, the same in whatever order tests run: `conftest` begins again for each.

Only while a test runs: parameters are drawn when tests are collected, and are written out instead.
"""

from __future__ import annotations

import zlib

import numpy as np

__all__ = ["begin", "end", "rng"]

_generators: list[np.random.Generator] = []


def begin(name: str) -> None:
    """A test begins: its numbers follow from its name."""
    _generators.append(np.random.default_rng(zlib.crc32(name.encode())))


def end() -> None:
    """It is over."""
    _generators.pop()


def rng() -> np.random.Generator:
    """The generator of the test that runs."""
    assert _generators, "random numbers are a test's own"
    return _generators[-1]
