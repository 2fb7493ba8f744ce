"""SequenceMap runs its body once an element: sequences walk together, tensors and captures are as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.driving import HostProvider, drive, floats, model_of
from ort_py.contracts import IExecutionProvider, KernelDef
from ort_py.errors import Fail, InvalidArgument, LimitError
from ort_py.execution.watch import RunWatch
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider, fake_kernels

MAP = """
g (seq(float[N]) p, seq(float[N]) q, float[1] x) => (seq(float[N]) y, seq(float[N]) z) <float[1] w = {2}> {
  o = Abs(x)
  y, z = SequenceMap <body = b (float[N] e, float[N] f, float[1] t) => (float[N] u, float[N] v) {
    m = Mul(e, t)
    s = Add(m, f)
    u = Add(s, o)
    v = Mul(e, w)
  }> (p, q, x)
}
"""
PROVIDERS = ["host", "device", "device regions", "some on the device"]


def providers(kind: str) -> list[IExecutionProvider]:
    """The providers to run on."""
    behaviour = {
        "device": FakeBehaviour(),
        "device regions": FakeBehaviour(compiles=True),
        "some on the device": FakeBehaviour(operators={"Mul"}),
    }.get(kind)
    return [HostProvider()] if behaviour is None else [FakeProvider(behaviour=behaviour), HostProvider()]


def feeds_for(sizes: list[int]) -> dict[str, Any]:
    """Sequences of tensors of these sizes."""
    return {
        "p": [floats(size, seed=index) for index, size in enumerate(sizes)],
        "q": [floats(size, seed=index + 50) for index, size in enumerate(sizes)],
        "x": floats(1, seed=99),
    }


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("sizes", [[3, 1, 2], [0, 2], [4], []])
def test_the_body_runs_once_an_element(kind: str, sizes: list[int]) -> None:
    """Elements of different shapes, two sequences in step, a tensor, a capture and a weight; two outputs."""
    driven = drive(MAP, *providers(kind))
    feeds = feeds_for(sizes)
    for _ in range(2):
        y, z = driven.run(feeds)
        assert len(y) == len(z) == len(sizes)
        for index, (p, q) in enumerate(zip(feeds["p"], feeds["q"], strict=True)):
            x = feeds["x"]
            np.testing.assert_allclose(y[index], p * x + q + np.abs(x), rtol=1e-5, atol=1e-6, strict=True)
            np.testing.assert_allclose(z[index], p * 2, rtol=1e-6, strict=True)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 4), max_size=4))
def test_it_gives_what_onnxruntime_gives(sizes: list[int]) -> None:
    """onnxruntime runs the operator's function body; onnx's reference does not handle a second sequence."""
    session = onnxruntime.InferenceSession(model_of(MAP).SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = feeds_for(sizes)
    for got, want in zip(drive(MAP).run(feeds), session.run(None, feeds), strict=True):
        assert len(got) == len(want)
        for left, right in zip(got, want, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6, strict=True)


def test_elements_may_pass_through_and_are_copied_for_the_caller() -> None:
    """A body that returns its input, or an outer value, gives no memory of a feed away."""
    text = """
    g (seq(float[N]) p, float[1] x) => (seq(float[N]) y, seq(float[1]) z) {
      y, z = SequenceMap <body = b (float[N] e) => (float[N] e, float[1] x) { }> (p)
    }
    """
    text = text.replace("(float[N] e, float[1] x) { }", "(float[N] u, float[1] v) { u = Identity(e) v = Identity(x) }")
    p, x = [floats(2), floats(3)], floats(1)
    y, z = drive(text).run({"p": p, "x": x})
    for found, wanted in zip((*y, *z), (*p, x, x), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert not np.shares_memory(found, wanted)
    assert not np.shares_memory(z[0], z[1])


def test_sequences_of_different_lengths_are_refused() -> None:
    """The error lists the lengths, and which inputs they are of."""
    feeds = feeds_for([1, 2]) | {"q": [floats(1)]}
    with pytest.raises(InvalidArgument, match=r"different lengths: \[2, 1\]") as caught:
        drive(MAP).run(feeds)
    assert "inputs [0, 1] are sequences" in str(caught.value)
    assert caught.value.location.op_type == "SequenceMap"


def test_the_first_input_is_a_sequence() -> None:
    """An absent optional or a tensor cannot be walked."""
    feeds = feeds_for([1]) | {"p": None}
    with pytest.raises(InvalidArgument, match="The first input of SequenceMap is not a sequence"):
        drive(MAP).run(feeds)


def test_a_run_can_be_stopped_and_measured() -> None:
    """Between any two elements the watch is asked; the elements made so far count as memory."""
    asked = iter([False] * 20 + [True] * 1000)
    with pytest.raises(Fail, match="was stopped"):
        drive(MAP).run(feeds_for([1] * 100), RunWatch(terminate=lambda: next(asked)))
    with pytest.raises(LimitError, match="The run holds"):
        drive(MAP).run(feeds_for([100] * 20), RunWatch(memory_bytes=20 * 100 * 4 * 3))


def test_a_provider_may_run_it_whole() -> None:
    """A kernel for the operator comes before the core, and its body is the kernel's own affair."""
    whole = KernelDef("SequenceMap", lambda _ctx: lambda p, q, _x: (q, p), since=17, outputs=2, views=((0, 1), (1, 0)))
    driven = drive(MAP, HostProvider([whole, *fake_kernels()]))
    feeds = feeds_for([2, 1])
    y, z = driven.run(feeds)
    assert [item.tolist() for item in (*y, *z)] == [item.tolist() for item in (*feeds["q"], *feeds["p"])]
    assert driven.runner_of("y") == "HostExecutionProvider"
