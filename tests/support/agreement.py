"""Agreement of results in lower precision: their direction, and the position of the largest element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Agreement", "agreement"]

_APART = 2.0**-8
"""Numbers that are closer, relatively, are one number in bfloat16."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The worst of some outputs.

    Attributes:
        cosine: Of both as vectors: 1 where they point the same way.
        same_largest: Share of rows, along the last axis, whose largest element is in the same place. Of elements that
            bfloat16 cannot tell apart any will do: coordinates of a box may be alike.
        error: ‖a - b‖ / ‖b‖.
    """

    cosine: float
    same_largest: float
    error: float


def agreement(ours: Sequence[Any], exact: Sequence[Any]) -> Agreement:
    """Compare floating outputs; others must be equal.

    Raises:
        AssertionError: Shapes differ, or integers do.
    """
    cosine, same, error = 1.0, 1.0, 0.0
    for one, other in zip(ours, exact, strict=True):
        a, b = np.asarray(one), np.asarray(other)
        assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
        if b.dtype.kind not in "fV" or not b.size:
            np.testing.assert_array_equal(a, b)
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        size = float(np.linalg.norm(b))
        if size:
            cosine = min(cosine, float(a.ravel() @ b.ravel()) / (float(np.linalg.norm(a)) * size or 1.0))
            error = max(error, float(np.linalg.norm(a - b)) / size)
        if b.ndim and b.shape[-1] > 1:
            place = a.argmax(-1)[..., np.newaxis]
            largest = b.max(-1)
            behind = largest - np.take_along_axis(b, place, -1)[..., 0]
            same = min(same, float(np.mean(behind <= _APART * np.abs(largest))))
    return Agreement(cosine, same, error)
