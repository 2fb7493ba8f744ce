"""Cancellation, the time limit and the memory limit, between steps and inside bodies."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive, floats
from ort_py.contracts import KernelDef
from ort_py.errors import Fail, LimitError
from ort_py.execution.watch import RunWatch
from ort_py.limits import checking_time
from ort_py.platform.processors import products_per_second
from ort_py.profiling.recorder import Recorder
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider, fake_kernels

CHAIN = "g (float[1000] x) => (float[1000] y) { a = Neg(x) b = Abs(a) y = Neg(b) }"
ENDLESS = """
g (float[2] x) => (float[2] y) <bool go = {1}> {
  y = Loop ( , go, x) <body = b (int64 i, bool c, float[2] v) => (bool c, float[2] v) {}>
}
"""
COLLECTING = """
g (int64 n, float[1000] x) => (float[1000] y, float[k,1000] s) <bool go = {1}> {
  y, s = Loop (n, go, x) <body = b (int64 i, bool c, float[1000] v) => (bool c2, float[1000] w, float[1000] t) {
    c2 = Identity(c) w = Neg(v) t = Abs(v)
  }>
}
"""


def hooked(operator: str, before: Callable[[], None]) -> HostProvider:
    """A host provider that calls `before` in each kernel of one operator."""

    def factory_of(definition: KernelDef) -> Callable[[Any], Any]:
        def factory(ctx: Any) -> Any:
            call = definition.factory(ctx)

            def watched(*inputs: Any) -> Any:
                before()
                return call(*inputs)

            return watched

        return factory

    return HostProvider(
        [
            definition.replace(factory=factory_of(definition)) if definition.op_type == operator else definition
            for definition in fake_kernels()
        ]
    )


def sequence_kernels() -> list[KernelDef]:
    """SequenceEmpty and SequenceInsert at the end."""
    return [
        KernelDef("SequenceEmpty", lambda _ctx: list, since=11),
        KernelDef("SequenceInsert", lambda _ctx: lambda items, item: [*items, item], since=11),
    ]


def test_nothing_to_watch_is_idle() -> None:
    """A watch without any limit need not be set."""
    assert RunWatch().idle
    for watch in (
        RunWatch(terminate=bool),
        RunWatch(seconds=1),
        RunWatch(memory_bytes=1),
        RunWatch(recorder=Recorder()),
    ):
        assert not watch.idle


def test_terminate_stops_before_the_next_step() -> None:
    """The step at which a run was stopped is in the error; the steps after it did not run."""
    stop: list[bool] = []
    driven = drive(CHAIN, hooked("Abs", lambda: stop.append(True)))
    with pytest.raises(Fail, match="terminate is set") as caught:
        driven.run({"x": floats(1000)}, RunWatch(terminate=lambda: bool(stop)))
    assert caught.value.location.node == "y"
    assert stop == [True]


def test_another_thread_can_stop_an_endless_loop() -> None:
    """Even a body without a single step is stopped."""
    begun = time.monotonic()
    with pytest.raises(Fail, match="terminate"):
        drive(ENDLESS).run({"x": floats(2)}, RunWatch(terminate=lambda: time.monotonic() - begun > 0.05))


def test_a_time_limit_ends_an_endless_loop() -> None:
    """`run_seconds` is looked at before each iteration; the error names the limit and the loop."""
    with pytest.raises(LimitError, match=r"longer than 0\.05 s") as caught:
        drive(ENDLESS).run({"x": floats(2)}, RunWatch(seconds=0.05))
    assert "Limits.run_seconds" in str(caught.value)
    assert caught.value.location.op_type == "Loop"


def test_a_time_limit_is_looked_at_between_steps() -> None:
    """The step that was too late does not run."""
    driven = drive(CHAIN, hooked("Neg", lambda: time.sleep(0.06)))
    with pytest.raises(LimitError) as caught:
        driven.run({"x": floats(1000)}, RunWatch(seconds=0.05))
    assert caught.value.location.op_type == "Abs"


def test_the_memory_of_a_run_is_limited() -> None:
    """Memory that is alive after a step counts: here a result of 4000 bytes and a feed that is read once more."""
    driven = drive("g (float[1000] x) => (float[1000] y) { a = Neg(x) y = Add(a, x) }")
    driven.run({"x": floats(1000)}, RunWatch(memory_bytes=8000))
    with pytest.raises(LimitError, match="The run holds 8000 bytes") as caught:
        driven.run({"x": floats(1000)}, RunWatch(memory_bytes=7999))
    assert "Limits.total_memory_bytes is 7999" in str(caught.value)
    assert caught.value.location.node == "a"


def test_views_take_no_memory() -> None:
    """A transposed view counts as what it looks at."""
    driven = drive("g (float[10,100] x) => (float[100,10] y) { y = Transpose(x) }")
    driven.run({"x": floats(10, 100)}, RunWatch(memory_bytes=4000))


def test_collected_scan_outputs_count() -> None:
    """Values that a loop gathers for stacking are memory too, though they are in no slot."""
    feeds = {"n": np.array(50), "x": floats(1000)}
    driven = drive(COLLECTING)
    driven.run(feeds, RunWatch(memory_bytes=600_000))
    with pytest.raises(LimitError) as caught:
        driven.run(feeds, RunWatch(memory_bytes=100_000))
    assert "b" not in caught.value.location.path


def test_what_the_surrounding_graph_holds_counts_inside_a_body() -> None:
    """An outer array that the body does not read stays alive, and is counted."""
    text = """
    g (bool c, float[1000] x) => (float[1000] y) {
      big = Concat<axis = 0>(x, x, x, x)
      y0 = If (c) <
        then_branch = t () => (float[1000] r) { r = Neg(x) },
        else_branch = e () => (float[1000] s) { s = Abs(x) }
      >
      z = ReduceSum<keepdims = 0>(big)
      y = Add(y0, z)
    }
    """
    feeds = {"c": np.array(True), "x": floats(1000)}
    drive(text).run(feeds, RunWatch(memory_bytes=24_100))
    with pytest.raises(LimitError) as caught:
        drive(text).run(feeds, RunWatch(memory_bytes=23_900))
    assert caught.value.location.op_type == "Neg"


def test_a_watch_changes_no_result() -> None:
    """A watched run on a device gives what an unwatched one gives."""
    driven = drive(COLLECTING, FakeProvider(behaviour=FakeBehaviour(operators={"Neg"})), HostProvider())
    feeds = {"n": np.array(3), "x": floats(1000)}
    watch = RunWatch(terminate=lambda: False, seconds=60, memory_bytes=10**9, recorder=Recorder())
    for got, want in zip(driven.run(feeds, watch), driven.run(feeds), strict=True):
        np.testing.assert_array_equal(got, want)


GROWING = """
g (int64 n, float[10] x) => (seq(float[10]) y) <bool go = {1}> {
  s = SequenceEmpty<dtype = 1>()
  y = Loop (n, go, s) <body = b (int64 i, bool c, seq(float[10]) v) => (bool c2, seq(float[10]) w) {
    c2 = Identity(c) a = Neg(x) d = Abs(a) w = SequenceInsert(v, d)
  }>
}
"""


def test_a_growing_sequence_is_not_looked_at_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is alive is looked at when the first results come, and then not before the limit may be reached."""
    looks: list[int] = []
    usual = RunWatch._alive

    def counted(self: RunWatch, slots: Any) -> int:
        looks.append(1)
        return usual(self, slots)

    monkeypatch.setattr(RunWatch, "_alive", counted)
    array_kernels = HostProvider([*fake_kernels(), *sequence_kernels()])
    driven = drive(GROWING, array_kernels)
    driven.run({"n": np.array(100), "x": floats(10)}, RunWatch(memory_bytes=1 << 30))
    assert len(looks) <= 4  # of the graph and of the body, once each, and where a loop holds what it collects
    with pytest.raises(LimitError, match="The run holds"):
        driven.run({"n": np.array(100), "x": floats(10)}, RunWatch(memory_bytes=3000))


