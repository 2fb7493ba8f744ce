"""The gate of a compiled region: its constraints, checked before native code sees the inputs of a run.

When a session is created, the constraints of a region's nodes are walked once over symbolic sizes. What holds for all
sizes is settled then. What is left becomes one program of whole numbers, which also computes how large the outputs and
the values inside are, and which is run for each new set of shapes. Indices that arrive at the border are compared with
their bounds in every run. It does not depend on providers or on how a region runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.constraints.gate_program import Admission, GateProgram, RegionFacts
from ort_py.contracts.graph_view import RegionView
from ort_py.devices import HOST, Device
from ort_py.dtypes import TensorType, numpy_dtype
from ort_py.errors import KernelInputError, Location

if TYPE_CHECKING:
    from ort_py.constraints.trace import ConstraintFinding

__all__ = ["Admission", "Gate"]

_ALIKE = 4
"""New sets of shapes in a row whose common numbers are taken to stay."""

_LONG = 40
"""Instructions from which on a program is worth being narrowed, which takes as long as ten runs of it."""


class Gate:
    """The gate of one region. Called from any thread: what it learns of its runs is replaced as a whole.

    Args:
        record: Result of `record` of a gate of the same region, which saves the walk.

    Attributes:
        violations: Nodes that no input can satisfy: they do not belong into a region.
        unchecked: Nodes that cannot be checked before they run, with the reason.
        unsized: Nodes that make values of which no gate can say how large they are, with the reason.
        reads: Numbers of the inputs whose elements decide shapes.
        output_dtypes: Element type of each output; None where it is not a tensor.
        largest: Bytes of the largest value whose size no input decides, and its name.
        facts: The region, as far as the gate keeps it.
    """

    def __init__(self, view: RegionView, record: Mapping[str, Any] | None = None) -> None:
        self.facts = facts = RegionFacts(view)
        self.output_dtypes: tuple[np.dtype[Any] | None, ...] = tuple(
            numpy_dtype(value.type.data_type) if isinstance(value.type, TensorType) else None for value in view.outputs
        )
        self._takes_tensors = all(isinstance(kind, TensorType) for kind in facts.types)
        self.violations: tuple[ConstraintFinding, ...] = ()
        self.unchecked: tuple[ConstraintFinding, ...] = ()
        self.unsized: tuple[ConstraintFinding, ...] = ()
        self.reads: tuple[int, ...]
        self.largest: tuple[int, str]
        if record is None:
            from ort_py.constraints.gate_walk import walk  # a session from the cache does not need the table

            walked = walk(facts)
            self._programs = walked.programs
            self.violations, self.unchecked, self.unsized = walked.violations, walked.unchecked, walked.unsized
            self.reads, self.largest = walked.reads, walked.largest
        else:
            self._programs = tuple(GateProgram.of_record(one) for one in record["programs"])
            self.reads, self.largest = tuple(record["reads"]), tuple(record["largest"])
        self._recent: tuple[list[Any], ...] = ()
        self._narrowed: tuple[dict[int, int], GateProgram] | None = None
        # A walk over the numbers of a run must not need the graph, which the session lets go of.
        facts.let_go_of_graph(() if record is None else record["constants"])

    def record(self) -> dict[str, Any]:
        """The gate as JSON holds it, without what was found about nodes that do not belong into the region."""
        return {
            "programs": [one.record() for one in self._programs],
            "reads": self.reads,
            "largest": self.largest,
            "constants": self.facts.constants,
        }

    def answers_on(self, device: Device) -> bool:
        """Return whether the gate can answer for regions on a device.

        It answers for inputs that are tensors. On other devices than the host it answers by shapes alone: elements that
        it would have to read are not copied to the host.
        """
        return self._takes_tensors and (device == HOST or not self.reads_elements)

    @property
    def reads_elements(self) -> bool:
        """True if the gate reads elements of inputs in a run, and not only shapes."""
        return self.reads_beyond(frozenset())

    def reads_beyond(self, compared: frozenset[int]) -> bool:
        """Return whether equal shapes and equal elements of some inputs are not enough to know that a run is right."""
        bounded = (place for one in self._programs for place, *_ in one.bounds)
        return not (compared.issuperset((*self.reads, *bounded)) and self._programs)

    def admit(self, arrays: Sequence[Any]) -> Admission:
        """Check the shapes of a run, and the elements that decide shapes.

        Raises:
            KernelInputError: A constraint does not hold; the message names the node and the numbers.
        """
        for symbolic in self._programs:
            numbers = symbolic.numbers(arrays)
            if numbers is not None:
                return self._run(self._narrow(symbolic, numbers), numbers, arrays)
        return self._admit_numbers(arrays)

    def _narrow(self, symbolic: GateProgram, numbers: list[Any]) -> GateProgram:
        """The program for these numbers: a shorter one where most of them were the same in the last few runs."""
        if len(symbolic.program.code) < _LONG or symbolic is not self._programs[0]:
            return symbolic
        if self._narrowed is not None:
            known, program = self._narrowed
            if all(numbers[place] == number for place, number in known.items()):
                return program
        recent = (*self._recent, numbers)
        self._recent = recent if len(recent) < _ALIKE else ()
        if len(recent) < _ALIKE:
            return symbolic
        known = {place: number for place, number in enumerate(numbers) if all(one[place] == number for one in recent)}
        if 2 * len(known) >= len(numbers):
            from ort_py.constraints.narrowing import narrowed  # few sessions see so many shapes

            self._narrowed = known, narrowed(symbolic, known)
        return symbolic

    def _run(self, symbolic: GateProgram, numbers: list[Any], arrays: Sequence[Any]) -> Admission:
        registers = symbolic.program.run(numbers)
        for predicate in symbolic.predicates:
            if not registers[predicate.condition]:
                shown = ["?" if one is None else registers[one] for one in predicate.numbers]
                raise self.refusal(predicate.node, predicate.text.format(*shown))
        biggest, name = 0, ""
        empty = self._empty_input(arrays)
        for count, itemsize, value in symbolic.values:
            size = registers[count] * itemsize
            if size > biggest:
                biggest, name = size, value
            elif not size and not empty:
                empty = value
        return Admission(
            tuple([None if dims is None else tuple([registers[one] for one in dims]) for dims in symbolic.outputs]),
            tuple(
                [
                    (place, registers[low], registers[high], node, text)
                    for place, low, high, node, text in symbolic.bounds
                ]
            ),
            (biggest, name),
            empty,
            next((self.facts.nodes[node].op_type for node, condition in symbolic.late if registers[condition]), ""),
            0 if symbolic.work is None else registers[symbolic.work],
        )

    def refusal(self, node: int, text: str) -> KernelInputError:
        spec = self.facts.nodes[node]
        return KernelInputError(
            f"The inputs of a node violate a constraint of its operator: {text}.",
            where=spec.location,
            why="the node is part of a compiled region, whose constraints were checked before it ran",
            fix="Check the shapes and values of the inputs that were fed, and the attributes of the node.",
        )

    def location(self, node: int) -> Location:
        """Place of a node of the region."""
        return self.facts.nodes[node].location

    def _empty_input(self, arrays: Sequence[Any]) -> str:
        """Name of the first input without elements, ``""`` for none."""
        for name, array in zip(self.facts.names, arrays, strict=True):
            if 0 in array.shape:
                return name
        return ""

    def _admit_numbers(self, arrays: Sequence[Any]) -> Admission:
        """The same for arrays that are not what the model's types promised: a walk over their numbers."""
        from ort_py.constraints.gate_walk import walk_numbers  # a session from the cache seldom needs the table

        found = walk_numbers(self.facts, arrays)
        if not isinstance(found, Admission):
            raise self.refusal(found.node, found.text)
        return replace(found, empty=self._empty_input(arrays) or found.empty)
