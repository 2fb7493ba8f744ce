"""Estimated time of calls of the array module that nothing can interrupt: one transform, one sort, one decomposition.

Kernels ask ``ctx.check_time(ahead)`` before such a call, so that a run with a time limit refuses what would end long
after it. How fast this machine is, is measured once a process with calls of about a millisecond, and only when a kernel
that has a limit is about to make a large call. It is independent of operators.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from math import log2
from typing import Any

import numpy as np

from ort_py.contracts.kernel import KernelContext
from ort_py.devices import HOST

__all__ = [
    "ahead_of_batch",
    "ahead_of_decomposition",
    "ahead_of_loop",
    "ahead_of_product",
    "ahead_of_sort",
    "ahead_of_transform",
]

_LONG = 1 << 22
"""Operations that take a few milliseconds on any machine, for which nothing is estimated."""

_TRIES = 3

_CACHED = 1 << 20
_FAR = 5.0
"""How many times as long an operation of a transform takes on data that no cache holds."""
_FAR_SORT = 2.0
"""The same of a sort."""


def ahead_of_transform(ctx: KernelContext, count: int, length: int) -> None:
    """Ask whether there is time for `count` Fourier transforms of a length.

    Raises:
        LimitError: There is not.
    """
    padded = length if _is_smooth(length) else 4 * length  # Bluestein: two transforms of more than twice the length
    _ask(ctx, _transforms, count * padded * log2(max(2, padded)) * (_FAR if padded > _CACHED else 1))


def ahead_of_sort(ctx: KernelContext, count: int, length: int, dtype: Any = None) -> None:
    """Ask whether there is time for sorting `count` rows of a length stably.

    Args:
        ctx: Context of the node.
        count: The rows.
        length: Elements of each.
        dtype: Their type. Integers of up to 16 bits are counted, not compared: that takes 4 to 30 ns each, however many
            there are, where floats take up to 200 ns.

    Raises:
        LimitError: There is not.
    """
    counted = dtype is not None and dtype.kind in "biu" and dtype.itemsize <= 2
    steps = 1.0 if counted else log2(max(2, length))
    _ask(ctx, _sorts, count * length * steps * (_FAR_SORT if length > _CACHED else 1))


def ahead_of_decomposition(ctx: KernelContext, size: int, count: int = 1) -> None:
    """Ask whether there is time for the LU decompositions of `count` square matrices.

    Raises:
        LimitError: There is not.
    """
    _ask(ctx, _decompositions, count * size**3)


def ahead_of_product(ctx: KernelContext, work: float) -> None:
    """Ask whether there is time for multiplications in BLAS.

    Raises:
        LimitError: There is not.
    """
    _ask(ctx, _products, work)


def ahead_of_batch(ctx: KernelContext, work: float) -> None:
    """Ask whether there is time for the multiplications of an Einsum that multiplies many pairs of matrices: since 2.4,
    NumPy leaves these to BLAS, too.

    Raises:
        LimitError: There is not.
    """
    _ask(ctx, _batches, work)


def ahead_of_loop(ctx: KernelContext, work: float) -> None:
    """Ask whether there is time for multiplications in a loop that is not BLAS.

    Raises:
        LimitError: There is not.
    """
    _ask(ctx, _loops, work)


def _ask(ctx: KernelContext, seconds_each: Callable[[], float], work: float) -> None:
    if work > _LONG and ctx.is_timed and ctx.device == HOST:
        ctx.check_time(work * seconds_each())


def _is_smooth(length: int) -> bool:
    """Return whether the largest prime factor is small."""
    for prime in (2, 3, 5, 7, 11, 13):
        while length > 1 and length % prime == 0:
            length //= prime
    return length == 1


def _fastest(call: Callable[[], object], work: float) -> float:
    """Seconds for each operation of a call that makes `work` of them."""
    found = []
    for _ in range(_TRIES):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return min(found) / work


@cache
def _transforms() -> float:
    size = 1 << 15
    x = np.ones(size, np.float32)
    return _fastest(lambda: np.fft.fft(x), size * log2(size))


@cache
def _sorts() -> float:
    size = 1 << 14
    x = np.random.default_rng(0).random(size, np.float32)
    return _fastest(lambda: np.argsort(x, kind="stable"), size * log2(size))


@cache
def _decompositions() -> float:
    size = 256
    x = np.random.default_rng(0).random((size, size), np.float32)
    return _fastest(lambda: np.linalg.det(x), size**3)


@cache
def _products() -> float:
    size = 384
    x = np.ones((size, size), np.float32)
    return _fastest(lambda: x @ x, size**3)


@cache
def _batches() -> float:
    count, size = 4, 96
    x = np.ones((count, size, size), np.float32)
    return _fastest(lambda: np.einsum("bij,bjk->bik", x, x, optimize=True), count * size**3)


@cache
def _loops() -> float:
    size = 64
    x = np.ones((size, size), np.float32)
    return _fastest(lambda: np.einsum("ij,jk,ik->ijk", x, x, x), size**3)
