"""The gate of a compiled region: its constraints, checked before native code sees the inputs of a run.

When a session is created, the constraints of a region's nodes are walked once over symbolic sizes. What holds for all
sizes is settled then. What is left becomes one program of whole numbers, which also computes how large the outputs and
the values inside are, and which is run for each new set of shapes. Indices that arrive at the border are compared with
their bounds in every run. Knows no provider, and nothing of how a region runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_py.constraints.program import ConstraintProgram
from ort_py.constraints.scope import CONTENT_LIMIT, Dims, Tensor
from ort_py.constraints.sizes import Amount, ProgramRecorder, Size, is_known
from ort_py.constraints.trace import ConstraintFinding, Trace, trace
from ort_py.contracts.graph_view import NodeSpec, RegionView
from ort_py.devices import HOST, Device
from ort_py.dtypes import DataType, TensorType, numpy_dtype
from ort_py.errors import KernelInputError, Location
from ort_py.lazy_dataclass import dataclass

__all__ = ["Admission", "Gate"]

_READ = frozenset({DataType.INT64, DataType.INT32, DataType.FLOAT, DataType.BOOL})
"""Types of short tensors whose elements may decide shapes."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The result for a set of shapes that passed the gate.

    Attributes:
        outputs: Shape of each output, None where it depends on the data of the run.
        bounds: (input, least, greatest, node, text) of elements to be compared in each run.
        largest: Bytes of the largest value that the region makes, and its name.
        empty: Name of an input of the region, or of a value that it makes, that has no elements; ``""`` for none.
        late: Operator that repeats an operand along an axis that was not known to have the size 1; ``""`` for none.
        work: Multiplications of a run, 0 where they are not known.
    """

    outputs: tuple[tuple[int, ...] | None, ...]
    bounds: tuple[tuple[int, int, int, int, str], ...]
    largest: tuple[int, str]
    empty: str
    late: str
    work: float


@dataclass(frozen=True, slots=True)
class _Input:
    """An input of the region as the program reads it.

    Attributes:
        dims: For each axis a number, or the number of the program's input.
        first: Number of the program's input that is its first element, None where elements are not read.
        count: How many elements are read.
    """

    dims: tuple[int | Size, ...]
    first: int | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Predicate:
    node: int
    condition: int
    text: str
    numbers: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class _Symbolic:
    """The program of a region and what its registers mean."""

    program: ConstraintProgram
    inputs: tuple[_Input, ...]
    predicates: tuple[_Predicate, ...]
    bounds: tuple[tuple[int, int, int, int, str], ...]
    outputs: tuple[tuple[int, ...] | None, ...]
    values: tuple[tuple[int, int, str], ...]
    late: tuple[tuple[int, int], ...]
    work: int | None


class Gate:
    """The gate of one region. Immutable; called from any thread.

    Args:
        view: The region.

    Attributes:
        violations: Nodes that no input can satisfy: they do not belong into a region.
        unchecked: Nodes that cannot be checked before they run, with the reason.
        unsized: Nodes that make values of which no gate can say how large they are, with the reason.
        reads: Numbers of the inputs whose elements decide shapes.
        output_dtypes: Element type of each output; None where it is not a tensor.
    """

    def __init__(self, view: RegionView) -> None:
        self._nodes: tuple[NodeSpec, ...] = tuple(view.nodes)
        self._names = tuple(value.name for value in view.inputs)
        self._types = tuple(value.type for value in view.inputs)
        self._outputs = tuple(view.outputs)
        self.output_dtypes: tuple[np.dtype[Any] | None, ...] = tuple(
            numpy_dtype(value.type.data_type) if isinstance(value.type, TensorType) else None for value in view.outputs
        )
        self._takes_tensors = all(isinstance(kind, TensorType) for kind in self._types)
        self._constants: dict[str, np.ndarray[Any, Any] | None] = {}
        self._constant: Callable[[str], np.ndarray[Any, Any] | None] | None = view.constant
        recorder = ProgramRecorder()
        inputs, found, read = self._walked(recorder)
        self.violations: tuple[ConstraintFinding, ...] = tuple(found.violations)
        self.unchecked: tuple[ConstraintFinding, ...] = tuple(found.unchecked)
        again = self._walked(ProgramRecorder(), sized=True)[1] if found.unsized else found
        self.unsized: tuple[ConstraintFinding, ...] = tuple(again.unsized)
        self.reads: tuple[int, ...] = tuple(sorted(read))
        self._symbolic = None if inputs is None else _compiled(recorder, inputs, found, read)
        # A walk over the numbers of a run must not need the graph, which the session lets go of.
        self._constant = None

    def answers_on(self, device: Device) -> bool:
        """Whether the gate can answer for regions on a device.

        It answers for inputs that are tensors. On other devices than the host it answers by shapes alone: elements that
        it would have to read are not copied to the host.
        """
        return self._takes_tensors and (device == HOST or not self.reads_elements)

    @property
    def reads_elements(self) -> bool:
        """Whether the gate reads elements of inputs in a run, and not only shapes."""
        return bool(self.reads) or self._symbolic is None or bool(self._symbolic.bounds)

    def admit(self, arrays: Sequence[Any]) -> Admission:
        """Check the shapes of a run, and the elements that decide shapes.

        Args:
            arrays: The region's inputs.

        Raises:
            KernelInputError: A constraint does not hold; the message names the node and the numbers.
        """
        symbolic = self._symbolic
        numbers = None if symbolic is None else _numbers(symbolic, self.reads, arrays)
        if symbolic is None or numbers is None:
            return self._admit_numbers(arrays)
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
            tuple(None if dims is None else tuple(registers[one] for one in dims) for dims in symbolic.outputs),
            tuple(
                (place, registers[low], registers[high], node, text) for place, low, high, node, text in symbolic.bounds
            ),
            (biggest, name),
            empty,
            next((self._nodes[node].op_type for node, condition in symbolic.late if registers[condition]), ""),
            0 if symbolic.work is None else registers[symbolic.work],
        )

    def refusal(self, node: int, text: str) -> KernelInputError:
        """The error for a node whose constraint does not hold."""
        spec = self._nodes[node]
        return KernelInputError(
            f"The inputs of a node do not fit its operator: {text}.",
            where=spec.location,
            why="the node is part of a compiled region, whose constraints were checked before it ran",
            fix="Check the shapes and values of the inputs that were fed, and the attributes of the node.",
        )

    def location(self, node: int) -> Location:
        """Place of a node of the region."""
        return self._nodes[node].location

    def _empty_input(self, arrays: Sequence[Any]) -> str:
        """Name of the first input without elements, ``""`` for none."""
        return next((name for name, array in zip(self._names, arrays, strict=True) if 0 in array.shape), "")

    def _walked(self, recorder: ProgramRecorder, *, sized: bool = False) -> tuple[list[_Input] | None, Trace, set[int]]:
        """The walk over symbolic sizes; no inputs where the rank of one of them is not known.

        Args:
            recorder: Where the program is written.
            sized: Whether a symbol stands for each size that depends on the data of a run: then the nodes that make
                such sizes are noted.
        """
        symbols: dict[str, Size] = {}
        tensors: list[Tensor] = []
        inputs: list[_Input | None] = []
        read: set[int] = set()
        for place, kind in enumerate(self._types):
            if not isinstance(kind, TensorType) or kind.shape is None:
                tensor = Tensor(None, kind.data_type if isinstance(kind, TensorType) else None, border=place)
                if isinstance(kind, TensorType):
                    tensor.with_rank = _ranked(recorder, inputs, place)
                tensors.append(tensor)
                inputs.append(None)
                continue
            dims: list[int | Size] = []
            for dim in kind.shape:
                if isinstance(dim, int):
                    dims.append(dim)
                    continue
                size = None if dim is None else symbols.get(dim)
                if size is None:
                    size = recorder.input(natural=True)
                    if dim is not None:
                        symbols[dim] = size
                dims.append(size)
            tensor = Tensor(tuple(dims), kind.data_type, border=place)
            count = _short(dims) if kind.data_type in _READ else None
            if count is not None:
                first = [recorder.input() for _ in range(count)]
                tensor.elements = _reader(first, place, read)
                inputs.append(_Input(tuple(dims), first[0].register if first else None, count))
            else:
                inputs.append(_Input(tuple(dims)))
            tensors.append(tensor)
        unknown = partial(recorder.input, natural=True) if sized else None
        found = trace(self._nodes, tensors, self._names, self._outputs, self._array, unknown)
        known = [one for one in inputs if one is not None]
        return (known if len(known) == len(inputs) else None), found, read

    def _admit_numbers(self, arrays: Sequence[Any]) -> Admission:
        """The same for arrays that are not what the model's types promised: a walk over their numbers."""
        tensors = [
            _of_array(place, kind, array) for place, (kind, array) in enumerate(zip(self._types, arrays, strict=True))
        ]
        found = trace(self._nodes, tensors, self._names, self._outputs, self._array)
        if found.violations:
            first = found.violations[0]
            raise self.refusal(first.node, first.text)
        sizes = [
            (int(count) * numpy_dtype(kind).itemsize, name)
            for count, kind, name in found.values
            if isinstance(count, int)
        ]
        return Admission(
            tuple(None if dims is None else _whole(dims) for dims in found.outputs),
            tuple((one.border, _number(one.low), _number(one.high), one.node, one.text) for one in found.bounds),
            max(sizes, default=(0, "")),
            self._empty_input(arrays) or next((name for size, name in sizes if not size), ""),
            "",
            found.work if isinstance(found.work, int | float) else 0,
        )

    def _array(self, name: str) -> np.ndarray[Any, Any] | None:
        if self._constant is not None and name not in self._constants:
            array = self._constant(name)
            # What is small is kept for walks over numbers; of long lists of indices their range is enough, of lists of
            # tuples the range of each column.
            if array is not None and array.size > CONTENT_LIMIT and array.dtype.kind in "iu":
                columns = array.reshape(-1, array.shape[-1])
                array = np.stack([columns.min(axis=0), columns.max(axis=0)])
            self._constants[name] = array
        return self._constants.get(name)


