"""The computation of a region: terms, each of earlier ones, without names, shapes or values.

Equal regions of a model, and of all models, have equal programs, and so one kernel: constants of one element are
arguments of the kernel, not part of it. Comes before `operators`, which adds terms, and `generate`, which writes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ort_py.lazy_dataclass import dataclass

__all__ = [
    "Apply",
    "Builder",
    "Input",
    "Program",
    "Reduce",
    "Scalar",
    "Term",
    "arguments_of",
    "computed_type",
    "literal",
]

_COMPUTED = {
    "float32": "float",
    "float16": "float",
    "bfloat16": "float",
    "float64": "double",
}


def computed_type(dtype: str) -> str:
    """The C++ type that elements of a dtype are computed in."""
    return _COMPUTED.get(dtype, dtype)


def literal(value: float, dtype: str) -> str:
    """A number as C++ writes it, exactly, in the type that `dtype` is computed in."""
    kind = computed_type(dtype)
    if kind not in ("float", "double"):
        return f"({kind}({int(value)}))"
    number = float(value)
    if math.isnan(number):
        return f"(infinity({kind}()) - infinity({kind}()))"
    if math.isinf(number):
        return f"({'-' if number < 0 else ''}infinity({kind}()))"
    return f"({kind}({number.hex()}))"


@dataclass(frozen=True, slots=True)
class Input:
    """An element of an array.

    Attributes:
        number: Which array.
        dtype: NumPy's name of its type.
    """

    number: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number that a launch is given.

    Attributes:
        number: Which one.
        dtype: NumPy's name of its type.
    """

    number: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An expression of terms.

    Attributes:
        code: C++, with ``{0}``, ``{1}``, … for the arguments.
        arguments: Numbers of earlier terms.
        dtype: NumPy's name of the result's type.
    """

    code: str
    arguments: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Reduce:
    """A term over all elements of a row.

    Attributes:
        operation: ``Add``, ``Multiply``, ``Largest`` or ``Smallest`` of `reduce.cuh`.
        identity: C++ for what leaves others as they are.
        argument: Number of the term that is reduced.
        dtype: NumPy's name of its type and the result's.
    """

    operation: str
    identity: str
    argument: int
    dtype: str


Term = Input | Scalar | Apply | Reduce


def arguments_of(term: Term) -> tuple[int, ...]:
    """Numbers of the terms that a term is made of."""
    if isinstance(term, Apply):
        return term.arguments
    return (term.argument,) if isinstance(term, Reduce) else ()


@dataclass(frozen=True, slots=True)
class Program:
    """Terms and which of them are results.

    Attributes:
        terms: Each of earlier ones.
        outputs: Numbers of the results.
        dropped: For each result, whether the reduced axes are gone from its shape; else they stay, with size 1.
        reduced_axes: How many of the last axes the reductions are over; 0 where there are none.
    """

    terms: tuple[Term, ...]
    outputs: tuple[int, ...]
    dropped: tuple[bool, ...]
    reduced_axes: int = 0

    @property
    def reduces(self) -> bool:
        """True if there are reductions."""
        return any(isinstance(term, Reduce) for term in self.terms)

    @property
    def reports(self) -> bool:
        """True if a term may find something wrong in the data."""
        return any(isinstance(term, Apply) and "fault" in term.code for term in self.terms)

    def part(self, outputs: Iterable[int]) -> Program:
        """The program of some results alone, by their places among the results; inputs keep their numbers."""
        places = tuple(outputs)
        wanted = [self.outputs[place] for place in places]
        needed: set[int] = set()
        pending = list(wanted)
        while pending:
            number = pending.pop()
            if number not in needed:
                needed.add(number)
                pending.extend(arguments_of(self.terms[number]))
        place_of = {number: index for index, number in enumerate(sorted(needed))}
        terms = tuple(_moved(self.terms[number], place_of) for number in sorted(needed))
        axes = self.reduced_axes if any(isinstance(term, Reduce) for term in terms) else 0
        return Program(
            terms, tuple(place_of[number] for number in wanted), tuple(self.dropped[place] for place in places), axes
        )


def _moved(term: Term, place: dict[int, int]) -> Term:
    if isinstance(term, Apply):
        return Apply(term.code, tuple(place[number] for number in term.arguments), term.dtype)
    if isinstance(term, Reduce):
        return Reduce(term.operation, term.identity, place[term.argument], term.dtype)
    return term


class Builder:
    """Collects terms; the same term twice is one."""

    def __init__(self) -> None:
        self.terms: list[Term] = []
        self._known: dict[Term, int] = {}

    def put(self, term: Term) -> int:
        """A term's number."""
        found = self._known.get(term)
        if found is None:
            found = self._known[term] = len(self.terms)
            self.terms.append(term)
        return found

    def dtype(self, number: int) -> str:
        """NumPy's name of a term's type."""
        return self.terms[number].dtype

    def apply(self, code: str, *arguments: int, dtype: str = "") -> int:
        """An expression; of the type of its first argument where none is named."""
        return self.put(Apply(code, arguments, dtype or self.dtype(arguments[0])))

    def number(self, value: float, dtype: str) -> str:
        """A number as C++, see `literal`."""
        return literal(value, dtype)

    def reduce(self, operation: str, argument: int) -> int:
        """A reduction of a row."""
        dtype = self.dtype(argument)
        return self.put(Reduce(operation, _identity(operation, dtype), argument, dtype))

    def finish(self, outputs: Sequence[int], dropped: Sequence[bool], reduced_axes: int) -> Program:
        """The program of some results."""
        return Program(tuple(self.terms), tuple(outputs), tuple(dropped), reduced_axes)


_LIMITS = {
    "int8": ("-128", "127"),
    "int16": ("-32768", "32767"),
    "int32": ("(-2147483647 - 1)", "2147483647"),
    "int64": ("(-9223372036854775807LL - 1)", "9223372036854775807LL"),
    "uint8": ("0", "255"),
    "uint16": ("0", "65535"),
    "uint32": ("0u", "4294967295u"),
    "uint64": ("0ull", "18446744073709551615ull"),
}


def _identity(operation: str, dtype: str) -> str:
    kind = computed_type(dtype)
    if operation in ("Add", "Multiply"):
        return f"{kind}({int(operation == 'Multiply')})"
    if dtype in _LIMITS:
        return f"{kind}({_LIMITS[dtype][operation == 'Smallest']})"
    return f"({'-' if operation == 'Largest' else ''}infinity({kind}()))"
