"""The constraints of a region that depend on the run, as data: a program of whole numbers, and the meaning of its
registers.

`gate_walk` makes it, `gate` runs it, and the cache of sessions keeps it as a record, so that a session that is restored
does not walk the constraints again. It is independent of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ort_py.constraints.program import CONTENT_LIMIT, Code, ConstraintProgram, Instruction
from ort_py.contracts.graph_view import NodeSpec, RegionView, ValueSpec
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass

READ_TYPES = frozenset({DataType.INT64, DataType.INT32, DataType.FLOAT, DataType.BOOL})
"""Types of short tensors whose elements may decide shapes."""


@dataclass(slots=True)
class Admission:
    """The result for a set of shapes that passed the gate.

    Attributes:
        bounds: (input, least, greatest, node, text) of elements to be compared in each run.
        largest: Bytes of the largest value that the region makes, and its name.
        empty: Name of an input of the region, or of a value that it makes, that has no elements; ``""`` for none.
        late: Operator with a size in this run as of `NodeScope.note_late`; ``""`` for none.
        work: Multiplications of a run, 0 where they are not known.
        fits: Whether the region was seen to make such outputs.
    """

    outputs: tuple[tuple[int, ...] | None, ...]
    bounds: tuple[tuple[int, int, int, int, str], ...]
    largest: tuple[int, str]
    empty: str
    late: str
    work: float
    fits: bool = field(default=False, compare=False)


class RegionFacts:
    """The parts of a region that its gate keeps, when the session has let go of the graph."""

    def __init__(self, view: RegionView) -> None:
        self.nodes: tuple[NodeSpec, ...] = tuple(view.nodes)
        self.names = tuple(value.name for value in view.inputs)
        self.types = tuple(value.type for value in view.inputs)
        self.outputs: tuple[ValueSpec, ...] = tuple(view.outputs)
        self._constants: dict[str, np.ndarray[Any, Any] | None] = {}
        self._constant: Callable[[str], np.ndarray[Any, Any] | None] | None = view.constant

    @property
    def constants(self) -> list[str]:
        """Names of the values that were asked for as constants, whether they are or not."""
        return list(self._constants)

    def array(self, name: str) -> np.ndarray[Any, Any] | None:
        """A constant of the region, or None if the value is not a constant."""
        if self._constant is not None and name not in self._constants:
            array = self._constant(name)
            # What is small is kept for walks over numbers; of long lists of indices their range is enough, of lists of
            # tuples the range of each column.
            if array is not None and array.size > CONTENT_LIMIT and array.dtype.kind in "iu":
                columns = array.reshape(-1, array.shape[-1])
                array = np.stack([columns.min(axis=0), columns.max(axis=0)])
            self._constants[name] = array
        return self._constants.get(name)

    def let_go_of_graph(self, names: Sequence[str] = ()) -> None:
        """Look up the constants of some names, and no others from now on."""
        for name in names:
            self.array(name)
        self._constant = None


@dataclass(frozen=True, slots=True)
class Input:
    """An input of the region as the program reads it.

    Attributes:
        dims: For each axis its size, or the complement (``~``) of the number of the program's input.
        first: Number of the program's input that is its first element, None where elements are not read.
    """

    dims: tuple[int, ...]
    first: int | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition that each run has to meet.

    Attributes:
        condition: Register that is not 0 where it holds.
        text: Message for a run where it does not: a format string.
        numbers: Registers that the format string shows.
    """

    node: int
    condition: int
    text: str
    numbers: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class GateProgram:
    """The program of a region and what its registers mean.

    Attributes:
        bounds: (input, register of the least, of the greatest element, node, text) of index inputs.
        outputs: Registers of the sizes of each output, None where they depend on the data of the run.
        values: (register of the number of elements, bytes of one, name) of values inside.
        late: (node, register) of conditions as of `NodeScope.note_late`.
        work: Register of the number of multiplications, None where it is not known.
        reads: Numbers of the inputs whose elements decide shapes.
    """

    program: ConstraintProgram
    inputs: tuple[Input, ...]
    predicates: tuple[Predicate, ...]
    bounds: tuple[tuple[int, int, int, int, str], ...]
    outputs: tuple[tuple[int, ...] | None, ...]
    values: tuple[tuple[int, int, str], ...]
    late: tuple[tuple[int, int], ...]
    work: int | None
    reads: tuple[int, ...] = field(default=())
    _ranks: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _places: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _promised: tuple[tuple[int, int], ...] = field(init=False, repr=False, compare=False)
    _repeated: tuple[tuple[int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Where the sizes of all inputs, one after the other, have each of the program's inputs, and what else is known.
        places, repeated, promised = [-1] * self.program.inputs, [], []
        dims = [dim for one in self.inputs for dim in one.dims]
        for place, dim in enumerate(dims):
            if dim >= 0:
                promised.append((place, dim))
            elif places[~dim] < 0:
                places[~dim] = place
            else:
                repeated.append((place, places[~dim]))
        object.__setattr__(self, "_ranks", tuple([len(one.dims) for one in self.inputs]))
        object.__setattr__(self, "_places", tuple(places))
        object.__setattr__(self, "_promised", tuple(promised))
        object.__setattr__(self, "_repeated", tuple(repeated))

    def numbers(self, arrays: Sequence[Any]) -> list[Any] | None:
        """The program's inputs of a run, or None if the arrays do not have the promised types."""
        shapes = [array.shape for array in arrays]
        if tuple([len(shape) for shape in shapes]) != self._ranks:
            return None
        sizes = [size for shape in shapes for size in shape]
        for place, size in self._promised:
            if sizes[place] != size:
                return None
        for place, first in self._repeated:
            if sizes[place] != sizes[first]:
                return None
        numbers = [sizes[place] if place >= 0 else None for place in self._places]
        for place in self.reads:
            known = self.inputs[place]
            if known.first is not None:  # else a list without elements
                numbers[known.first : known.first + known.count] = np.asarray(arrays[place]).reshape(-1).tolist()
        return numbers

    def record(self) -> dict[str, Any]:
        """The program as JSON holds it."""
        program = self.program
        return {
            "program": [program.inputs, program.constants, [[int(one.code), *one.operands] for one in program.code]],
            "inputs": [[one.dims, one.first, one.count] for one in self.inputs],
            "predicates": [[one.node, one.condition, one.text, one.numbers] for one in self.predicates],
            "bounds": self.bounds,
            "outputs": self.outputs,
            "values": self.values,
            "late": self.late,
            "work": self.work,
            "reads": self.reads,
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> GateProgram:
        """The program of what `record` gave."""
        inputs, constants, code = record["program"]
        return cls(
            ConstraintProgram(
                int(inputs), tuple(constants), tuple(Instruction(Code(one[0]), tuple(one[1:])) for one in code)
            ),
            tuple(Input(tuple(dims), first, count) for dims, first, count in record["inputs"]),
            tuple(
                Predicate(node, condition, text, tuple(shown)) for node, condition, text, shown in record["predicates"]
            ),
            tuple((place, low, high, node, text) for place, low, high, node, text in record["bounds"]),
            tuple(None if dims is None else tuple(dims) for dims in record["outputs"]),
            tuple((count, size, name) for count, size, name in record["values"]),
            tuple((node, condition) for node, condition in record["late"]),
            record["work"],
            tuple(record["reads"]),
        )