def _whole(dims: Dims) -> tuple[int, ...] | None:
    """A shape of numbers, or None if one of them is not known."""
    return tuple(_number(one) for one in dims) if all(isinstance(one, int) for one in dims) else None


def _number(amount: Amount) -> int:
    assert isinstance(amount, int), "a walk over the numbers of a run"
    return amount


def _short(dims: Sequence[int | Size]) -> int | None:
    """Number of elements of a list whose elements may decide shapes."""
    if len(dims) > 1:
        return None
    count = dims[0] if dims else 1
    return count if isinstance(count, int) and count <= CONTENT_LIMIT else None


def _ranked(recorder: ProgramRecorder, inputs: list[_Input | None], place: int) -> Callable[[int], Dims]:
    """Notes the rank that an operator demands of an input; a run with another rank is walked over its numbers."""

    def with_rank(rank: int) -> Dims:
        dims = tuple(recorder.input(natural=True) for _ in range(rank))
        inputs[place] = _Input(dims)
        return dims

    return with_rank


def _reader(first: list[Size], place: int, read: set[int]) -> Callable[[], Dims]:
    def elements() -> Dims:
        read.add(place)
        return tuple(first)

    return elements


def _of_array(place: int, kind: Any, array: Any) -> Tensor:
    data_type = kind.data_type if isinstance(kind, TensorType) else None
    shape = tuple(int(size) for size in array.shape)
    tensor = Tensor(shape, data_type, border=place)
    if data_type in _READ and len(shape) <= 1 and array.size <= CONTENT_LIMIT:
        tensor.content = tuple(np.asarray(array).reshape(-1).tolist())
    return tensor


