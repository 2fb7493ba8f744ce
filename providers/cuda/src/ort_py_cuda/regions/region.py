"""Running a region: shapes to kernels, sizes and strides; one launch for each shape that results have.

What follows from shapes is worked out once for each signature and kept, up to a bound. Kernels are shared by all
regions with equal programs. Comes after `generate`, `layout` and `reading`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from ort_py.contracts.compiled import CompiledRegion, FrameResources, FunctionRegion, RegionInstance
from ort_py.contracts.graph_view import Array, RegionView
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_array.broadcasting import broadcast_dims
from ort_py_cuda.code.elements import THREADS, blocks_for, rows_of
from ort_py_cuda.code.faults import Site, record_of
from ort_py_cuda.code.kernel import Kernel
from ort_py_cuda.kernels.covering import current_stream
from ort_py_cuda.regions.generate import NAME, OPTIONS, ByRows, Flat, by_rows, flat, kept_terms
from ort_py_cuda.regions.layout import broadcast_strides, collapsed, contiguous_strides
from ort_py_cuda.regions.program import Input, Program, Reduce, Scalar
from ort_py_cuda.regions.reading import Number, Reading, read

__all__ = ["CodeRegion", "RegionContext", "compile_region", "elementwise"]

_SIGNATURES = 64
"""Shapes whose launches a region remembers."""

_SHORT = 2**31 - 4096
_REGISTERS = 64
"""Values of kept terms a thread may hold."""

_TYPES = (
    *(DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16, DataType.BOOL),
    *(DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64),
    *(DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64),
)
_BY_NAME = {str(numpy_dtype(one).name): one for one in _TYPES}


@dataclass(frozen=True, slots=True)
class RegionContext:
    """Services that a region takes from its provider.

    Attributes:
        xp: The array module.
        empty: ``f(shape, dtype)``: an array of the provider's allocator.
    """

    xp: Any
    empty: Callable[[Sequence[int], Any], Array]


@dataclass(frozen=True, slots=True)
class _Launch:
    """One kernel for arrays of one signature.

    Attributes:
        kernel: The kernel.
        grid, block: Its geometry.
        inputs: Which inputs of the program it reads.
        outputs: Which results it writes.
        numbers: Its further arguments but the record of faults and the site.
        reports: Whether it may report.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    numbers: tuple[Any, ...]
    reports: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """Launches and results for arrays of one signature."""

    outputs: tuple[tuple[tuple[int, ...], Any], ...]
    launches: tuple[_Launch, ...]


@lru_cache(maxsize=4096)
def _flat_kernel(program: Program, form: Flat) -> Kernel:
    source, arguments = flat(program, form)
    return Kernel(source, NAME, arguments, OPTIONS)


@lru_cache(maxsize=4096)
def _rows_kernel(program: Program, form: ByRows) -> Kernel:
    source, arguments = by_rows(program, form)
    return Kernel(source, NAME, arguments, OPTIONS)


class CodeRegion(CompiledRegion):
    """A region as generated code. Immutable but for what it remembers of signatures; called from any thread.

    Args:
        reading: What it computes.
        constants: For each input of the program the constant's array on the device, None where it is fed.
        context: The provider's memory.
    """

    def __init__(self, reading: Reading, constants: Sequence[Array | None], context: RegionContext) -> None:
        self._reading = reading
        self._constants = tuple(constants)
        self._context = context
        self._site = Site.of_divisor(reading.where)
        self._plans: dict[tuple[Any, ...], _Plan] = {}

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """An instance; it has no state of its own."""
        return FunctionRegion(self.run).instantiate(frame)

    def run(self, *feeds: Array) -> list[Array]:
        """Enqueue the region on the current stream.

        Raises:
            InvalidArgument: Shapes that do not broadcast.
        """
        arrays = [
            feeds[place] if constant is None else constant
            for place, constant in zip(self._reading.feeds, self._constants, strict=True)
        ]
        key = tuple([(array.shape, array.strides, array.data.ptr & 15) for array in arrays])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._planned(arrays)
            if len(self._plans) >= _SIGNATURES:
                self._plans.clear()
            self._plans[key] = plan
        empty = self._context.empty
        outputs = [empty(shape, dtype) for shape, dtype in plan.outputs]
        stream = current_stream()
        for launch in plan.launches:
            launch.kernel(
                launch.grid,
                launch.block,
                stream,
                *[arrays[place].data.ptr for place in launch.inputs],
                *[outputs[place].data.ptr for place in launch.outputs],
                *launch.numbers,
                record_of(stream) if launch.reports else 0,
                self._site.number,
            )
        return outputs

    def _planned(self, arrays: Sequence[Array]) -> _Plan:
        return plan_of(self._reading.program, self._reading.numbers, arrays, self._reading.where)


