"""What grows from run to run: the past of a decoder, by one row with each word.

A plan for every number of rows would serve one run. Instead, plans are made for as many rows as there may be, in a few
steps, and each run says how many there are (`binding.past_attention`). Here the shapes of a run are brought to those of
a plan, and back. It does not depend on plans.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.graph.operation import Combine, Operation

__all__ = ["Grows", "Growth", "Shapes", "growth_of"]

Shapes = tuple[tuple[int, ...], ...]

Grows = tuple[int, int, int]
"""Entries of the batch with numbers of keys of their own, 0 where the past says all; new rows; and positions that there
are angles for, 0 where nothing is turned."""

_FIRST, _TIMES = 256, 4
"""Rows of the first plan, and how many times as many the next one has."""

_GROWING = {"Attention": (3, (4, 5)), "GroupQueryAttention": (None, (3, 4)), "MultiHeadAttention": (5, (6, 7))}
"""Inputs that grow, by operation: the bias, of which the last axis does, and the past."""

_COUNTED = {"GroupQueryAttention": (5, 6)}
"""Inputs that say how many keys there are, by operation: the last of each entry, and their number in the longest."""

_ROWS = 2
"""Axis of a past and of a present that counts rows."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Inputs and outputs of a region that grow.

    Attributes:
        pasts, biases: Numbers of inputs.
        presents: Numbers of outputs that hold a past and new rows.
        counts: Numbers of the inputs that say how many keys there are; none where that follows from the past.
        buffers: Numbers of outputs that are as long as the past, or as the longest entry is.
        inplace: Numbers of a past and of the buffer behind it, which may be one array.
    """

    pasts: tuple[int, ...]
    biases: tuple[int, ...]
    presents: tuple[int, ...]
    counts: tuple[int, ...] = ()
    buffers: tuple[int, ...] = ()
    inplace: tuple[tuple[int, int], ...] = ()

    def held(
        self, shapes: Shapes, counts: Sequence[Sequence[int]] = (), *, exact: bool = False
    ) -> tuple[Shapes, int, int] | None:
        """The shapes of the plan for a run, its past rows, and how many the plan has more; None where there is none.

        Pasts are not alike then, or there are more new rows than elements of any input.

        Args:
            shapes: Those of the run.
            counts: Elements of the inputs `counts`.
            exact: Whether the plan is for as many rows as there are.
        """
        first = shapes[self.pasts[0]]
        if len(first) != 4:
            return None
        rows = first[_ROWS]
        needed = max([rows, *counts[1]]) if counts else rows
        if needed > rows + max(map(math.prod, shapes)):
            return None
        most = needed if exact else _FIRST
        while most < needed:
            most *= _TIMES
        whole = (*first[:_ROWS], most, first[3])
        more = most - rows
        found = list(shapes)
        for one in self.pasts:
            shape = shapes[one]
            if shape == first:
                found[one] = whole
            elif len(shape) == 4 and shape[_ROWS] == rows:
                found[one] = (*shape[:_ROWS], most, shape[3])
            else:
                return None
        for one in self.biases:
            shape = shapes[one]
            if not shape or shape[-1] <= rows:
                return None
            found[one] = (*shape[:-1], shape[-1] + more)
        return tuple(found), rows, more

    def stand_ins(self, inputs: Sequence[Any], shapes: Shapes) -> list[Any]:
        """The inputs of a run, with arrays of the plan's shapes in the place of those that grow: only these count.

        Numbers of keys stay: they go with a longer past too.
        """
        found = list(inputs)
        for one in (*self.pasts, *self.biases):
            found[one] = np.broadcast_to(np.zeros((), inputs[one].dtype), shapes[one])
        return found

    def said(self, rows: int, counts: Sequence[Sequence[int]], kind: Grows) -> list[int] | None:
        """The numbers that code gets about a past (`binding.past_table.Grown`); None where a run's contradict it.

        Args:
            rows: Rows of the past.
            counts: Elements of the inputs `counts`.
            kind: What the code is about.
        """
        entries, new, positions = kind
        if not entries:
            return [rows, rows + new, rows, rows + new]
        lasts, longest = counts
        if len(lasts) != entries or len(longest) != 1:
            return None
        total = longest[0]
        least = 0 if total == new else new - 1
        if not new <= total or not least <= min(lasts) <= max(lasts) < total:
            return None
        starts = [0 if total == new else last + 1 - new for last in lasts]
        if max(starts) > rows or total - new > rows or (positions and max(starts) + new > positions):
            return None
        found = [rows, max(rows, total)]
        for start, last in zip(starts, lasts, strict=True):
            found += start, last + 1
        return found

    def made(self, shape: tuple[int, ...], more: int) -> tuple[int, ...]:
        """The shape of a present in a run, of that in the plan."""
        return (*shape[:_ROWS], shape[_ROWS] - more, shape[_ROWS + 1])

    def buffer(self, shape: tuple[int, ...], rows: int, counts: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The shape of a present in a run that is as long as the past, or as the longest entry is."""
        return (*shape[:_ROWS], max(rows, *counts[1]), shape[_ROWS + 1])


def growth_of(operations: Iterable[Operation], inputs: Sequence[str], outputs: Sequence[str]) -> Growth | None:
    """Find the past that grows in a region; None where none does, or something else reads it too."""
    grown: Mapping[str, list[str]] = {"past": [], "bias": [], "present": [], "buffer": []}
    counted: dict[tuple[str, ...], None] = {}
    pairs: dict[str, str] = {}
    others: set[str] = set(outputs)
    for operation in operations:
        reads = [*operation.inputs, *(None,) * 8]
        bias, past = _GROWING.get(operation.kind, (None, ()))
        if past and all(reads[place] for place in past):
            grown["past"] += [str(reads[place]) for place in past]
            counts = _COUNTED.get(operation.kind, ())
            grown["buffer" if counts else "present"] += operation.outputs[1:3]
            if counts:
                counted[tuple(str(reads[place]) for place in counts)] = None
                pairs |= zip(operation.outputs[1:3], (str(reads[place]) for place in past), strict=False)
            if bias is not None and reads[bias]:
                grown["bias"].append(str(reads[bias]))
            reads = [name for place, name in enumerate(reads) if place not in {bias, *past, *counts}]
        others |= {name for name in reads if name}
        others |= {post.value for post in operation.posts if isinstance(post, Combine)}
    places = {name: number for number, name in enumerate(inputs)}
    lengths = next(iter(counted), ())
    read = {*grown["past"], *grown["bias"], *lengths}
    if not grown["past"] or read & others or not read <= set(places) or len(counted) > 1:
        return None
    pasts, biases = (tuple(sorted({places[name] for name in grown[kind]})) for kind in ("past", "bias"))
    presents, buffers = (
        tuple(number for number, name in enumerate(outputs) if name in grown[kind]) for kind in ("present", "buffer")
    )
    inplace = tuple((places[pairs[name]], number) for number, name in enumerate(outputs) if name in pairs)
    return Growth(pasts, biases, presents, tuple(places[name] for name in lengths), buffers, inplace)