def _compiled(recorder: ProgramRecorder, inputs: list[_Input], found: Trace, read: set[int]) -> _Symbolic:
    """The program of what a walk left to the run."""
    results: list[Amount] = []

    def wanted(amount: Amount) -> int:
        results.append(amount)
        return len(results) - 1

    def shown(amount: Amount) -> int | None:
        return wanted(amount) if is_known(amount) else None

    predicates = [
        (one.node, wanted(one.condition), one.text, tuple(shown(number) for number in one.numbers))
        for one in _distinct(found)
    ]
    bounds = [(one.border, wanted(one.low), wanted(one.high), one.node, one.text) for one in found.bounds]
    outputs = [
        None if dims is None or not all(is_known(dim) for dim in dims) else tuple(wanted(dim) for dim in dims)
        for dims in found.outputs
    ]
    seen: set[tuple[object, int]] = set()
    values: list[tuple[int, int, str]] = []
    for count, kind, name in found.values:
        itemsize = numpy_dtype(kind).itemsize
        key = (count.register if isinstance(count, Size) else (count,), itemsize)
        if is_known(count) and key not in seen:
            seen.add(key)
            values.append((wanted(count), itemsize, name))
    late = [(node, wanted(one)) for node, one in found.late if isinstance(one, Size)]
    work = wanted(found.work) if is_known(found.work) else None
    program, registers = recorder.program(results)
    return _Symbolic(
        program,
        tuple(one if place in read else _Input(one.dims, one.first, one.count) for place, one in enumerate(inputs)),
        tuple(
            _Predicate(
                node, registers[condition], text, tuple(None if one is None else registers[one] for one in numbers)
            )
            for node, condition, text, numbers in predicates
        ),
        tuple((place, registers[low], registers[high], node, text) for place, low, high, node, text in bounds),
        tuple(None if dims is None else tuple(registers[one] for one in dims) for dims in outputs),
        tuple((registers[count], itemsize, name) for count, itemsize, name in values),
        tuple((node, registers[condition]) for node, condition in late),
        None if work is None else registers[work],
    )


def _distinct(found: Trace) -> list[Any]:
    """Requirements, each condition once: the first node that states it is named."""
    seen: set[int] = set()
    distinct = []
    for one in found.requirements:
        if isinstance(one.condition, Size):
            if one.condition.register in seen:
                continue
            seen.add(one.condition.register)
        distinct.append(one)
    return distinct


def _numbers(symbolic: _Symbolic, reads: Sequence[int], arrays: Sequence[Any]) -> list[Any] | None:
    """The program's inputs of a run, or None if the arrays do not have the promised types."""
    numbers: list[Any] = [None] * symbolic.program.inputs
    for known, array in zip(symbolic.inputs, arrays, strict=True):
        shape = array.shape
        if len(shape) != len(known.dims):
            return None
        for size, dim in zip(shape, known.dims, strict=True):
            if isinstance(dim, int):
                if size != dim:
                    return None
            elif numbers[dim.register] is None:
                numbers[dim.register] = size
            elif numbers[dim.register] != size:
                return None
    for place in reads:
        known = symbolic.inputs[place]
        if known.first is None:
            continue  # a list without elements
        for offset, value in enumerate(np.asarray(arrays[place]).reshape(-1).tolist()):
            numbers[known.first + offset] = value
    return numbers