def compile_region(region: RegionView, context: RegionContext) -> CodeRegion:
    """A region that `groups` claimed, ready to run.

    Kernels are compiled when a signature of shapes is met first: a class of shapes shares one.

    Args:
        region: The region.
        context: The provider's memory.
    """
    reading = read(region)
    constants: list[Array | None] = []
    for name in reading.constants:
        host = region.constant(name) if name else None
        constants.append(None if host is None else context.xp.asarray(host))
    return CodeRegion(reading, constants, context)


def elementwise(program: Program, context: RegionContext, where: Any) -> CodeRegion:
    """A program without nodes, whose inputs are fed in order: for operators that are one expression."""
    count = sum(isinstance(term, Input) for term in program.terms)
    return CodeRegion(Reading(program, tuple(range(count)), ("",) * count, (), where), (None,) * count, context)


def plan_of(program: Program, numbers: Sequence[Number], arrays: Sequence[Array], where: Any) -> _Plan:
    """The launch for arrays of these shapes, strides and alignments."""
    shapes = _shapes(program, numbers, arrays, where)
    results = [
        shapes[number][: -program.reduced_axes] if dropped else shapes[number]
        for number, dropped in zip(program.outputs, program.dropped, strict=True)
    ]
    outputs = tuple(
        (shape, numpy_dtype(_BY_NAME[program.terms[number].dtype]))
        for shape, number in zip(results, program.outputs, strict=True)
    )
    places = range(len(outputs))
    launches: list[_Launch] = []
    reducing = [place for place in places if program.part((place,)).reduced_axes]
    if reducing:
        whole = _reduced_shape(program, shapes, where)
        by_row = (*whole[: -program.reduced_axes], *(1,) * program.reduced_axes)
        together = [place for place in places if place in reducing or shapes[program.outputs[place]] in (whole, by_row)]
        for place in reducing:
            if shapes[program.outputs[place]] not in (whole, by_row):
                raise InvalidArgument(
                    f"A result of shape {list(shapes[program.outputs[place]])} comes of rows of {list(whole)}.",
                    where=where,
                    why="the model's shapes said that it has one of theirs",
                    fix="Feed arrays of the shapes that the model declares, or correct these.",
                )
        launches.append(_by_rows(program, together, numbers, arrays, whole, shapes))
        places = [place for place in places if place not in together]  # type: ignore[assignment]
    groups: dict[tuple[int, ...], list[int]] = {}
    for place in places:
        groups.setdefault(shapes[program.outputs[place]], []).append(place)
    launches += [_flat(program, members, numbers, arrays, shape) for shape, members in groups.items()]
    return _Plan(outputs, tuple(launch for launch in launches if 0 not in launch.grid))


def _shapes(program: Program, numbers: Sequence[Number], arrays: Sequence[Array], where: Any) -> list[tuple[int, ...]]:
    """The shape of each term; reduced axes stay with size 1."""
    found: list[tuple[int, ...]] = []
    for term in program.terms:
        if isinstance(term, Input):
            found.append(tuple(arrays[term.number].shape))
        elif isinstance(term, Scalar):
            found.append(numbers[term.number].shape)
        elif isinstance(term, Reduce):
            shape = found[term.argument]
            found.append((*shape[: len(shape) - program.reduced_axes], *(1,) * program.reduced_axes))
        else:
            found.append(broadcast_dims([found[one] for one in term.arguments], where))
    return found


def _reduced_shape(program: Program, shapes: Sequence[tuple[int, ...]], where: Any) -> tuple[int, ...]:
    found = {shapes[term.argument] for term in program.terms if isinstance(term, Reduce)}
    if len(found) != 1:
        raise InvalidArgument(
            f"Reductions of one region are over rows of {' and of '.join(str(list(one)) for one in sorted(found))}.",
            where=where,
            why="the model's shapes said that they are the same",
            fix="Feed arrays of the shapes that the model declares, or correct these.",
        )
    return found.pop()


def _used(program: Program) -> tuple[list[Input], list[Scalar]]:
    return (
        [term for term in program.terms if isinstance(term, Input)],
        [term for term in program.terms if isinstance(term, Scalar)],
    )


