"""Frames: pooled, cleared, closed; instances of regions live and die with them."""

from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive, floats
from ort_py.contracts import KernelDef
from ort_py.execution.frame import FramePool
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider, fake_kernels

TEXT = """
g (float[4] x, bool c) => (float[4] y) <float[4] w = {1, 2, 3, 4}> {
  a = Add(x, w)
  y = If (c) <then_branch = t () => (float[4] r) { r = Neg(a) }, else_branch = e () => (float[4] s) { s = Abs(x) }>
}
"""


class Feed(np.ndarray):
    """An array that can be watched dying."""


def feed() -> np.ndarray:
    """A feed with a weak reference to be taken."""
    watched: np.ndarray[Any, Any] = floats(4).view(Feed)
    return watched


@pytest.mark.parametrize("condition", [True, False])
def test_a_pooled_frame_keeps_no_feed_and_no_result(condition: bool) -> None:
    """After a run the pool's frame holds neither what came in nor what went out, in bodies neither."""
    driven = drive(TEXT)
    x = feed()
    (y,) = driven.run({"x": x, "c": np.array(condition)})
    gone = [weakref.ref(x), weakref.ref(y)]
    gc.disable()
    try:
        del x, y
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()


def test_a_body_keeps_no_result_of_its_iterations() -> None:
    """Only the caller holds the loop's last values after the run."""
    text = """
    g (float[4] x, int64 n) => (float[4] y) <bool go = {1}> {
      y0 = Loop (n, go, x) <body = b (int64 i, bool c, float[4] v) => (bool c2, float[4] w) {
        c2 = Identity(c) w = Neg(v)
      }>
      y = Abs(y0)
    }
    """
    made: list[weakref.ref[np.ndarray]] = []

    def neg(x: np.ndarray) -> np.ndarray:
        result: np.ndarray[Any, Any] = np.negative(x).view(Feed)
        made.append(weakref.ref(result))
        return result

    others = [kernel for kernel in fake_kernels() if kernel.op_type != "Neg"]
    driven = drive(text, HostProvider([KernelDef("Neg", lambda _ctx: neg, since=1, until=99), *others]))
    driven.run({"x": floats(4), "n": np.array(3)})
    assert [one() is None for one in made] == [True, True, True]


def test_a_failed_run_keeps_nothing_either() -> None:
    """The frame of a failed run is closed: its slots are gone with the exception."""
    driven = drive("g (float[n] x, float[m] z) => (float[k] y) { a = Neg(x) y = Add(a, z) }")
    x = feed()
    gone = weakref.ref(x)
    with pytest.raises(Exception, match="broadcast"):
        driven.run({"x": x, "z": floats(3)})
    del x
    gc.collect()
    assert gone() is None


def test_a_frame_is_used_again() -> None:
    """The second run takes the first one's frame; two at once make two."""
    driven = drive(TEXT)
    first = driven.pool.take()
    second = driven.pool.take()
    assert first is not second
    driven.pool.give_back(first)
    assert driven.pool.take() is first


def test_a_pool_is_bounded() -> None:
    """Frames beyond its size are closed when they come back."""
    driven = drive(TEXT)
    pool = FramePool(driven.program, size=1)
    frames = [pool.take(), pool.take()]
    for frame in frames:
        pool.give_back(frame)
    assert frames[0].slots
    assert not frames[1].slots


def test_a_closed_pool_closes_what_comes_back() -> None:
    """Idle frames go at once, borrowed ones when they return."""
    pool = drive(TEXT).pool
    idle, borrowed = pool.take(), pool.take()
    pool.give_back(idle)
    pool.close()
    assert not idle.slots
    assert borrowed.slots
    pool.give_back(borrowed)
    assert not borrowed.slots


def test_one_instance_a_frame() -> None:
    """A region is instantiated once for each frame and used again with it; closing the pool closes them."""
    provider = FakeProvider(behaviour=FakeBehaviour(compiles=True))
    driven = drive("g (float[4] x) => (float[4] y) { a = Neg(x) y = Abs(a) }", provider)
    (region,) = provider.regions
    for _ in range(3):
        driven.run({"x": floats(4)})
    assert len(region.instances) == 1
    borrowed = driven.pool.take()
    driven.run({"x": floats(4)})
    driven.pool.give_back(borrowed)
    driven.pool.close()
    assert len(region.instances) == 2
    assert all(instance.closed for instance in region.instances)


def test_a_failed_run_closes_its_instances() -> None:
    """A frame whose run failed is not used again, and its native state goes with it."""
    provider = FakeProvider(behaviour=FakeBehaviour(compiles=True, operators={"Neg"}))
    driven = drive("g (float[n] x, float[m] z) => (float[k] y) { a = Neg(x) y = Add(a, z) }", provider, HostProvider())
    with pytest.raises(Exception, match="broadcast"):
        driven.run({"x": floats(4), "z": floats(3)})
    assert [instance.closed for instance in provider.regions[0].instances] == [True]


def test_a_close_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One instance that cannot close keeps no other from closing."""
    provider = FakeProvider(behaviour=FakeBehaviour(compiles=True, operators={"Neg", "Abs"}))
    driven = drive("g (float[4] x) => (float[4] y) { a = Neg(x) b = Relu(a) y = Abs(b) }", provider, HostProvider())
    driven.run({"x": floats(4)})
    first, second = (region.instances[0] for region in provider.regions)

    def broken() -> None:
        raise RuntimeError("stuck")

    first.close = broken  # type: ignore[method-assign]  # what is tested
    with caplog.at_level(logging.ERROR, "ort_py.execution"):
        driven.pool.close()
    assert "closing a region instance failed" in caplog.text
    assert second.closed


def test_bodies_have_frames_of_their_own_with_the_parents_streams() -> None:
    """A body's frame is made on first use, kept, and shares streams and context."""
    provider = FakeProvider(behaviour=FakeBehaviour(operators={"Neg"}))
    driven = drive(TEXT, provider, HostProvider())
    driven.run({"x": floats(4), "c": np.array(True)})
    frame = driven.pool.take()
    children = [slot for slot in frame.slots[1:] if isinstance(slot, type(frame))]
    (child,) = children
    assert child.streams is frame.streams
    assert child.context is frame.context
    frame.close()
    assert not child.slots


def test_floating_point_warnings_are_off_in_a_run() -> None:
    """ONNX has no such warnings; the caller's own settings stay as they are."""
    settings = np.geterr()
    (y,) = drive("g (float[1] x) => (float[1] y) { y = Div(x, x) }").run({"x": np.zeros(1, np.float32)})
    assert np.isnan(y).all()
    assert np.geterr() == settings


def test_a_forked_child_forgets_what_other_threads_had() -> None:
    """Idle frames and those of the forking thread stay; frames of missing threads are not awaited."""
    pool = FramePool(drive("g (float[4] x) => (float[4] y) { y = Abs(x) }").program)
    idle, mine, theirs = pool.take(), pool.take(), pool.take()
    pool.give_back(idle)
    theirs.thread = -1
    pool.after_fork()
    assert pool._made == {idle, mine}
