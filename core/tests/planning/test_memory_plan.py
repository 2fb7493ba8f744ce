"""Places: what is alive at once lies apart, what is written over its input lies on it, what must stay out stays out."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.driving import Driven, HostProvider, drive
from ort_py.devices import HOST
from ort_py.planning import memory_plan
from ort_py.planning.memory_plan import ALIGNMENT, MemoryPlan, plan_memory
from ort_py.planning.reuse import reusing_steps
from ort_py.planning.seen_value import SeenValue
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider

SIZE = 40_000
"""Bytes of a value: planning them pays, and they are not a multiple of the alignment."""


def seen_as(shape: tuple[int, ...] = (SIZE // 4,), *, plain: bool = True) -> SeenValue:
    """A float32 value of a record."""
    return SeenValue(shape, np.dtype(np.float32), int(np.prod(shape)) * 4, plain)


def planned(
    text: str, other: Mapping[str, SeenValue | None] | None = None, unsteady: Collection[int] = ()
) -> tuple[MemoryPlan | None, dict[str, int]]:
    """The plan of a model whose values are all alike but those named, and the slot of each step's first output."""
    driven = drive(text)
    slots = slots_of(driven)
    seen = {slot: value for name, slot in slots.items() if (value := (other or {}).get(name, seen_as())) is not None}
    steady = [value.slot for value in driven.plan.inputs]
    return plan_memory(driven.plan, reusing_steps(driven.plan), seen, steady, unsteady), slots


def slots_of(driven: Driven) -> dict[str, int]:
    """The slot of each node's first output, by name."""
    return {step.location.node: step.outputs[0] for step in driven.plan.steps}


CHAIN = "g (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(a) c = Exp(b) y = Tanh(c) }"


def test_a_chain_is_one_block() -> None:
    """Each step overwrites its input, which has no other reader: one value's bytes serve all."""
    plan, slots = planned(CHAIN)
    assert plan is not None
    assert [(value.slot, value.offset, value.over) for value in plan.values] == [
        (slots["a"], 0, None),
        (slots["b"], 0, slots["a"]),
        (slots["c"], 0, slots["b"]),
    ]
    assert plan.sizes == {HOST: SIZE}


def test_sizes_are_aligned() -> None:
    """Every value begins at a multiple of the alignment, whatever the size of those before."""
    text = "g (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(x) c = Exp(x) d = Add(a, b) y = Add(c, d) }"
    plan, _ = planned(text, dict.fromkeys("abc", seen_as((10_001,))))
    assert plan is not None
    assert [value.offset % ALIGNMENT for value in plan.values] == [0] * 4
    assert plan.sizes[HOST] % ALIGNMENT == 0


def test_results_have_no_place() -> None:
    """Kernels allocate the caller's results, and the values that a result may be a view of."""
    text = "g (float[2,n] x) => (float[n,2] y, float[2,n] z) { a = Neg(x) z = Abs(a) b = Exp(x) y = Transpose(b) }"
    plan, slots = planned(text)
    assert plan is not None
    assert [value.slot for value in plan.values] == [slots["a"]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = Neg(x) b = Abs(a) c = Add(a, b) y = Exp(c)", "a later step reads it"),
        ("a = Neg(x) v = Transpose(a) b = Abs(a) c = Add(b, v) y = Exp(c)", "a later step reads a view of it"),
        ("a = Neg(x) b = Add(a, a) y = Exp(b)", "the step reads it twice"),
        ("a = Neg(x) v = Transpose(a) b = Abs(v) y = Exp(b)", "a view may have another order"),
        ("b = Abs(x) y = Exp(b)", "it is a feed"),
        ("b = Abs(w) y = Exp(b)", "it is a constant"),
        ("a = Neg(x) b = Equal(a, w) y = Cast<to = 1>(b)", "the kernel does not offer it"),
        ("a = Neg(x) b = Abs(a) y = Exp(b)", "the shapes differ"),
    ],
)
def test_an_input_is_written_over_only_where_nobody_misses_it(text: str, why: str) -> None:
    model = f"g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {{1, 2, 3, 4}}> {{ {text} }}"
    plan, slots = planned(model, {"b": seen_as((SIZE,))} if why == "the shapes differ" else None)
    assert plan is not None
    assert {value.slot: value.over for value in plan.values}[slots["b"]] is None


def test_what_is_contiguous_already_is_read_to_the_end() -> None:
    """Making a view contiguous may do nothing: its readers read the value it is a view of."""
    text = """
    g (float[n,n] x) => (float[n,n] y) {
      a = Neg(x) v = Transpose<perm = [0, 1]>(a) m = MatMul(v, x) b = Abs(m) c = MatMul(v, b) y = Exp(c)
    }
    """
    plan, slots = planned(text)
    assert plan is not None
    a, b = (next(value for value in plan.values if value.slot == slots[name]) for name in "ab")
    assert b.offset >= a.offset + a.seen.nbytes


def test_what_another_device_reads_is_left_alone() -> None:
    """A copy to a device may be done after the call that asked for it: what the host reads then is not written over."""
    text = "g (float[n] x) => (float[n] y) { a = Neg(x) b = Exp(a) c = Abs(a) y = Add(b, c) }"
    device = FakeProvider(behaviour=FakeBehaviour(operators={"Exp", "Add"}))
    driven = drive(text, device, HostProvider())
    on_host = [one.step.location.node for one in reusing_steps(driven.plan) if one.step.device == HOST]
    assert "a" not in on_host
    assert "Neg 'a' on HostExecutionProvider" in str(driven.plan)


