"""The data of a plan that a profile needs: the slots that its steps read and write, and the text made from them later.

Made once a plan; `recorder` notes times and kinds of values against it. It does not depend on clocks or runs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ort_py.dtypes import data_type_of
from ort_py.planning.plan import NONE_SLOT

if TYPE_CHECKING:
    from ort_py.planning.plan import ExecutionPlan

Kind: TypeAlias = tuple[Any, tuple[int, ...]] | None
"""dtype and shape of an array; None for whatever is not an array."""

Entry: TypeAlias = tuple[int, Kind, bool]
"""Slot and kind of a value that a run was given, and whether it is the model's own constant."""


def kind_of(value: Any) -> Kind:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return None if dtype is None or shape is None else (dtype, tuple(shape))


def kinds_of(slots: Sequence[Any], numbers: Iterable[int]) -> list[Kind]:
    """Kinds of what is in some slots."""
    return [kind_of(slots[number]) for number in numbers]


class UsualKinds:
    """Kinds of values that the steps of a plan wrote in some run. Later runs record only differences. Immutable.

    Attributes:
        shapes: The shape of each step's one output, None where it has another number or no array.
    """

    __slots__ = ("kinds", "shapes")

    def __init__(self, kinds: list[list[Kind]]) -> None:
        self.kinds = kinds
        self.shapes = [one[0][1] if len(one) == 1 and one[0] is not None else None for one in kinds]

    def changed(self, kinds: Mapping[int, list[Kind]]) -> UsualKinds:
        """These kinds, with others for some steps."""
        return UsualKinds([kinds.get(index, one) for index, one in enumerate(self.kinds)])


class TracedPlan:
    """A plan as a profile needs it.

    An output's element type is the model's, so an output of the usual shape is of the usual kind.

    Attributes:
        outputs: For each step its output's slot, or the empty slot where it has none or several.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan  # the recorder knows it by its identity, which is its own as long as it is there
        self._template = plan.template
        self.steps = plan.steps
        self.outputs = [step.outputs[0] if len(step.outputs) == 1 else NONE_SLOT for step in plan.steps]
        self.usual = UsualKinds([[None] * len(step.outputs) for step in plan.steps])
        self._described: tuple[Any, list[tuple[str, dict[str, Any]]]] | None = None
        written: set[int] = set()
        read: dict[int, None] = {}
        for step in plan.steps:
            read.update((slot, None) for slot in step.inputs if slot not in written)
            written.update(step.outputs)
        fed = {value.slot for value in plan.inputs}
        # Read before any step writes them; constants that cannot be fed are the same in every run.
        self._entries = [slot for slot in read if self._template[slot] is None or slot in fed]

    def entries_in(self, slots: Sequence[Any]) -> tuple[Entry, ...]:
        """Entries for the inputs of a run, read before its first step."""
        return tuple([(slot, kind_of(slots[slot]), slots[slot] is self._template[slot]) for slot in self._entries])

    def described(
        self, entries: tuple[Entry, ...], usual: UsualKinds, others: Mapping[int, list[Kind]]
    ) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Name and facts of each step; the very same objects for runs that were alike."""
        key = None if others else (entries, usual)
        if key is None or self._described is None or self._described[0] != key:
            self._described = (key, list(self._describe(entries, usual, others)))
        return self._described[1]

    def _describe(
        self, entries: Iterable[Entry], usual: UsualKinds, others: Mapping[int, list[Kind]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        given = {slot: (kind, constant) for slot, kind, constant in entries}
        for index, step in enumerate(self.steps):
            written = others.get(index, usual.kinds[index])
            read = [given.get(slot) or (kind_of(self._template[slot]), True) for slot in step.inputs]
            yield (
                f"{step.location.node or step.title}_kernel_time",
                {
                    "op_name": step.location.op_type or step.title,
                    "provider": step.provider,
                    "node_index": str(index),
                    "input_type_shape": _shapes(kind for kind, _ in read),
                    "activation_size": str(_bytes(kind for kind, constant in read if not constant)),
                    "parameter_size": str(_bytes(kind for kind, constant in read if constant)),
                    "output_type_shape": _shapes(written),
                    "output_size": str(_bytes(written)),
                },
            )
            given.update((slot, (kind, False)) for slot, kind in zip(step.outputs, written, strict=True))


def _shapes(kinds: Iterable[Kind]) -> list[dict[str, list[int]]]:
    """Element type and shape of each array; other values have neither."""
    return [{_type_name(kind[0]): list(kind[1])} for kind in kinds if kind is not None]


def _bytes(kinds: Iterable[Kind]) -> int:
    return sum(math.prod(kind[1]) * int(kind[0].itemsize) for kind in kinds if kind is not None)


@functools.cache
def _type_name(dtype: Any) -> str:
    return data_type_of(dtype).onnx_name
