"""What grows from run to run: the past of a decoder, by one row with each word.

A plan for every number of rows would serve one run. Instead, plans are made for as many rows as there may be, in a few
steps, and each run says how many there are (`binding.past_attention`). Here the shapes of a run are brought to those of
a plan, and back. It does not depend on plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.graph.operation import Combine, Operation

__all__ = ["Growth", "Shapes", "growth_of"]

Shapes = tuple[tuple[int, ...], ...]

_FIRST, _TIMES = 256, 4
"""Rows of the first plan, and how many times as many the next one has."""

_GROWING = {"Attention": (3, (4, 5)), "MultiHeadAttention": (5, (6, 7))}
"""Inputs that grow, by operation: the bias, of which the last axis does, and the past."""

_ROWS = 2
"""Axis of a past and of a present that counts rows."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Inputs and outputs of a region that grow.

    Attributes:
        pasts, biases: Numbers of inputs.
        presents: Numbers of outputs.
    """

    pasts: tuple[int, ...]
    biases: tuple[int, ...]
    presents: tuple[int, ...]

    def held(self, shapes: Shapes) -> tuple[Shapes, int, int] | None:
        """The shapes of the plan for a run, its past rows, and how many the plan has more; None where pasts differ."""
        first = shapes[self.pasts[0]]
        if len(first) != 4:
            return None
        rows = first[_ROWS]
        most = _FIRST
        while most < rows:
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
        """The inputs of a run, with arrays of the plan's shapes in the place of those that grow: only these count."""
        found = list(inputs)
        for one in (*self.pasts, *self.biases):
            found[one] = np.broadcast_to(np.zeros((), inputs[one].dtype), shapes[one])
        return found

    def made(self, shape: tuple[int, ...], more: int) -> tuple[int, ...]:
        """The shape of a present in a run, of that in the plan."""
        return (*shape[:_ROWS], shape[_ROWS] - more, shape[_ROWS + 1])


def growth_of(operations: Iterable[Operation], inputs: Sequence[str], outputs: Sequence[str]) -> Growth | None:
    """Find the past that grows in a region; None where none does, or something else reads it too."""
    grown: Mapping[str, list[str]] = {"past": [], "bias": [], "present": []}
    others: set[str] = set(outputs)
    for operation in operations:
        reads = [*operation.inputs, *(None,) * 8]
        bias, past = _GROWING.get(operation.kind, (0, ()))
        if past and all(reads[place] for place in past):
            grown["past"] += [str(reads[place]) for place in past]
            grown["present"] += operation.outputs[1:3]
            if reads[bias]:
                grown["bias"].append(str(reads[bias]))
            del reads[bias:]
        others |= {name for name in reads if name}
        others |= {post.value for post in operation.posts if isinstance(post, Combine)}
    places = {name: number for number, name in enumerate(inputs)}
    read = {*grown["past"], *grown["bias"]}
    if not grown["past"] or read & others or not read <= set(places):
        return None
    pasts, biases = (tuple(sorted({places[name] for name in grown[kind]})) for kind in ("past", "bias"))
    return Growth(pasts, biases, tuple(number for number, name in enumerate(outputs) if name in grown["present"]))
