"""A program of whole numbers: what has to be computed of a run's shapes before a region may be entered.

It is data only: a list of instructions over numbered registers, made once when a session is created and run whenever a
region meets shapes that it has not seen. One instruction takes about a tenth of a microsecond. Numbers are Python's, so
nothing overflows. It is independent of shapes or operators.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import Any

import numpy as np

from ort_py.lazy_dataclass import dataclass
from ort_py.light_tuple import NamedTuple

CONTENT_LIMIT = 64
"""Elements up to which the content of a list of whole numbers is followed; no list of sizes is longer."""


class Code(IntEnum):
    """Operation of an instruction on its operands."""

    ADD = 0
    SUB = 1
    MUL = 2
    FLOOR_DIVIDE = 3
    """Rounded towards minus infinity; 0 where the divisor is 0, which a predicate of its own refuses."""
    REMAINDER = 4
    """With the sign of the divisor; 0 where the divisor is 0."""
    MIN = 5
    MAX = 6
    EQUAL = 7
    LESS = 8
    CHOOSE = 9
    """The second operand where the first is not 0, else the third."""
    TRUE_DIVIDE = 10
    TRUNCATE = 11
    """A whole number, rounded towards 0."""
    FLOOR = 12
    CEIL = 13
    ROUND = 14
    """The nearest whole number, halves to the even one."""
    SINGLE = 15
    """The nearest number of single precision."""
    SQRT = 16


class Instruction(NamedTuple):
    """One step.

    Attributes:
        operands: Registers in a `ConstraintProgram`; constants and tuples of one register in a program that is still
            being written.
    """

    code: Code
    operands: tuple[Any, ...]


def _floor_divide(a: float, b: float) -> float:
    return a // b if b else 0


def _remainder(a: float, b: float) -> float:
    return a % b if b else 0


def _true_divide(a: float, b: float) -> float:
    return a / b if b else math.inf


def _truncate(a: float) -> int:
    return int(a) if math.isfinite(a) else 0


def _floor(a: float) -> float:
    return float(math.floor(a)) if math.isfinite(a) else a


def _ceil(a: float) -> float:
    return float(math.ceil(a)) if math.isfinite(a) else a


def _round(a: float) -> float:
    return float(round(a)) if math.isfinite(a) else a


def _single(a: float) -> float:
    return float(np.float32(a))


def _sqrt(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


def _choose(condition: float, then: float, otherwise: float) -> float:
    return then if condition else otherwise


FUNCTIONS: Mapping[Code, Callable[..., Any]] = {
    Code.ADD: operator.add,
    Code.SUB: operator.sub,
    Code.MUL: operator.mul,
    Code.FLOOR_DIVIDE: _floor_divide,
    Code.REMAINDER: _remainder,
    Code.MIN: min,
    Code.MAX: max,
    Code.EQUAL: operator.eq,
    Code.LESS: operator.lt,
    Code.CHOOSE: _choose,
    Code.TRUE_DIVIDE: _true_divide,
    Code.TRUNCATE: _truncate,
    Code.FLOOR: _floor,
    Code.CEIL: _ceil,
    Code.ROUND: _round,
    Code.SINGLE: _single,
    Code.SQRT: _sqrt,
}


@dataclass(frozen=True, slots=True)
class ConstraintProgram:
    """Instructions over registers: first the inputs, then the constants, then the result of each instruction."""

    inputs: int
    constants: tuple[int | float, ...]
    code: tuple[Instruction, ...]
    _steps: tuple[tuple[Callable[..., Any], int, int, int], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Looked up once: a new shape costs as much as the calls of these functions.
        steps = ((FUNCTIONS[code], *operands, *(-1,) * (3 - len(operands))) for code, operands in self.code)
        object.__setattr__(self, "_steps", tuple(steps))

    def run(self, numbers: Sequence[int | float]) -> list[Any]:
        """All registers after a run."""
        registers: list[Any] = [*numbers, *self.constants]
        append = registers.append
        for function, first, second, third in self._steps:
            if third >= 0:
                append(function(registers[first], registers[second], registers[third]))
            elif second >= 0:
                append(function(registers[first], registers[second]))
            else:
                append(function(registers[first]))
        return registers
