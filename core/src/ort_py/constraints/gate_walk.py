"""From a region to the program of its gate: a walk through the constraints of its nodes, over symbolic sizes.

What holds for all sizes is settled in the walk, and the rest is left to the program. Arrays that are not what the
model's types promised are walked over by their numbers instead. Comes between `trace` and `gate`; a session that is
restored from the cache does not import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_py.constraints.gate_program import READ_TYPES, Admission, GateProgram, Input, Predicate, RegionFacts
from ort_py.constraints.program import CONTENT_LIMIT
from ort_py.constraints.scope import Dims, Tensor
from ort_py.constraints.sizes import Amount, ProgramRecorder, Size, is_known
from ort_py.constraints.trace import ConstraintFinding, Requirement, Trace, trace
from ort_py.dtypes import Shape, TensorType, numpy_dtype
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Walked:
    """Results of a walk.

    Attributes:
        programs: Checks left to runs, the first for inputs that keep all promises of the model's types; none if
            the rank of an input is not known.
        unchecked: Nodes that cannot be checked before they run, with the reason.
        unsized: Nodes that make values of which no gate can say how large they are, with the reason.
        reads: Numbers of the inputs whose elements decide shapes.
        largest: Bytes of the largest value whose size no input decides, and its name.
    """

    programs: tuple[GateProgram, ...]
    violations: tuple[ConstraintFinding, ...]
    unchecked: tuple[ConstraintFinding, ...]
    unsized: tuple[ConstraintFinding, ...]
    reads: tuple[int, ...]
    largest: tuple[int, str]


def walk(facts: RegionFacts) -> Walked:
    """Walk a region over symbolic sizes."""
    recorder = ProgramRecorder()
    inputs, found, read = _walked(facts, recorder)
    again = _walked(facts, ProgramRecorder(), sized=True)[1] if found.unsized else found
    programs = []
    if inputs is not None:
        programs.append(compiled(recorder, inputs, found, read))
        if _promises_squares(facts):
            recorder = ProgramRecorder()
            inputs, loose, loosely_read = _walked(facts, recorder, named=False)
            if inputs is not None and not loose.violations and len(loose.unchecked) == len(found.unchecked):
                programs.append(compiled(recorder, inputs, loose, loosely_read))
                read |= loosely_read
    return Walked(
        tuple(programs),
        tuple(found.violations),
        tuple(found.unchecked),
        tuple(again.unsized),
        tuple(sorted(read)),
        _largest(found),
    )


def walk_numbers(facts: RegionFacts, arrays: Sequence[Any]) -> Admission | ConstraintFinding:
    """Walk a region over the shapes and elements of some arrays.

    Returns:
        What they lead to, or the first violation.
    """
    tensors = [
        _of_array(place, kind, array) for place, (kind, array) in enumerate(zip(facts.types, arrays, strict=True))
    ]
    found = trace(facts.nodes, tensors, facts.names, facts.outputs, facts.array)
    if found.violations:
        return found.violations[0]
    return Admission(
        tuple(None if dims is None else _whole(dims) for dims in found.outputs),
        tuple((one.border, _number(one.low), _number(one.high), one.node, one.text) for one in found.bounds),
        _largest(found),
        next((name for count, _, name in found.values if isinstance(count, int) and not count), ""),
        "",
        found.work if isinstance(found.work, int | float) else 0,
    )


def _promises_squares(facts: RegionFacts) -> bool:
    """Return whether one name stands for two axes of an input; ``?`` is none.

    Exporters write that for images of any height and width, which are seldom squares.
    """
    shapes = [kind.shape or () for kind in facts.types if isinstance(kind, TensorType)]
    named = [[dim for dim in shape if isinstance(dim, str) and dim != "?"] for shape in shapes]
    return any(len(set(names)) < len(names) for names in named)


def _walked(
    facts: RegionFacts, recorder: ProgramRecorder, *, sized: bool = False, named: bool = True
) -> tuple[list[Input] | None, Trace, set[int]]:
    """The walk over symbolic sizes; no inputs where the rank of one of them is not known.

    Args:
        sized: Whether a symbol stands for each size that depends on the data of a run: then the nodes that make
            such sizes are noted.
    """
    symbols: dict[str, Size] = {}
    tensors: list[Tensor] = []
    inputs: list[Input | None] = []
    read: set[int] = set()
    for place, kind in enumerate(facts.types):
        if not isinstance(kind, TensorType) or kind.shape is None:
            tensor = Tensor(None, kind.data_type if isinstance(kind, TensorType) else None, border=place)
            if isinstance(kind, TensorType):
                tensor.with_rank = _ranked(recorder, inputs, place)
            tensors.append(tensor)
            inputs.append(None)
            continue
        dims = symbolic(kind.shape, recorder, symbols, named=named)
        tensor = Tensor(tuple(dims), kind.data_type, border=place)
        count = _short(dims) if kind.data_type in READ_TYPES else None
        if count is not None:
            first = [recorder.input() for _ in range(count)]
            tensor.elements = _reader(first, place, read)
            inputs.append(Input(encoded(dims), first[0].register if first else None, count))
        else:
            inputs.append(Input(encoded(dims)))
        tensors.append(tensor)
    unknown = partial(recorder.input, natural=True) if sized else None
    found = trace(facts.nodes, tensors, facts.names, facts.outputs, facts.array, unknown)
    known = [one for one in inputs if one is not None]
    return (known if len(known) == len(inputs) else None), found, read


def _largest(found: Trace) -> tuple[int, str]:
    """Bytes of the largest value whose size is known, and its name."""
    return max(
        [(count * numpy_dtype(kind).itemsize, name) for count, kind, name in found.values if isinstance(count, int)],
        default=(0, ""),
    )


def symbolic(
    shape: Shape, recorder: ProgramRecorder, symbols: dict[str, Size], *, named: bool = True
) -> list[int | Size]:
    """The sizes of a declared shape: numbers, and inputs of the program, one for each name.

    Args:
        symbols: The inputs of the names that were met before; names that are new are added.
        named: Whether equal names mean equal sizes.
    """
    dims: list[int | Size] = []
    for dim in shape:
        if isinstance(dim, int):
            dims.append(dim)
            continue
        size = None if dim is None else symbols.get(dim)
        if size is None:
            size = recorder.input(natural=True)
            if dim not in (None, "?") and named:
                symbols[dim] = size
        dims.append(size)
    return dims


def encoded(dims: Sequence[int | Size]) -> tuple[int, ...]:
    """Sizes, and the complements of the numbers of the program's inputs."""
    return tuple(dim if isinstance(dim, int) else ~dim.register for dim in dims)


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


