"""From a region to a program: steps over numbered values, and which of these are arrays of the caller.

Knows no C. Comes before `region`, which runs it; `native.c` has the same numbers of operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from ort_py.contracts import Array, RegionView

__all__ = ["OPERATIONS", "Operation", "Program", "program_of"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator in C.

    Attributes:
        number: Its number in ``native.c``.
        since: First schema version that means this.
        last: Last one.
    """

    number: int
    since: int
    last: int


OPERATIONS = {
    "Add": Operation(0, 7, 14),
    "Sub": Operation(1, 7, 14),
    "Mul": Operation(2, 7, 14),
    "Div": Operation(3, 7, 14),
    "Relu": Operation(4, 6, 14),
    "Neg": Operation(5, 6, 13),
    "Abs": Operation(6, 6, 13),
    "Sqrt": Operation(7, 6, 13),
}


@dataclass(frozen=True, slots=True)
class Program:
    """The computation of a region.

    Attributes:
        steps: (operation, first, second, result): values by number; operators of one input have it twice.
        values: How many values there are.
        inputs: Values that the caller gives, in order.
        outputs: Values that the caller gets, in order.
        arrays: Constants of the shape that everything has.
        numbers: Constants that are one number.
    """

    steps: tuple[tuple[int, int, int, int], ...]
    values: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    arrays: tuple[tuple[int, Array], ...]
    numbers: tuple[tuple[int, float], ...]


def program_of(region: RegionView) -> Program:
    """The program of a region whose nodes were not refused."""
    places: dict[str, int] = {}
    for value in (*region.inputs, *region.initializers):
        places[value.name] = len(places)
    arrays, numbers = [], []
    for value in region.initializers:
        constant = region.constant(value.name)
        assert constant is not None
        if constant.size == 1:
            numbers.append((places[value.name], float(constant.reshape(()))))
        else:
            arrays.append((places[value.name], constant))
    steps = []
    for node in region.nodes:
        given = [places[value.name] for value in node.inputs if value is not None]
        (result,) = node.outputs
        assert result is not None
        places[result.name] = len(places)
        steps.append((OPERATIONS[node.op_type].number, given[0], given[-1], places[result.name]))
    return Program(
        tuple(steps),
        len(places),
        tuple(places[value.name] for value in region.inputs),
        tuple(places[value.name] for value in region.outputs),
        tuple(arrays),
        tuple(numbers),
    )
