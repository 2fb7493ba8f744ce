"""The program of a gate for runs in which most numbers stay what they were.

A decoder is fed one word after another, and only the length of its past grows. What the constraints require of other
sizes, and of the elements of shapes, is computed once. Comes after `gate_program`; a gate asks for it when it sees that
few of the numbers of its runs change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from ort_py.constraints.gate_program import GateProgram, Predicate
from ort_py.constraints.program import FUNCTIONS, Code, ConstraintProgram
from ort_py.constraints.sizes import Amount, ProgramRecorder, Size, choose, divide, equal, largest, less, remainder

_Number: TypeAlias = int | float | Size


def narrowed(gate: GateProgram, known: Mapping[int, int]) -> GateProgram:
    """The program for runs in which some of its inputs are known numbers; its inputs are the same.

    Args:
        known: The numbers, by input.
    """
    recorder = ProgramRecorder()
    amounts = _again(gate, known, recorder)
    # Of the values whose size is known, only the largest and an empty one are ever named.
    counts = [(amounts[count], itemsize) for count, itemsize, _ in gate.values]
    most = max((count * itemsize for count, itemsize in counts if not isinstance(count, Size)), default=0)
    kept = {place for place, (count, itemsize) in enumerate(counts) if isinstance(count, Size) or not count}
    kept |= {place for place, (count, itemsize) in enumerate(counts) if place not in kept and count * itemsize == most}
    values = [one for place, one in enumerate(gate.values) if place in kept]
    predicates = [one for one in gate.predicates if isinstance(held := amounts[one.condition], Size) or not held]
    late = [one for one in gate.late if amounts[one[1]] != 0]

    wanted = [number for one in predicates for number in (one.condition, *one.numbers) if number is not None]
    wanted += [number for _, low, high, _, _ in gate.bounds for number in (low, high)]
    wanted += [number for dims in gate.outputs for number in dims or ()]
    wanted += [count for count, _, _ in values] + [condition for _, condition in late]
    wanted += [] if gate.work is None else [gate.work]
    program, registers = recorder.program([amounts[number] for number in wanted])
    place = dict(zip(wanted, registers, strict=True))
    return replace(
        gate,
        program=program,
        predicates=tuple(
            Predicate(
                one.node,
                place[one.condition],
                one.text,
                tuple(None if number is None else place[number] for number in one.numbers),
            )
            for one in predicates
        ),
        bounds=tuple((border, place[low], place[high], node, text) for border, low, high, node, text in gate.bounds),
        outputs=tuple(None if dims is None else tuple(place[one] for one in dims) for dims in gate.outputs),
        values=tuple((place[count], itemsize, name) for count, itemsize, name in values),
        late=tuple((node, place[condition]) for node, condition in late),
        work=None if gate.work is None else place[gate.work],
    )


def _again(gate: GateProgram, known: Mapping[int, int], recorder: ProgramRecorder) -> list[_Number]:
    """The content of each register, written once more where it depends on what is not known."""
    program: ConstraintProgram = gate.program
    sizes = {~dim for one in gate.inputs for dim in one.dims if dim < 0}
    inputs = [recorder.input(natural=place in sizes) for place in range(program.inputs)]
    amounts: list[_Number] = [known.get(place, one) for place, one in enumerate(inputs)]
    amounts.extend(program.constants)
    truths: set[int] = set()
    for code, operands in program.code:
        given = [amounts[place] for place in operands]
        if any(isinstance(one, Size) for one in given):
            found = _written(code, given, [place in truths for place in operands], recorder)
        else:
            found = FUNCTIONS[code](*given)
        if code in {Code.EQUAL, Code.LESS} or (code in {Code.MIN, Code.MAX} and truths.issuperset(operands)):
            truths.add(len(amounts))
        amounts.append(found)
    return amounts


def _written(code: Code, given: Sequence[_Number], truths: Sequence[bool], recorder: ProgramRecorder) -> _Number:
    """An instruction on numbers of which at least one depends on the run.

    Args:
        truths: For each operand whether it is 0 or 1.
    """
    first, *others = given
    found: Amount
    if code is Code.CHOOSE:
        found = choose(first if isinstance(first, Size) else bool(first), *others)
    elif code in {Code.MIN, Code.MAX} and all(truths) and not all(isinstance(one, Size) for one in given):
        # Whether all hold, or any.
        (open_one,) = (one for one in given if isinstance(one, Size))
        settled = any(one for one in given if not isinstance(one, Size))
        found = open_one if settled is (code is Code.MIN) else settled
    elif code is Code.EQUAL:
        found = equal(first, others[0])
    elif code is Code.LESS:
        found = less(first, others[0])
    elif code is Code.ADD:
        found = first + others[0]
    elif code is Code.SUB:
        found = first - others[0]
    elif code is Code.MUL:
        found = first * others[0]
    elif code is Code.MAX:
        found = largest(first, others[0])
    elif code in {Code.FLOOR_DIVIDE, Code.REMAINDER} and others[0] != 0:
        found = (divide if code is Code.FLOOR_DIVIDE else remainder)(first, others[0])
    elif code in {Code.FLOOR_DIVIDE, Code.REMAINDER}:
        found = 0
    else:
        found = recorder.emit(code, given)
    return cast("_Number", found)