def _ranked(recorder: ProgramRecorder, inputs: list[Input | None], place: int) -> Callable[[int], Dims]:
    """Notes the rank that an operator demands of an input; a run with another rank is walked over its numbers."""

    def with_rank(rank: int) -> Dims:
        dims = tuple(recorder.input(natural=True) for _ in range(rank))
        inputs[place] = Input(encoded(dims))
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
    if data_type in READ_TYPES and len(shape) <= 1 and array.size <= CONTENT_LIMIT:
        tensor.content = tuple(np.asarray(array).reshape(-1).tolist())
    return tensor


def compiled(recorder: ProgramRecorder, inputs: Sequence[Input], found: Trace, read: set[int]) -> GateProgram:
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
    return GateProgram(
        program,
        tuple(inputs),
        tuple(
            Predicate(
                node, registers[condition], text, tuple(None if one is None else registers[one] for one in numbers)
            )
            for node, condition, text, numbers in predicates
        ),
        tuple((place, registers[low], registers[high], node, text) for place, low, high, node, text in bounds),
        tuple(None if dims is None else tuple(registers[one] for one in dims) for dims in outputs),
        tuple((registers[count], itemsize, name) for count, itemsize, name in values),
        tuple((node, registers[condition]) for node, condition in late),
        None if work is None else registers[work],
        tuple(sorted(read)),
    )


def _distinct(found: Trace) -> list[Requirement]:
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
