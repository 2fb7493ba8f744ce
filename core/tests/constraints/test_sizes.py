"""Sizes: arithmetic that is settled at once, and arithmetic that becomes a program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ort_py.constraints.sizes import (
    UNKNOWN,
    Amount,
    Condition,
    ProgramRecorder,
    Size,
    all_of,
    any_of,
    at_least,
    choose,
    divide,
    equal,
    largest,
    less,
    negated,
    product,
    remainder,
    smallest,
)

BINARY: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: b - a,
    divide,
    remainder,
    largest,
    smallest,
    equal,
    less,
    at_least,
    lambda a, b: choose(less(a, b), a, b),
    lambda a, b: all_of(less(a, b), less(0, b)),
    lambda a, b: any_of(less(a, b), less(0, b)),
    lambda a, b: negated(equal(a, b)),
    lambda a, b: product((a, b, 3)),
]


def _value(amount: Amount | Condition, recorder: ProgramRecorder, numbers: list[int]) -> int:
    if isinstance(amount, Size):
        program, (register,) = recorder.program([amount])
        return int(program.run(numbers)[register])
    assert isinstance(amount, bool | int | float)
    return int(amount)


@pytest.mark.parametrize("function", BINARY)
def test_symbolic_and_known_numbers_agree(function: Callable[[Any, Any], Any]) -> None:
    """A function of sizes gives in a program what it gives of the numbers themselves, on either side."""
    for a, b in itertools.product((-3, 0, 1, 2, 7), (1, 2, 5)):
        expected = int(function(a, b))
        for natural in (False, a >= 0):
            recorder = ProgramRecorder()
            x, y = recorder.input(natural=natural), recorder.input(natural=True)
            assert _value(function(x, y), recorder, [a, b]) == expected
            assert _value(function(x, b), recorder, [a, b]) == expected
            assert _value(function(a, y), recorder, [a, b]) == expected


@pytest.mark.parametrize("function", BINARY[:-1])
def test_unknown_numbers_stay_unknown(function: Callable[[Any, Any], Any]) -> None:
    """Results of unknown numbers are unknown too."""
    size = ProgramRecorder().input()
    assert function(UNKNOWN, size) is UNKNOWN
    assert function(size, UNKNOWN) is UNKNOWN


def test_what_holds_for_all_sizes_is_settled() -> None:
    """Comparisons that follow from the expressions alone need no program."""
    size = ProgramRecorder().input(natural=True)
    assert equal(size, size) is True
    assert equal(size + 2, 2 + size) is True
    assert at_least(size, 0) is True
    assert less(size, 0) is False
    assert less(-1, size * 3) is True
    assert size - size == 0
    assert size * 0 == 0
    assert product((size, 0, UNKNOWN)) == 0


def test_division_by_nothing_is_unknown() -> None:
    """A quotient by 0 has no value."""
    size = ProgramRecorder().input()
    assert divide(size, 0) is UNKNOWN
    assert remainder(7, 0) is UNKNOWN


def test_products_do_not_depend_on_the_order() -> None:
    """The number of elements of a transposed shape is the same expression."""
    recorder = ProgramRecorder()
    a, b = recorder.input(natural=True), recorder.input(natural=True)
    assert product((a, 4, b)) is product((b, a, 4))
