"""Sequences and optionals in If, Loop and Scan: carried, captured, copied between devices, never stacked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive, floats
from ort_py.contracts import IExecutionProvider, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider, fake_kernels

KERNELS = [
    KernelDef(
        "SequenceInsert", lambda _ctx: lambda items, x: [*items, x], since=11, strided=True, views=((0, 0), (0, 1))
    ),
    KernelDef("SequenceAt", lambda _ctx: lambda items, at: items[int(at)], since=11, strided=True, views=((0, 0),)),
    KernelDef("SequenceEmpty", lambda _ctx: list, since=11),
    KernelDef("OptionalHasElement", lambda _ctx: lambda value=None: np.array(value is not None), since=15, until=18),
    KernelDef("OptionalGetElement", lambda _ctx: lambda value: value, since=15, until=18, views=((0, 0),)),
    KernelDef("Optional", lambda _ctx: lambda value=None: value, since=15, views=((0, 0),)),
    *(one for one in fake_kernels() if one.op_type != "Identity"),
    KernelDef("Identity", lambda _ctx: lambda value: value, since=1, until=99, strided=True, views=((0, 0),)),
]
LOOP = """
g (int64 n, float[2] x, seq(float[2]) s) => (seq(float[2]) y, float[2] last) <bool go = {1}, int64 end = {-1}> {
  last, y = Loop (n, go, x, s) <body = b (int64 i, bool c, float[2] v, seq(float[2]) t)
    => (bool d, float[2] w, seq(float[2]) u) {
    w = Neg(v)
    a = Abs(w)
    u = SequenceInsert(t, a)
    d = Identity(c)
  }>
}
"""


def providers(kind: str) -> list[IExecutionProvider]:
    """The providers to run on; sequences live on the host, what goes into them may come from a device."""
    host = HostProvider(KERNELS)
    behaviour = {"device": FakeBehaviour(), "some on the device": FakeBehaviour(operators={"Neg"})}.get(kind)
    return [host] if behaviour is None else [FakeProvider(behaviour=behaviour), host]


@pytest.mark.parametrize("kind", ["host", "device", "some on the device"])
@pytest.mark.parametrize("trips", [0, 3])
def test_a_loop_carries_a_sequence(kind: str, trips: int) -> None:
    """It grows by what the body makes, wherever that is; the sequence fed stays what it was."""
    x, s = floats(2), [floats(2, seed=1)]
    driven = drive(LOOP, *providers(kind))
    for _ in range(2):
        y, last = driven.run({"n": np.array(trips), "x": x, "s": s})
        assert len(s) == 1
        assert len(y) == 1 + trips
        np.testing.assert_array_equal(y[0], s[0])
        assert not np.shares_memory(y[0], s[0])
        for item in y[1:]:
            np.testing.assert_array_equal(item, np.abs(x))
        np.testing.assert_array_equal(last, x * (-1) ** trips)


@pytest.mark.parametrize("condition", [True, False])
def test_an_if_returns_a_captured_sequence_or_a_new_one(condition: bool) -> None:
    """One branch hands on the feed, which the caller gets a copy of."""
    text = """
    g (bool c, float[2] x, seq(float[2]) s) => (seq(float[2]) y) {
      y = If (c) <
        then_branch = t () => (seq(float[2]) a) { a = SequenceInsert(s, x) },
        else_branch = e () => (seq(float[2]) f) { f = SequenceEmpty<dtype = 1>() }
      >
    }
    """
    x, s = floats(2), [floats(2, seed=1)]
    (y,) = drive(text, HostProvider(KERNELS)).run({"c": np.array(condition), "x": x, "s": s})
    assert [item.tolist() for item in y] == ([s[0].tolist(), x.tolist()] if condition else [])
    assert not any(np.shares_memory(item, other) for item in y for other in (x, s[0]))


@pytest.mark.parametrize("fed", [None, [np.array([5, 6], np.float32)]])
def test_an_optional_goes_into_a_loop(fed: Any) -> None:
    """Absent or there, a body captures it, asks and unwraps it."""
    text = """
    g (int64 n, optional(seq(float[2])) o, float[2] x) => (float[2] y) <bool go = {1}, int64 zero = {0}> {
      y = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
        h = OptionalHasElement(o)
        w = If (h) <
          then_branch = t () => (float[2] p) { q = OptionalGetElement(o) r = SequenceAt(q, zero) p = Add(v, r) },
          else_branch = e () => (float[2] m) { m = Neg(v) }
        >
        d = Identity(c)
      }>
    }
    """
    x = floats(2)
    (y,) = drive(text, HostProvider(KERNELS)).run({"n": np.array(3), "o": fed, "x": x})
    np.testing.assert_allclose(y, -x if fed is None else x + 3 * fed[0], rtol=1e-6)


@pytest.mark.parametrize("found", ["a sequence", "absent"])
def test_only_tensors_are_stacked(found: str) -> None:
    """A scan output that is a sequence or nothing is refused; the error says what to do instead."""
    item: Any = [] if found == "a sequence" else None
    # Believed, as the project's own kernels are: a plug-in's would be refused for what it returns.
    broken = KernelDef("Abs", lambda _ctx: lambda _x: item, since=6, until=99, implementation="ort_py:believed")
    kernels = [broken, *(one for one in KERNELS if one.op_type != "Abs")]
    text = """
    g (int64 n, float[2] x) => (float[k,2] y) <bool go = {1}> {
      y = Loop (n, go) <body = b (int64 i, bool c) => (bool d, float[2] w) { w = Abs(x) d = Identity(c) }>
    }
    """
    with pytest.raises(InvalidArgument, match=f"Scan output 0 is {found}, not a tensor") as caught:
        drive(text, HostProvider(kernels)).run({"n": np.array(2), "x": floats(2)})
    assert "carry a sequence" in str(caught.value)