def test_counting_a_long_sequence_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of tensors take seconds to count."""
    monkeypatch.setattr("ort_py.execution.watch._STRETCH", 4)

    def over(ahead: float = 0.0) -> None:
        raise LimitError("over")

    watch = RunWatch(memory_bytes=1 << 30)
    assert watch._alive([[floats(1) for _ in range(100)]]) == 400
    with checking_time(over), pytest.raises(LimitError, match="over"):
        watch._alive([[floats(1) for _ in range(100)]])


def test_strings_count_with_what_they_say() -> None:
    """A string is counted once, however many arrays point to it."""
    chain = "a = StringNormalizer(x) b = StringNormalizer(a) y = StringNormalizer(b)"
    copying = HostProvider([KernelDef("StringNormalizer", lambda _ctx: np.copy, since=10)])
    driven = drive(f"g (string[2] x) => (string[2] y) {{ {chain} }}", copying)
    feeds = {"x": np.array(["a" * 1000, "b" * 1000], object)}
    driven.run(feeds, RunWatch(memory_bytes=2400))
    with pytest.raises(LimitError, match="The run holds"):
        driven.run(feeds, RunWatch(memory_bytes=2000))


def test_a_product_that_cannot_end_is_not_begun() -> None:
    """Its multiplications are counted first: the kernel is not called where they do not fit into the time."""
    called: list[int] = []

    def multiply(a: Any, b: Any) -> Any:
        called.append(1)
        return a[:, :1] + b[:1]

    kernel = KernelDef("MatMul", lambda _ctx: multiply, since=13)
    driven = drive("g (float[n,k] a, float[k,m] b) => (float[n,m] y) { y = MatMul(a, b) }", HostProvider([kernel]))
    large = np.broadcast_to(np.float32(0), (100_000, 100_000))
    with pytest.raises(LimitError, match=r"1e\+15 multiplications are more than fit into 5 s"):
        driven.run({"a": large, "b": large}, RunWatch(seconds=5))
    assert not called
    small = np.zeros((2, 2), np.float32)
    driven.run({"a": small, "b": small}, RunWatch(seconds=5))
    assert called


@pytest.mark.parametrize("operator", ["MatMul", "MatMulInteger"])
def test_products_of_float16_have_a_bound_of_their_own(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors multiply other narrow numbers faster."""
    monkeypatch.setattr("ort_py.platform.processors.processor_facts", lambda: {"flags": "avx512f avx512_vnni amx_int8"})
    products_per_second.cache_clear()
    halves = operator == "MatMul"
    dtype, kind, made = (np.float16, "float16", "float16") if halves else (np.int8, "int8", "int32")
    kernel = KernelDef(operator, lambda _ctx: lambda a, b: (a[:, :1] + b[:1]).astype(made), since=13 if halves else 10)
    text = f"g ({kind}[n,k] a, {kind}[k,m] b) => ({made}[n,m] y) {{ y = {operator}(a, b) }}"
    driven = drive(text, HostProvider([kernel]))
    side = np.broadcast_to(dtype(0), (7000, 7000))
    try:
        with pytest.raises(LimitError, match=r"3\.43e\+11 multiplications") if halves else nullcontext():
            driven.run({"a": side, "b": side}, RunWatch(seconds=1))
    finally:
        products_per_second.cache_clear()


def test_a_kernel_looks_between_its_parts() -> None:
    """Rows are split into parts where somebody looks at the clock, and a kernel may ask by itself."""
    stopped = iter([False] * 4 + [True] * 100)
    parts: list[int] = []

    def factory(ctx: Any) -> Callable[[Any], Any]:
        def neg(x: Any) -> Any:
            ctx.check_time()
            ctx.parallel_for(len(x), 1, lambda start, _stop: parts.append(start))
            return -x

        return neg

    driven = drive("g (float[n] x) => (float[n] y) { y = Neg(x) }", HostProvider([KernelDef("Neg", factory, since=13)]))
    with pytest.raises(Fail, match="stopped"):
        driven.run({"x": floats(64)}, RunWatch(terminate=lambda: next(stopped)))
    assert 0 < len(parts) < 4
    driven.run({"x": floats(64)})
    assert len(parts) < 8  # without a watch, all rows are one part
