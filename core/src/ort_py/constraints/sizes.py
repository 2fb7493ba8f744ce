"""Sizes that are known only while a model runs, and the arithmetic of shapes over them.

A `Size` stands for a number: a dimension of an input, an element of a shape tensor, or what is computed of those.
Constraints are written once, with the functions of this module, and work for plain numbers and for `Size`s alike. What
is computed of `Size`s becomes an instruction of the `ProgramRecorder`; equal expressions become one instruction, and
what follows from the expression alone is decided at once. The module knows nothing of operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from ort_py.constraints.program import Code, ConstraintProgram, Instruction


class Unknown:
    """A number that depends on the data of a run, so that nothing can be said of it beforehand."""

    __slots__ = ()

    def _unknown(self, other: object = None) -> Unknown:
        return UNKNOWN

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _unknown

    def __neg__(self) -> Unknown:
        return UNKNOWN

    def __repr__(self) -> str:
        return "?"


UNKNOWN = Unknown()
"""The only `Unknown`."""


class Size:
    """The result of an instruction, or an input of the program.

    Attributes:
        natural: Whether it is known to be 0 or more.
    """

    __slots__ = ("natural", "recorder", "register")

    def __init__(self, recorder: ProgramRecorder, register: int, *, natural: bool) -> None:
        self.recorder = recorder
        self.register = register
        self.natural = natural

    def __add__(self, other: Amount) -> Amount:
        if other == 0:
            return self
        return self._with(Code.ADD, other, natural=self.natural and _natural(other))

    def __radd__(self, other: Amount) -> Amount:
        return self + other

    def __sub__(self, other: Amount) -> Amount:
        if other is self:
            return 0
        if isinstance(other, int):
            return self + -other
        return self._with(Code.SUB, other, natural=False)

    def __rsub__(self, other: Amount) -> Amount:
        return self.recorder.emit(Code.SUB, (other, self), natural=False)

    def __mul__(self, other: Amount) -> Amount:
        if isinstance(other, int) and 0 <= other <= 1:
            return self if other else 0
        return self._with(Code.MUL, other, natural=self.natural and _natural(other))

    def __rmul__(self, other: Amount) -> Amount:
        return self * other

    def __neg__(self) -> Amount:
        return self * -1

    def __repr__(self) -> str:
        return f"%{self.register}"

    def _with(self, code: Code, other: Amount, *, natural: bool) -> Amount:
        if isinstance(other, Unknown):
            return UNKNOWN
        return self.recorder.emit(code, (self, other), natural=natural)


Amount: TypeAlias = int | float | Size | Unknown
"""A number, known or not."""

Condition: TypeAlias = bool | Size | Unknown
"""Whether something holds: decided already, by the program (0 or 1), or not to be said."""


class ProgramRecorder:
    """Writes a program while constraints are evaluated over `Size`s."""

    def __init__(self) -> None:
        self._inputs = 0
        self._constants: list[int | float] = []
        self._code: list[Instruction] = []
        self._made: dict[tuple[Code, tuple[object, ...]], Size] = {}
        self._negated: dict[int, Condition] = {}

    def input(self, *, natural: bool = False) -> Size:
        """A further input of the program."""
        found = Size(self, self._inputs, natural=natural)
        self._inputs += 1
        return found

    def emit(self, code: Code, operands: Sequence[Amount], *, natural: bool = False) -> Amount:
        """The result of an instruction: the one that is there already where its operands are the same."""
        listed: list[tuple[object, ...]] = []
        for one in operands:
            if isinstance(one, Unknown):
                return UNKNOWN
            listed.append((one.register,) if isinstance(one, Size) else (type(one), one))
        key = code, tuple(listed)
        found = self._made.get(key)
        if found is None:
            place = len(self._code)
            self._code.append(
                Instruction(code, tuple([self._operand(cast("int | float | Size", one)) for one in operands]))
            )
            # Results are numbered from -1 downwards as long as inputs may be added.
            found = self._made[key] = Size(self, -1 - place, natural=natural)
        return found

    def _operand(self, value: int | float | Size) -> int | float | tuple[int]:
        return (value.register,) if isinstance(value, Size) else value

    def program(self, results: Sequence[Amount]) -> tuple[ConstraintProgram, list[int]]:
        """The program of the instructions that the results need.

        Args:
            results: Numbers that are wanted; none is `UNKNOWN`.

        Returns:
            The program, and the register of each result.
        """
        needed: set[int] = set()
        pending = [-1 - one.register for one in results if isinstance(one, Size) and one.register < 0]
        while pending:
            place = pending.pop()
            if place not in needed:
                needed.add(place)
                operands = self._code[place].operands
                pending += [-1 - one[0] for one in operands if isinstance(one, tuple) and one[0] < 0]
        constants: dict[tuple[type, int | float], int] = {}
        kept = sorted(needed)
        wanted = [one for place in kept for one in self._code[place].operands if not isinstance(one, tuple)]
        wanted += [one for one in results if isinstance(one, int | float)]
        for one in wanted:
            constants.setdefault((type(one), one), self._inputs + len(constants))
        first = self._inputs + len(constants)
        registers = {place: first + number for number, place in enumerate(kept)}

        def register(operand: int | float | tuple[int]) -> int:
            if not isinstance(operand, tuple):
                return constants[type(operand), operand]
            return operand[0] if operand[0] >= 0 else registers[-1 - operand[0]]

        code = tuple(
            Instruction(self._code[place].code, tuple(register(one) for one in self._code[place].operands))
            for place in kept
        )
        program = ConstraintProgram(self._inputs, tuple(value for _, value in constants), code)
        return program, [register(self._operand(cast("int | float | Size", one))) for one in results]


def is_known(value: Amount) -> bool:
    """Return whether a number is known now or when the program runs."""
    return not isinstance(value, Unknown)


def equal(a: Amount, b: Amount) -> Condition:
    if a is b and isinstance(a, Size):
        return True
    return _compared(Code.EQUAL, a, b, lambda x, y: x == y)


def less(a: Amount, b: Amount) -> Condition:
    if a is b and isinstance(a, Size):
        return False
    if isinstance(a, int | float) and a < 0 and _natural(b):
        return True
    if isinstance(b, int | float) and b <= 0 and _natural(a):
        return False
    return _compared(Code.LESS, a, b, lambda x, y: x < y)


def at_least(a: Amount, b: Amount) -> Condition:
    return negated(less(a, b))


def negated(condition: Condition) -> Condition:
    if isinstance(condition, bool):
        return not condition
    if isinstance(condition, Unknown):
        return UNKNOWN
    return cast("Condition", condition.recorder.emit(Code.EQUAL, (condition, 0), natural=True))


def all_of(*conditions: Condition) -> Condition:
    return _joined(conditions, absorbing=False, code=Code.MIN)


def any_of(*conditions: Condition) -> Condition:
    return _joined(conditions, absorbing=True, code=Code.MAX)


def choose(condition: Condition, then: Amount, otherwise: Amount) -> Amount:
    if isinstance(condition, bool):
        return then if condition else otherwise
    if isinstance(condition, Unknown):
        return then if _same(then, otherwise) else UNKNOWN
    if _same(then, otherwise):
        return then
    return condition.recorder.emit(
        Code.CHOOSE, (condition, then, otherwise), natural=_natural(then) and _natural(otherwise)
    )


def largest(a: Amount, b: Amount) -> Amount:
    if _same(a, b):
        return a
    for one, other in ((a, b), (b, a)):
        if isinstance(one, int) and one <= 0 and _natural(other):
            return other
    return _computed(Code.MAX, a, b, max, natural=_natural(a) or _natural(b))


def smallest(a: Amount, b: Amount) -> Amount:
    if _same(a, b):
        return a
    return _computed(Code.MIN, a, b, min, natural=_natural(a) and _natural(b))


def divide(a: Amount, b: Amount) -> Amount:
    """``a // b``, rounded towards minus infinity; `UNKNOWN` where `b` is 0."""
    if isinstance(b, int) and b == 1:
        return a
    if isinstance(b, int | float) and b == 0:
        return UNKNOWN
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a // b
    return _computed(Code.FLOOR_DIVIDE, a, b, lambda x, y: x // y, natural=_natural(a) and _natural(b))


def remainder(a: Amount, b: Amount) -> Amount:
    """``a % b`` for a positive `b`; `UNKNOWN` where `b` is 0."""
    if isinstance(b, int) and b == 1:
        return 0
    if isinstance(b, int | float) and b == 0:
        return UNKNOWN
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a % b
    return _computed(Code.REMAINDER, a, b, lambda x, y: x % y, natural=_natural(b))


def product(sizes: Sequence[Amount]) -> Amount:
    """The number of elements of a shape."""
    whole = math.prod(size for size in sizes if isinstance(size, int | float))
    if whole == 0:
        return 0
    found: Amount = whole
    # In one order, so that one set of sizes makes one expression whatever the order they come in.
    for size in sorted((one for one in sizes if isinstance(one, Size)), key=lambda one: one.register):
        found = size * found
    return UNKNOWN if any(isinstance(size, Unknown) for size in sizes) else found


def function(code: Code, value: Amount, now: Callable[[float], int | float]) -> Amount:
    """A function of one number, evaluated now where the number is known."""
    if isinstance(value, Unknown):
        return UNKNOWN
    if isinstance(value, Size):
        return value.recorder.emit(code, (value,))
    return now(value)


def _natural(value: Amount) -> bool:
    return value.natural if isinstance(value, Size) else isinstance(value, int | float) and value >= 0


def _same(a: Amount, b: Amount) -> bool:
    if isinstance(a, Size) or isinstance(b, Size):
        return a is b
    return not isinstance(a, Unknown) and not isinstance(b, Unknown) and type(a) is type(b) and a == b


def _compared(code: Code, a: Amount, b: Amount, now: Callable[[float, float], bool]) -> Condition:
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return UNKNOWN
    if isinstance(a, Size):
        return cast("Condition", a.recorder.emit(code, (a, b), natural=True))
    if isinstance(b, Size):
        return cast("Condition", b.recorder.emit(code, (a, b), natural=True))
    return now(a, b)


def _computed(code: Code, a: Amount, b: Amount, now: Callable[[float, float], int | float], *, natural: bool) -> Amount:
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return UNKNOWN
    if isinstance(a, Size):
        return a.recorder.emit(code, (a, b), natural=natural)
    if isinstance(b, Size):
        return b.recorder.emit(code, (a, b), natural=natural)
    return now(a, b)


def _joined(conditions: Sequence[Condition], *, absorbing: bool, code: Code) -> Condition:
    left: list[Size] = []
    unknown = False
    for condition in conditions:
        if isinstance(condition, bool):
            if condition is absorbing:
                return absorbing
        elif isinstance(condition, Unknown):
            unknown = True
        elif condition not in left:
            left.append(condition)
    if unknown:
        return UNKNOWN
    if not left:
        return not absorbing
    found = left[0]
    for one in left[1:]:
        found = cast("Size", found.recorder.emit(code, (found, one), natural=True))
    return found
