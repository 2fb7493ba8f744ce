"""A program to CUDA C++: a thread a pack of elements where there are no reductions, threads of a row where there are.

What shapes decide is an argument of the kernel: sizes and strides. What decides about the form of the code is in
`Flat` and `ByRows`: how many axes there are, how each input lies, how many elements are loaded at once. Expressions
are not contracted (``--fmad=false``): a product is rounded as the node that it stands for would round it.

Comes after `program`; before `region`, which knows shapes and launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.code.elements import C_TYPES
from ort_py_cuda.code.sources import program as joined
from ort_py_cuda.regions.program import Apply, Input, Program, Reduce, Scalar, arguments_of, computed_type

__all__ = ["NAME", "OPTIONS", "ByRows", "Flat", "by_rows", "flat", "kept_terms", "scalar_letter"]

NAME = "region"
OPTIONS = ("--fmad=false",)


@dataclass(frozen=True, slots=True)
class Flat:
    """Code of a program without reductions.

    Attributes:
        axes: How many, the last one in packs.
        pack: Elements a thread computes.
        ways: For each input of the program: ``l`` lies like the result, ``s`` is one element, ``v`` has neighbours
            along the last axis, ``b`` has one element there, ``g`` has any stride there.
        index: Integer type of positions.
    """

    axes: int
    pack: int
    ways: str
    index: str


@dataclass(frozen=True, slots=True)
class ByRows:
    """Code of a program with reductions.

    Attributes:
        row_axes, column_axes: How many.
        pack: Elements loaded at once.
        packs: Packs a thread holds in registers; 0 where rows are read once for each step.
        ways: For each input: ``l`` lies like a row of the result, ``b`` has one element a row, ``g`` has any strides.
        full: For each result, whether it has an element a column; else it has one per row.
        index: Integer type of positions.
    """

    row_axes: int
    column_axes: int
    pack: int
    packs: int
    ways: str
    full: tuple[bool, ...]
    index: str


def scalar_letter(dtype: str) -> str:
    """The letter, as in `Kernel`, of a number that a launch receives."""
    kind = computed_type(dtype)
    return {"float": "f", "double": "d", "uint64": "Q"}.get(kind, "q")


_LETTER_TYPES = {"f": "float", "d": "double", "q": "int64", "Q": "uint64"}


def _inputs(program: Program) -> list[tuple[int, Input]]:
    return [(number, term) for number, term in enumerate(program.terms) if isinstance(term, Input)]


def _scalars(program: Program) -> list[tuple[int, Scalar]]:
    return [(number, term) for number, term in enumerate(program.terms) if isinstance(term, Scalar)]


def _written(program: Program, number: int, name: dict[int, str] | None = None) -> str:
    """The expression of an Apply."""
    term = program.terms[number]
    assert isinstance(term, Apply)
    names = name or {}
    return term.code.format(*(names.get(one, f"t{one}") for one in term.arguments))


def _declared(program: Program, number: int, code: str) -> str:
    return f"const {computed_type(program.terms[number].dtype)} t{number} = {code};"


class _Text:
    """Lines of a kernel and its parameters."""

    def __init__(self, program: Program) -> None:
        self.parameters: list[str] = []
        self.letters: list[str] = []
        self.lines: list[str] = []
        for place, (_, term) in enumerate(_inputs(program)):
            self.parameter(f"const {C_TYPES[term.dtype]} *__restrict__ in{place}", "P")
        for place, number in enumerate(program.outputs):
            self.parameter(f"{C_TYPES[program.terms[number].dtype]} *__restrict__ out{place}", "P")

    def parameter(self, text: str, letter: str) -> None:
        self.parameters.append(text)
        self.letters.append(letter)

    def ending(self, program: Program) -> None:
        """Parameters that come last: numbers, and the record of faults."""
        for number, term in _scalars(program):
            letter = scalar_letter(term.dtype)
            self.parameter(f"{_LETTER_TYPES[letter]} number{number}", letter)
        self.parameter("Fault *fault", "P")
        self.parameter("int64 site", "q")

    def add(self, *lines: str) -> None:
        self.lines.extend(lines)

    def source(self) -> tuple[str, str]:
        body = "\n".join(f"  {line}" for line in self.lines)
        text = f'extern "C" __global__ void {NAME}({", ".join(self.parameters)}) {{\n{body}\n}}\n'
        return joined("reduce", "elementwise", body=text), "".join(self.letters)


def _scalar_lines(program: Program) -> list[str]:
    return [
        _declared(program, number, f"({computed_type(term.dtype)})number{number}") for number, term in _scalars(program)
    ]


def _offset(coordinates: Iterable[str], strides: Iterable[str], index: str) -> str:
    products = [f"{one} * ({index}){stride}" for one, stride in zip(coordinates, strides, strict=True)]
    return " + ".join(products) or "0"


def _split(at: str, sizes: Sequence[str], names: Sequence[str], index: str) -> list[str]:
    """Lines that split a position into coordinates, the last axis first."""
    lines = [f"{index} left_{at} = {at};"]
    for place in range(len(sizes) - 1, 0, -1):
        lines.append(f"const {index} {names[place]} = left_{at} % ({index}){sizes[place]};")
        lines.append(f"left_{at} /= ({index}){sizes[place]};")
    return [*lines, f"const {index} {names[0]} = left_{at};"]


def flat(program: Program, form: Flat) -> tuple[str, str]:
    """The source of a program without reductions, and its arguments in the letters of `Kernel`.

    Arguments: inputs, outputs, the number of packs, the sizes of the axes but the first (the last in packs), strides
    along each axis for each input that is not ``l`` or ``s``, numbers, the record of faults, the site.
    """
    text, index, last = _Text(program), form.index, form.axes - 1
    inputs = _inputs(program)
    text.parameter("int64 total", "q")
    for axis in range(1, form.axes):
        text.parameter(f"int64 size{axis}", "q")
    for place, way in enumerate(form.ways):
        if way not in "ls":
            for axis in range(form.axes):
                text.parameter(f"int64 step{place}_{axis}", "q")
    text.ending(program)
    text.add(
        f"const {index} at = ({index})blockIdx.x * blockDim.x + threadIdx.x;",
        f"if (at >= ({index})total) return;",
    )
    names = [f"c{axis}" for axis in range(form.axes)]
    if any(way not in "ls" for way in form.ways):
        text.add(*_split("at", ["", *(f"size{axis}" for axis in range(1, form.axes))], names, index))
    text.add(*_scalar_lines(program))
    steps: dict[int, str] = {}
    for place, ((number, term), way) in enumerate(zip(inputs, form.ways, strict=True)):
        kind = C_TYPES[term.dtype]
        coordinates = [*names[:last], f"{names[last]} * {form.pack}"]
        offset = _offset(coordinates, [f"step{place}_{axis}" for axis in range(form.axes)], index)
        if way in "lv":
            start = f"at * {form.pack}" if way == "l" else offset
            pack = f"Pack<{kind}, {form.pack}>"
            text.add(f"const {pack} p{place} = *(const {pack} *)(in{place} + ({start}));")
            steps[number] = f"widen(p{place}.v[k])"
        elif way == "g":
            text.add(f"const {kind} *q{place} = in{place} + ({offset});")
            steps[number] = f"widen(q{place}[k * ({index})step{place}_{last}])"
        else:
            text.add(_declared(program, number, f"widen(in{place}[{'0' if way == 's' else offset}])"))
    for place, number in enumerate(program.outputs):
        text.add(f"Pack<{C_TYPES[program.terms[number].dtype]}, {form.pack}> r{place};")
    text.add("#pragma unroll", f"for (int k = 0; k < {form.pack}; ++k) {{")
    for number, one in enumerate(program.terms):
        if number in steps:
            text.add(f"  {_declared(program, number, steps[number])}")
        elif isinstance(one, Apply):
            text.add(f"  {_declared(program, number, _written(program, number))}")
    for place, number in enumerate(program.outputs):
        text.add(f"  r{place}.v[k] = narrow<{C_TYPES[program.terms[number].dtype]}>(t{number});")
    text.add("}")
    for place, number in enumerate(program.outputs):
        kind = C_TYPES[program.terms[number].dtype]
        text.add(f"*(Pack<{kind}, {form.pack}> *)(out{place} + (int64)at * {form.pack}) = r{place};")
    return text.source()


@dataclass(frozen=True, slots=True)
class _Levels:
    """Terms with an element per column, and the number of reductions that precede each."""

    full: tuple[bool, ...]
    stage: tuple[int, ...]


def _levels(program: Program, ways: str) -> _Levels:
    full: list[bool] = []
    stage: list[int] = []
    place = 0
    for term in program.terms:
        arguments = arguments_of(term)
        before = max((stage[one] for one in arguments), default=0)
        if isinstance(term, Input):
            full.append(ways[place] != "b")
            place += 1
        else:
            full.append(isinstance(term, Apply) and any(full[one] for one in arguments))
        stage.append(before + isinstance(term, Reduce))
    return _Levels(tuple(full), tuple(stage))


def kept_terms(program: Program, ways: str) -> tuple[int, ...]:
    """Terms with an element a column that are needed again behind a reduction they come before."""
    levels = _levels(program, ways)
    kept = set()
    for number, term in enumerate(program.terms):
        if levels.full[number]:
            kept |= {one for one in arguments_of(term) if levels.full[one] and levels.stage[one] < levels.stage[number]}
    return tuple(sorted(kept))


def by_rows(program: Program, form: ByRows) -> tuple[str, str]:
    """The source of a program with reductions, and its arguments in the letters of `Kernel`.

    Arguments: inputs, outputs, rows, columns, the sizes of the row axes but the first, those of the column axes but the
    first, for each input its strides along the row axes, and along the column axes where it is ``g``, numbers, the
    record of faults, the site.
    """
    return _RowWriter(program, form).source()


class _RowWriter:
    def __init__(self, program: Program, form: ByRows) -> None:
        self._program = program
        self._form = form
        self._levels = _levels(program, form.ways)
        self._kept = kept_terms(program, form.ways) if form.packs else ()
        self._text = _Text(program)
        self._inputs = _inputs(program)
        self._place = {number: place for place, (number, _) in enumerate(self._inputs)}

    def source(self) -> tuple[str, str]:
        program, form, text, index = self._program, self._form, self._text, self._form.index
        text.parameter("int64 rows", "q")
        text.parameter("int64 columns", "q")
        for kind, count in (("row", form.row_axes), ("column", form.column_axes)):
            for axis in range(1, count):
                text.parameter(f"int64 {kind}_size{axis}", "q")
        for place, way in enumerate(form.ways):
            for axis in range(form.row_axes):
                text.parameter(f"int64 row_step{place}_{axis}", "q")
            if way == "g":
                for axis in range(form.column_axes):
                    text.parameter(f"int64 column_step{place}_{axis}", "q")
        text.ending(program)
        text.add(
            f"const {index} row = ({index})blockIdx.x * blockDim.y + threadIdx.y;",
            f"if (row >= ({index})rows) return;",
            f"const {index} cols = ({index})columns;",
        )
        names = [f"r{axis}" for axis in range(form.row_axes)]
        text.add(*_split("row", ["", *(f"row_size{axis}" for axis in range(1, form.row_axes))], names, index))
        for place in range(len(form.ways)):
            offset = _offset(names, [f"row_step{place}_{axis}" for axis in range(form.row_axes)], index)
            text.add(f"in{place} += {offset};")
        text.add(*_scalar_lines(program))
        for number in self._kept:
            kind = computed_type(program.terms[number].dtype)
            text.add(f"{kind} kept{number}[{form.packs * form.pack}];")
        for stage in range(max(self._levels.stage) + 1):
            self._row_terms(stage)
            self._loop(stage)
        for place, number in enumerate(program.outputs):
            if not form.full[place]:
                kind = C_TYPES[program.terms[number].dtype]
                text.add(f"if (threadIdx.x == 0) out{place}[row] = narrow<{kind}>(t{number});")
        return text.source()

    def _row_terms(self, stage: int) -> None:
        """Terms with one element a row that are known by now; reductions were declared by the loop before."""
        for number, term in enumerate(self._program.terms):
            if self._levels.full[number] or self._levels.stage[number] != stage:
                continue
            if isinstance(term, Input):
                self._text.add(_declared(self._program, number, f"widen(in{self._place[number]}[0])"))
            elif isinstance(term, Apply):
                self._text.add(_declared(self._program, number, _written(self._program, number)))

    def _loop(self, stage: int) -> None:
        program, form, text, levels = self._program, self._form, self._text, self._levels
        reductions = [
            (number, term)
            for number, term in enumerate(program.terms)
            if isinstance(term, Reduce) and levels.stage[number] == stage + 1
        ]
        outputs = [
            (place, number)
            for place, number in enumerate(program.outputs)
            if form.full[place] and levels.stage[number] == stage
        ]
        if not reductions and not outputs:
            return
        for number, term in reductions:
            text.add(f"{computed_type(term.dtype)} sum{number} = {term.identity};")
        text.add("{", *(f"  {line}" for line in self._loop_lines(stage, reductions, outputs)), "}")
        for number, term in reductions:
            text.add(_declared(program, number, f"reduce_row<{term.operation}>(sum{number}, {term.identity})"))

    def _loop_lines(
        self, stage: int, reductions: Sequence[tuple[int, Reduce]], outputs: Sequence[tuple[int, int]]
    ) -> list[str]:
        program, form, index = self._program, self._form, self._form.index
        needed = self._needed(stage, [term.argument for _, term in reductions], [number for _, number in outputs])
        if form.packs:
            lines = [
                "#pragma unroll",
                f"for (int j = 0; j < {form.packs}; ++j) {{",
                f"  const {index} at = ((({index})j * blockDim.x) + threadIdx.x) * {form.pack};",
                "  if (at < cols) {",
            ]
        else:
            first, step = f"({index})threadIdx.x * {form.pack}", f"({index})blockDim.x * {form.pack}"
            lines = [f"for ({index} at = {first}; at < cols; at += {step}) {{", "  {"]
        inner = []
        for number in needed:
            place = self._place.get(number)
            if place is not None and form.ways[place] == "l":
                pack = f"Pack<{C_TYPES[program.terms[number].dtype]}, {form.pack}>"
                inner.append(f"const {pack} p{place} = *(const {pack} *)(in{place} + at);")
        for place, number in outputs:
            inner.append(f"Pack<{C_TYPES[program.terms[number].dtype]}, {form.pack}> w{place};")
        inner += ["#pragma unroll", f"for (int k = 0; k < {form.pack}; ++k) {{"]
        inner += [f"  {line}" for number in needed for line in self._column_term(stage, number)]
        for number, term in reductions:
            inner.append(f"  sum{number} = {term.operation}::of(sum{number}, t{term.argument});")
        for place, number in outputs:
            inner.append(f"  w{place}.v[k] = narrow<{C_TYPES[program.terms[number].dtype]}>(t{number});")
        inner.append("}")
        for place, number in outputs:
            pack = f"Pack<{C_TYPES[program.terms[number].dtype]}, {form.pack}>"
            inner.append(f"*({pack} *)(out{place} + (int64)row * cols + at) = w{place};")
        return [*lines, *(f"    {line}" for line in inner), "  }", "}"]

    def _needed(self, stage: int, arguments: Sequence[int], outputs: Sequence[int]) -> list[int]:
        """Terms of a column that a loop computes or reads: without kept ones, all that its results are made of."""
        found: set[int] = set()
        pending = [*arguments, *outputs]
        if self._form.packs:  # values that later loops read are kept by the loop of their own stage
            pending += [number for number in self._kept if self._levels.stage[number] == stage]
        while pending:
            number = pending.pop()
            if number in found or not self._levels.full[number]:
                continue
            found.add(number)
            if not self._is_kept(stage, number):
                pending.extend(arguments_of(self._program.terms[number]))
        return sorted(found)

    def _is_kept(self, stage: int, number: int) -> bool:
        return number in self._kept and self._levels.stage[number] < stage

    def _column_term(self, stage: int, number: int) -> list[str]:
        program, form, index = self._program, self._form, self._form.index
        if self._is_kept(stage, number):
            return [_declared(program, number, f"kept{number}[j * {form.pack} + k]")]
        lines: list[str] = []
        place = self._place.get(number)
        if place is None:
            lines.append(_declared(program, number, _written(program, number)))
        elif form.ways[place] == "l":
            lines.append(_declared(program, number, f"widen(p{place}.v[k])"))
        else:
            names = [f"x{place}_{axis}" for axis in range(form.column_axes)]
            lines.append(f"const {index} e{place} = at + k;")
            sizes = ["", *(f"column_size{axis}" for axis in range(1, form.column_axes))]
            lines += _split(f"e{place}", sizes, names, index)
            offset = _offset(names, [f"column_step{place}_{axis}" for axis in range(form.column_axes)], index)
            lines.append(_declared(program, number, f"widen(in{place}[{offset}])"))
        if number in self._kept and form.packs:
            lines.append(f"kept{number}[j * {form.pack} + k] = t{number};")
        return lines
