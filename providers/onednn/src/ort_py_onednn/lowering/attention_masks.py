"""Masks of attention that is computed in blocks: what hides scores, and where the part of each head lies.

It does not depend on how blocks are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.execution.plan import Place
from ort_py_onednn.lowering.parts import copy_into
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["HeadMask", "HeldMask", "Masks", "held"]


@dataclass(frozen=True, slots=True)
class Masks:
    """Masks that hide scores, as `attention` has it: each broadcasts to ``(batch, heads, rows, columns)``.

    Attributes:
        added: Added to scores.
        seen: 1 where a row sees a column, 0 where it does not; None where nothing is hidden so.
        may_hide: Whether a whole row may be hidden, which then gives zeroes.
    """

    added: Sequence[Value] = ()
    seen: Value | None = None
    may_hide: bool = False

    @property
    def all(self) -> list[Value]:
        """Those that are added, and then the one that is multiplied."""
        return [*self.added, *([] if self.seen is None else [self.seen])]


@dataclass(frozen=True, slots=True)
class HeadMask:
    """A mask of one head: where it begins in a matrix of the arena, and whether each row has numbers of its own."""

    value: Value
    start: int
    by_row: bool


@dataclass(frozen=True, slots=True)
class HeldMask:
    """A mask as a matrix of the arena, which has a row for each row of each of its heads of each of its sequences."""

    value: Value
    dims: tuple[int, ...]

    def of_head(self, sequence: int, head: int) -> HeadMask:
        """The part for a head."""
        sequences, heads, rows, _ = self.dims
        place = (sequence if sequences > 1 else 0) * heads + (head if heads > 1 else 0)
        return HeadMask(self.value, place * rows, rows > 1)


def held(planner: Planner, mask: Value) -> HeldMask:
    """A mask where pieces of it can be cut."""
    shape = math.prod(mask.dims[:3]), mask.dims[3]
    plain = planner.reshaped(planner.plain(mask), shape)
    buffer = plain.buffer
    if buffer is None or buffer.place is not Place.ARENA or buffer.whole is not None:
        found = planner.new(Desc.plain(shape))
        copy_into(planner, plain, found)
        plain = found
    return HeldMask(plain, mask.dims)
