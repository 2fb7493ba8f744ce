"""Narrowed programs: the same answers as the whole program where some numbers are known."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ort_py.constraints import Gate
from ort_py.constraints.gate_program import GateProgram, Input, Predicate
from ort_py.constraints.narrowing import narrowed
from ort_py.constraints.program import Code, ConstraintProgram, Instruction
from ort_py.errors import KernelInputError
from ort_py.graph.view import ModelGraphView
from ort_py_kit.graphs import typed_model

_ARITY = {Code.CHOOSE: 3, **dict.fromkeys((Code.TRUNCATE, Code.FLOOR, Code.CEIL, Code.ROUND, Code.SINGLE), 1)}
_INPUTS = 6


def gate_of(text: str) -> Gate:
    """The gate of a region of all nodes of a model."""
    view = ModelGraphView(typed_model('<ir_version: 10, opset_import: ["" : 21]> ' + text).graph)
    return Gate(view.region(range(len(view.nodes))))


def random_gate(seed: int, length: int = 60) -> GateProgram:
    """A program of random instructions, all of whose registers are outputs; half of its inputs are sizes."""
    random = np.random.default_rng(seed)
    constants = (0, 1, -1, 2, 7)
    codes = [code for code in Code if code not in (Code.SQRT, Code.TRUE_DIVIDE)]
    code = []
    for number in range(length):
        one = codes[int(random.integers(len(codes)))]
        places = random.integers(0, _INPUTS + len(constants) + number, _ARITY.get(one, 2))
        code.append(Instruction(one, tuple(int(place) for place in places)))
    registers = tuple(range(_INPUTS + len(constants) + length))
    sizes = tuple(~number for number in range(_INPUTS // 2))
    return GateProgram(
        ConstraintProgram(_INPUTS, constants, tuple(code)),
        (Input(sizes), Input((_INPUTS // 2,), _INPUTS // 2, _INPUTS // 2)),
        tuple(Predicate(0, register, "{}", (register,)) for register in registers[-20:]),
        (),
        (registers,),
        (),
        (),
        registers[-1],
        (1,),
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    """Whatever is known, all registers hold what they held, and as many conditions fail."""
    gate, random = random_gate(seed), np.random.default_rng(seed)
    numbers = [int(one) for one in [*random.integers(0, 9, 3), *random.integers(-9, 9, 3)]]
    known = {place: numbers[place] for place in range(_INPUTS) if random.integers(3)}
    less = narrowed(gate, known)
    for _ in range(5):
        fresh = [int(one) for one in [*random.integers(0, 9, 3), *random.integers(-9, 9, 3)]]
        numbers = [known.get(place, fresh[place]) for place in range(_INPUTS)]
        whole, part = gate.program.run(numbers), less.program.run(numbers)
        assert less.outputs[0] is not None
        assert [part[register] for register in less.outputs[0]] == whole
        assert less.work is not None
        assert part[less.work] == whole[-1]
        broken = [whole[one.numbers[0]] for one in gate.predicates if not whole[one.condition]]  # type: ignore[index]
        assert [part[one.numbers[0]] for one in less.predicates if not part[one.condition]] == broken  # type: ignore[index]


def test_what_is_known_is_not_computed() -> None:
    """Where all is known, nothing is left."""
    gate = random_gate(1)
    assert not narrowed(gate, dict.fromkeys(range(_INPUTS), 3)).program.code


TEXT = """
g (float[B,P,8] past, float[B,S,8] x, int64[3] s, float[8,8] w) => (float[B,T,8] present, float[B,S,8] y) {
  a=Reshape(x,s) b=MatMul(a,w) c=Reshape(b,s) d=MatMul(c,w) e=Reshape(d,s) present=Concat<axis=1>(past,e) y=Relu(e)
}
"""


def decoder_inputs(past: int, rows: int = 1, shape: tuple[int, ...] = (1, -1, 8)) -> list[Any]:
    """The inputs of one word of a decoder."""
    x, w, kept = (np.zeros(one, np.float32) for one in ((1, rows, 8), (8, 8), (1, past, 8)))
    return [x, np.array(shape, np.int64), w, kept]


def test_a_gate_narrows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only one length grows, later runs compute less; what they are told is what a fresh gate says."""
    from ort_py.constraints import narrowing

    made: list[GateProgram] = []

    def noting(gate: GateProgram, known: Any) -> GateProgram:
        made.append(narrowed(gate, known))
        return made[-1]

    monkeypatch.setattr(narrowing, "narrowed", noting)
    gate = gate_of(TEXT)
    (program,) = gate.record()["programs"]
    runs = [decoder_inputs(past) for past in range(9)] + [decoder_inputs(0, rows) for rows in range(4)]
    runs += [decoder_inputs(7), decoder_inputs(5, 2), decoder_inputs(30)]
    for inputs in runs:
        assert gate.admit(inputs) == gate_of(TEXT).admit(inputs)
    assert 4 * len(made[0].program.code) < len(program["program"][2])
    assert len(made) == 2, "the past grew, then the rows"


def test_a_narrowed_gate_refuses() -> None:
    """What a run would break is refused in the same words, be it among the numbers that stayed or not."""
    gate = gate_of(TEXT)
    for past in range(9):
        gate.admit(decoder_inputs(past))
    for inputs in (decoder_inputs(3, 1, (1, -1, 7)), decoder_inputs(3, 2, (1, 3, 8)), decoder_inputs(3, 1, (1, -2, 8))):
        with pytest.raises(KernelInputError) as expected:
            gate_of(TEXT).admit(inputs)
        with pytest.raises(KernelInputError) as found:
            gate.admit(inputs)
        assert str(found.value) == str(expected.value)


def test_threads_narrow_a_gate_side_by_side() -> None:
    """What one thread notes of its runs is nothing that another one is going through."""
    gate = gate_of(TEXT)
    expected = [gate_of(TEXT).admit(decoder_inputs(past)) for past in range(8)]

    def work(_: int) -> bool:
        return all(gate.admit(decoder_inputs(past)) == expected[past] for _ in range(40) for past in range(8))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