def _spread(array: Array, into: tuple[int, ...]) -> tuple[int, ...]:
    steps = tuple(stride // array.itemsize for stride in array.strides)
    return broadcast_strides(array.shape, steps, into)


def _reach(sizes: Sequence[int], strides: Sequence[int]) -> int:
    return sum((size - 1) * abs(stride) for size, stride in zip(sizes, strides, strict=True))


def _flat(
    whole: Program, places: Sequence[int], numbers: Sequence[Number], arrays: Sequence[Array], shape: tuple[int, ...]
) -> _Launch:
    program = whole.part(places)
    inputs, scalars = _used(program)
    spread = [_spread(arrays[term.number], shape) for term in inputs]
    sizes, (own, *steps) = collapsed(shape, [contiguous_strides(shape), *spread])
    total, last = prod(shape), len(sizes) - 1
    ways = "".join(_way(step, own) for step in steps)
    pack = _pack(program, [arrays[term.number] for term in inputs], ways, steps, sizes[last] if last else total)
    limit = max([total, *(_reach(sizes, step) for step in steps)])
    form = Flat(len(sizes), pack, ways, "int32" if limit < _SHORT else "int64")
    kernel = _flat_kernel(_renumbered(program), form)
    extents = (*sizes[1:last], sizes[last] // pack) if last else ()
    given = [stride for way, step in zip(ways, steps, strict=True) if way not in "ls" for stride in step]
    return _Launch(
        kernel,
        blocks_for(total // pack),
        (THREADS, 1, 1),
        tuple(term.number for term in inputs),
        tuple(places),
        (total // pack, *extents, *given, *(numbers[term.number].value for term in scalars)),
        program.reports,
    )


def _way(step: tuple[int, ...], own: tuple[int, ...]) -> str:
    if step == own:
        return "l"
    if not any(step):
        return "s"
    return {1: "v", 0: "b"}.get(step[-1], "g")


def _pack(program: Program, arrays: Sequence[Array], ways: str, steps: Sequence[Sequence[int]], width: int) -> int:
    """Elements that are loaded at once: at most 16 bytes of each array, as far as sizes and addresses allow."""
    widest: int = max(
        [array.itemsize for array in arrays]
        + [numpy_dtype(_BY_NAME[program.terms[number].dtype]).itemsize for number in program.outputs]
    )
    pack = max(1, min(8, 16 // widest))
    while pack > 1 and (
        width % pack
        or any(
            way in "lv" and (array.data.ptr % (array.itemsize * pack) or any(stride % pack for stride in step[:-1]))
            for array, way, step in zip(arrays, ways, steps, strict=True)
        )
    ):
        pack //= 2
    return pack


def _renumbered(program: Program) -> Program:
    """Scalars and inputs in the order of their terms: so that equal code has equal programs."""
    inputs, scalars = 0, 0
    terms: list[Any] = []
    for term in program.terms:
        if isinstance(term, Input):
            terms.append(Input(inputs, term.dtype))
            inputs += 1
        elif isinstance(term, Scalar):
            terms.append(Scalar(scalars, term.dtype))
            scalars += 1
        else:
            terms.append(term)
    return Program(tuple(terms), program.outputs, program.dropped, program.reduced_axes)


def _by_rows(
    whole: Program,
    places: Sequence[int],
    numbers: Sequence[Number],
    arrays: Sequence[Array],
    shape: tuple[int, ...],
    shapes: Sequence[tuple[int, ...]],
) -> _Launch:
    program = whole.part(places)
    inputs, scalars = _used(program)
    cut = len(shape) - program.reduced_axes
    spread = [_spread(arrays[term.number], shape) for term in inputs]
    row_sizes, row_steps = collapsed(shape[:cut], [step[:cut] for step in spread])
    column_shape = shape[cut:]
    column_sizes, (own, *column_steps) = collapsed(
        column_shape, [contiguous_strides(column_shape), *(step[cut:] for step in spread)]
    )
    rows, columns = prod(shape[:cut]), prod(column_shape)
    ways = "".join("b" if not any(step) else "l" if step == own else "g" for step in column_steps)
    full = tuple(shapes[whole.outputs[place]] == shape and columns != 1 for place in places)
    read_arrays = [arrays[term.number] for term in inputs]
    # A row must begin where a pack may; strides along rows are looked at like those of outer axes.
    beginnings = [(*step, 1) for step in row_steps]
    pack = 1 if "g" in ways else _pack(program, read_arrays, ways, beginnings, columns)
    kept = len(kept_terms(program, ways))
    laid = rows_of(rows, columns, pack, min(32, _REGISTERS // max(1, kept)))
    limit = max(
        [rows * columns]
        + [
            _reach(row_sizes, row) + _reach(column_sizes, column)
            for row, column in zip(row_steps, column_steps, strict=True)
        ]
    )
    form = ByRows(
        len(row_sizes), len(column_sizes), pack, laid.packs, ways, full, "int32" if limit < _SHORT else "int64"
    )
    kernel = _rows_kernel(_renumbered(program), form)
    given: list[int] = []
    for way, row, column in zip(ways, row_steps, column_steps, strict=True):
        given += row
        if way == "g":
            given += column
    return _Launch(
        kernel,
        laid.grid if _any_size(program, rows, columns, full) else (0, 1, 1),
        laid.block,
        tuple(term.number for term in inputs),
        tuple(places),
        (
            *(rows, columns),
            *row_sizes[1:],
            *column_sizes[1:],
            *given,
            *(numbers[term.number].value for term in scalars),
        ),
        program.reports,
    )


def _any_size(program: Program, rows: int, columns: int, full: Sequence[bool]) -> bool:
    """Return whether there is something to write: rows without columns still have a sum."""
    return bool(rows and (columns or not all(full)))
