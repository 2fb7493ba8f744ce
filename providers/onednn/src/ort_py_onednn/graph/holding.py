"""Storage of the bytes that stay within a region: signed ones as unsigned, if products are faster that way.

An instruction of VNNI multiplies unsigned by signed bytes: of a signed source the library moves every byte by 128 and
corrects the sums, beside the correction for a zero point. ``q - z`` is ``(q + 128) - (z + 128)``: bytes that are moved
where they are made stand for the same numbers, and saturate at the same ones. A zero point of 0 would become one of
128, whose correction costs more than that of a sign; but what cannot be negative is the same byte in either type. A
3x3 convolution of 256 channels over 14x14, in microseconds: 207 of unsigned bytes without a zero point, 228 of signed
without, 236 of unsigned with one, 246 of signed with one.

It does not depend on operations. Used by `conversions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import Element

__all__ = ["LIMITS", "Holding", "holding"]

LIMITS = {Element.U8: (0, 255), Element.S8: (-128, 127)}
"""Least and largest integer of a type."""

_HALF = 128


@dataclass(frozen=True, slots=True)
class Holding:
    """The storage of a value's integers.

    Attributes:
        element: Type they are held in.
        shift: What they are larger by than the model's.
        most: The largest that the model's type has, where that is less than the held type's.
    """

    element: Element
    shift: int = 0
    most: int | None = None


def holding(element: Element, zero: int, readers: Sequence[Sequence[NodeSpec]] | None, *, positive: bool) -> Holding:
    """The best storage for integers.

    Args:
        element: Their type in the model.
        zero: Their zero point.
        readers: For each conversion back that reads them, its readers; None where anything else sees them.
        positive: Whether the numbers that become integers are known not to be negative.
    """
    if element != Element.S8 or readers is None:
        return Holding(element)
    if zero:
        return Holding(Element.U8, _HALF)
    # Pieces of one tensor are to be of one type, whatever each could be held in.
    joined = any(node.op_type == "Concat" for nodes in readers for node in nodes)
    return Holding(Element.U8, 0, LIMITS[element][1]) if positive and not joined else Holding(element)
