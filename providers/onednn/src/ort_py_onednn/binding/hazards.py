"""Effects of a primitive's code on NaN and infinities: the primitives that may lose one, and those that raise flags
needlessly.

oneDNN clamps with instructions that give the other operand where one is not a number; they raise the processor's
Invalid flag then (`flags`). Everything here follows from the kind of a primitive, its algorithm and its post-ops, and
was found by running each with NaN at every place; `tests/test_not_a_number.py` does so again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import Algorithm, Binary, Eltwise

__all__ = ["Hazards", "hazards_of", "may_clamp"]

_KEEPING = frozenset(
    {
        *(Eltwise.ABS, Eltwise.LINEAR, Eltwise.ROUND, Eltwise.SQRT, Eltwise.SQUARE),
        *(Binary.ADD, Binary.DIV, Binary.MUL, Binary.SUB),
        *(Algorithm.POOLING_AVG_EXCLUDE_PADDING, Algorithm.POOLING_AVG_INCLUDE_PADDING),
        *(Algorithm.REDUCTION_MEAN, Algorithm.REDUCTION_SUM),
    }
)
"""Algorithms that give NaN where an operand is NaN, whatever else happens."""

_COMPARISONS = frozenset({Binary.GE, Binary.GT, Binary.LE, Binary.LT, Binary.EQ, Binary.NE})
"""They give 0 or 1 for NaN, as they should."""

_EXTREMES = frozenset({Algorithm.POOLING_MAX, Algorithm.REDUCTION_MAX, Algorithm.REDUCTION_MIN})
"""They begin with the lowest finite number, or the largest."""

_MOVING = frozenset({"concat", "convolution", "layer normalization", "matmul", "reorder", "resampling"})
"""Primitives without an algorithm of their own that keep NaN too; what is not known here counts as clamping."""


@dataclass(frozen=True, slots=True)
class Hazards:
    """Hazards of one primitive.

    Attributes:
        clamps: It may make a number of NaN, and raises the Invalid flag if it does.
        idle: It raises the Invalid flag though no element is NaN: a division of vectors by vectors, for places behind
            the end of a row are then 0 / 0; and comparisons, whose masks are NaN where they are read as numbers.
        overflows: The Overflow flag shows where its result is wrong: that of a maximum or a minimum that found nothing
            but the infinity that is farthest from it, and that of a local response normalisation, which computes
            x ** -0.75 by way of x³.
        leftovers: It applies functions to whatever vector registers hold as well, without using the result.
        silent: Its code is compiled C++, whose comparisons raise no flag. That of transposed convolutions applies the
            post-ops so; of those, only the sigmoid loses NaN without a flag.
    """

    clamps: bool
    idle: bool
    overflows: bool
    leftovers: bool
    silent: bool


def may_clamp(algorithm: int) -> bool:
    """Return whether a function, or a function of two operands, may make a number of NaN."""
    return algorithm not in _KEEPING and algorithm not in _COMPARISONS


def hazards_of(
    call: str, algorithm: int, posts: Sequence[int], implementation: str, *, whole: bool, divides: bool
) -> Hazards:
    """Look up the hazards of a primitive.

    Args:
        call: Its kind.
        algorithm: Its own algorithm; 0 where it has none.
        posts: Algorithms of its post-ops.
        implementation: oneDNN's name of its code.
        whole: Whether its result is rounded to integers.
        divides: Whether it divides by a vector.
    """
    own = may_clamp(algorithm) if algorithm else call not in _MOVING
    return Hazards(
        clamps=whole or own or any(map(may_clamp, posts)),
        idle=divides or not _COMPARISONS.isdisjoint((algorithm, *posts)),
        overflows=(algorithm in _EXTREMES and len(posts) > 1) or call == "local response normalization",
        leftovers=implementation.startswith("brg") and implementation.endswith("avx2"),
        silent=implementation.startswith(("ref", "simple"))
        or "gemm" in implementation
        or (implementation.startswith("conv:") and Eltwise.LOGISTIC in posts),
    )