def test_one_pair_of_a_step_is_used() -> None:
    """Where both inputs die, the result lies on the first; the other keeps its place until the step is done."""
    plan, slots = planned("g (float[n] x) => (float[n] y) { a = Neg(x) b = Abs(x) c = Add(a, b) y = Exp(c) }")
    assert plan is not None
    a, b, c = (next(value for value in plan.values if value.slot == slots[name]) for name in "abc")
    assert c.over == a.slot
    assert c.offset == a.offset != b.offset


def test_control_flow_may_return_what_it_was_given() -> None:
    """A capture of an If has no place if the If's result is the caller's."""
    text = """
    g (float[n] x, bool c) => (float[n] y) {
      a = Neg(x)
      b = Exp(x)
      d = Abs(b)
      k = Add(d, x)
      y = If (c) <then_branch = t () => (float[n] a) {}, else_branch = e () => (float[n] s) { s = Abs(k) }>
    }
    """
    plan, slots = planned(text)
    assert plan is not None
    assert {value.slot for value in plan.values} == {slots["b"], slots["d"]}


def test_what_lies_behind_an_unsteady_step_stays_out() -> None:
    """A step that was seen to make other shapes from the same ones takes all behind it along."""
    text = "g (float[n] x) => (float[n] y) { a = Neg(x) b = Relu(a) c = Exp(b) d = Abs(x) e = Abs(d) y = Add(c, e) }"
    plan, slots = planned(text, unsteady=(1,))
    assert plan is not None
    assert {value.slot for value in plan.values} == {slots["a"], slots["d"], slots["e"]}
    assert not plan.checks


def test_what_others_make_is_looked_at() -> None:
    """Where a planned step reads what a kernel made itself, the shape is checked; what such kernels read is not."""
    text = "g (float[n] x) => (float[n] y) { a = Relu(x) b = Neg(a) c = Abs(b) d = Relu(c) y = Relu(d) }"
    plan, slots = planned(text)
    assert plan is not None
    assert plan.checks == {0: ((slots["a"], (SIZE // 4,)),)}


@pytest.mark.parametrize("value", [None, seen_as(plain=False)], ids=["no array", "strided"])
def test_what_has_no_plain_form_stays_out(value: SeenValue | None) -> None:
    """Sequences, and arrays whose elements lie in another order: they are made as in the first run."""
    plan, slots = planned(CHAIN, {"b": value})
    assert plan is not None
    assert {one.slot for one in plan.values} == {slots["a"], slots["c"]}


def test_a_few_bytes_are_not_worth_it() -> None:
    """A handful of tiny values costs more to plan than to make."""
    tiny = seen_as((4,))
    plan, _ = planned(CHAIN, dict.fromkeys("abcy", tiny))
    assert plan is None
    nodes = " ".join(f"v{number + 1} = Neg(v{number})" for number in range(16))
    plan, _ = planned(
        f"g (float[n] v0) => (float[n] y) {{ {nodes} y = Neg(v16) }}",
        {f"v{number}": tiny for number in range(17)} | {"y": tiny},
    )
    assert plan is not None


def test_of_too_many_values_the_largest_have_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plan, "_MOST_VALUES", 2)
    plan, slots = planned(CHAIN, {"b": seen_as((100,))})
    assert plan is not None
    assert [value.slot for value in plan.values] == [slots["a"], slots["c"]]


def test_a_plan_says_what_may_be_reused() -> None:
    """The printed plan names steps that may write into kept memory, and over what."""
    text = str(drive(CHAIN).plan)
    assert "Neg 'a' on HostExecutionProvider: (%2) -> (%3)  release (%2)  may reuse memory\n" in text
    assert "Abs 'b' on HostExecutionProvider: (%3) -> (%4)  release (%3)  may write over %3\n" in text
    assert "Tanh 'y' on HostExecutionProvider: (%5) -> (%6)  release (%5)\n" in text


@st.composite
def tangles(draw: st.DrawFn) -> tuple[str, dict[str, SeenValue]]:
    """A graph of element-wise steps and views, and sizes without a valid arithmetic: only lifetimes matter here."""
    names, nodes, sizes = ["x"], [], {}
    for number in range(draw(st.integers(2, 40))):
        one, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        kind = draw(st.sampled_from(("Neg({0})", "Abs({0})", "Add({0}, {1})", "Mul({0}, {1})", "Transpose({0})")))
        nodes.append(f"v{number} = {kind.format(one, other)}")
        names.append(f"v{number}")
        sizes[f"v{number}"] = seen_as((draw(st.sampled_from((5_000, 5_000, 5_001, 20_000))),))
    return f"g (float[n,n] x) => (float[n,n] {names[-1]}) {{ {' '.join(nodes)} }}", sizes


@given(tangles())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_two_live_values_never_share_bytes(tangle: tuple[str, dict[str, SeenValue]]) -> None:
    """Only both ends of an in-place step overlap, and they coincide exactly."""
    plan, _ = planned(*tangle)
    for left, right in itertools.combinations(() if plan is None else plan.values, 2):
        apart = left.offset + left.seen.nbytes <= right.offset or right.offset + right.seen.nbytes <= left.offset
        if apart or left.last < right.first:
            continue
        assert right.over == left.slot
        assert (right.first, right.offset, right.seen) == (left.last, left.offset, left.seen)
    for value in () if plan is None else plan.values:
        assert plan is not None
        assert value.offset + value.seen.nbytes <= plan.sizes[value.device]
