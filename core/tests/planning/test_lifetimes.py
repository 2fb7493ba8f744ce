"""Lifetimes: everything is released after its last use, nothing before it."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.driving import HostProvider, drive, floats, reference
from ort_py.planning.lifetimes import with_releases
from ort_py.planning.plan import KernelStep, Step
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider


def step(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Step:
    """A step over slots."""
    return KernelStep(inputs=inputs, outputs=outputs, call=max)


def releases(*steps: Step, keep: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Slots that each step releases."""
    return [one.release for one in with_releases(steps, keep)]


def test_the_last_reader_releases() -> None:
    """A slot goes with the last step that reads it."""
    assert releases(step((2,), (3,)), step((2, 3), (4,)), step((4,), (5,)), keep=(5,)) == [(), (2, 3), (4,)]


def test_what_nobody_reads_goes_at_once() -> None:
    """An output without a reader is released by the step that makes it."""
    assert releases(step((2,), (3, 4)), step((3,), (5,)), keep=(2, 5)) == [(4,), (3,)]


def test_a_slot_read_twice_by_one_step_is_released_once() -> None:
    assert releases(step((2, 2), (3,)), keep=(3,)) == [(2,)]


def test_kept_slots_are_never_released() -> None:
    assert releases(step((2,), (3,)), keep=(2, 3)) == [()]


@st.composite
def models(draw: st.DrawFn) -> str:
    """A random model of elementwise, product and view operators over one shape."""
    count = draw(st.integers(1, 15))
    lines: list[str] = []
    for index in range(count):
        names = ["x", "z", "w"] + [f"v{source}" for source in range(index)]
        operator = draw(st.sampled_from(["Relu", "Neg", "Add", "Mul", "MatMul", "Transpose", "Identity", "Concat"]))
        if operator == "Concat":
            left, right = draw(st.sampled_from(names)), draw(st.sampled_from(names))
            lines.append(f"c{index} = Concat<axis = 0>({left}, {right})")
            lines.append(f"a{index}, b{index} = Split<axis = 0, num_outputs = 2>(c{index})")
            lines.append(f"v{index} = Sub(a{index}, b{index})")
            continue
        arity = 2 if operator in ("Add", "Mul", "MatMul") else 1
        read = ", ".join(draw(st.sampled_from(names)) for _ in range(arity))
        lines.append(f"v{index} = {operator}({read})")
    outputs = sorted(draw(st.sets(st.integers(0, count - 1), max_size=3)) | {count - 1})
    declared = ", ".join(f"float[2,2] v{index}" for index in outputs)
    body = "\n".join(lines)
    return f"g (float[2,2] x, float[2,2] z) => ({declared}) <float[2,2] w = {{1, -1, 0.5, 0.25}}> {{\n{body}\n}}"


@settings(deadline=None)
@given(
    models(),
    st.sets(
        st.sampled_from(["Relu", "Neg", "Add", "Mul", "MatMul", "Transpose", "Identity", "Concat", "Split", "Sub"])
    ),
    st.booleans(),
)
def test_nothing_is_released_early_or_late(text: str, operators: set[str], compiles: bool) -> None:
    """On a device that poisons what is dropped, results equal the reference, and afterwards only weights are held."""
    provider = FakeProvider(behaviour=FakeBehaviour(operators=operators, compiles=compiles))
    driven = drive(text, provider, HostProvider())
    held = provider.owner.stats.bytes_in_use
    feeds = {"x": floats(2, 2, seed=1), "z": floats(2, 2, seed=2)}
    wanted = reference(text, feeds)
    for _ in range(2):
        results = driven.run(feeds)
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        arrays = [*results, *feeds.values()]
        assert not any(np.shares_memory(left, right) for left, right in itertools.combinations(arrays, 2))
    assert provider.owner.stats.bytes_in_use == held
    kept = {value.slot for value in driven.plan.outputs} | {0, 1}
    written = {slot for one in driven.plan.steps for slot in one.outputs} | {value.slot for value in driven.plan.inputs}
    released = [slot for one in driven.plan.steps for slot in one.release]
    assert len(released) == len(set(released))
    read = {slot for one in driven.plan.steps for slot in one.inputs}
    made = {slot for one in driven.plan.steps for slot in one.outputs}
    assert set(released) == ((read | made) & written) - kept
