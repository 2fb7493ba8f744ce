"""Programs of whole numbers: every instruction, and only what results need."""

from __future__ import annotations

import math

import pytest

from ort_py.constraints.program import Code, ConstraintProgram, Instruction
from ort_py.constraints.sizes import Amount, ProgramRecorder, Size


@pytest.mark.parametrize(
    ("code", "numbers", "expected"),
    [
        (Code.ADD, (7, -2), 5),
        (Code.SUB, (7, -2), 9),
        (Code.MUL, (2**62, 4), 2**64),
        (Code.FLOOR_DIVIDE, (-7, 2), -4),
        (Code.FLOOR_DIVIDE, (7, 0), 0),
        (Code.REMAINDER, (-7, 3), 2),
        (Code.REMAINDER, (7, 0), 0),
        (Code.MIN, (3, -3), -3),
        (Code.MAX, (3, -3), 3),
        (Code.EQUAL, (3, 3), True),
        (Code.LESS, (3, 3), False),
        (Code.CHOOSE, (1, 5, 6), 5),
        (Code.CHOOSE, (0, 5, 6), 6),
        (Code.TRUE_DIVIDE, (7, 2), 3.5),
        (Code.TRUE_DIVIDE, (7, 0), math.inf),
        (Code.TRUNCATE, (-2.7,), -2),
        (Code.FLOOR, (-2.5,), -3.0),
        (Code.CEIL, (-2.5,), -2.0),
        (Code.ROUND, (2.5,), 2.0),
        (Code.SINGLE, (0.1,), 0.10000000149011612),
        (Code.SQRT, (9,), 3.0),
    ],
)
def test_instructions(code: Code, numbers: tuple[float, ...], expected: float) -> None:
    """Each instruction computes what its documentation says, on numbers of any size."""
    program = ConstraintProgram(len(numbers), (), (Instruction(code, tuple(range(len(numbers)))),))
    assert program.run(numbers)[-1] == expected


def test_only_what_is_needed_is_computed() -> None:
    """Instructions that no result needs are left out of the program."""
    recorder = ProgramRecorder()
    a, b = recorder.input(), recorder.input()
    unused: Amount = a * b
    wanted: Amount = a + b
    assert isinstance(unused, Size)
    program, (register,) = recorder.program([wanted])
    assert len(program.code) == 1
    assert program.run([3, 4])[register] == 7


def test_equal_expressions_are_one_instruction() -> None:
    """The same operation on the same operands is computed once."""
    recorder = ProgramRecorder()
    a, b = recorder.input(), recorder.input()
    assert a + b is a + b
    program, registers = recorder.program([a + b, a + b])
    assert len(program.code) == 1
    assert registers[0] == registers[1]


def test_inputs_may_follow_instructions() -> None:
    """An input that is made after an instruction still has a register of its own."""
    recorder = ProgramRecorder()
    a = recorder.input()
    doubled = a * 2
    b = recorder.input()
    program, (register,) = recorder.program([doubled + b])
    assert program.run([5, 1])[register] == 11


def test_known_results_are_constants() -> None:
    """A result that is a number takes no instruction."""
    program, (register,) = ProgramRecorder().program([42])
    assert program.code == ()
    assert program.run([])[register] == 42
