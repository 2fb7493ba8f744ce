"""Running step by step: what fails is named with its place and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive, floats
from ort_py.contracts import KernelDef
from ort_py.errors import ExecutionError, Fail, InvalidArgument, InvalidGraph, KernelInputError, Location, UsageError
from ort_py.execution.watch import RunWatch
from ort_py.profiling.recorder import Recorder
from ort_py_kit.fake_device import FakeBehaviour, FakeDevice, FakeProvider, fake_kernels

CHAIN = "g (float[4] x) => (float[4] y) { a = Neg(x) b = Abs(a) y = Relu(b) }"
WATCHES: list[Callable[[], RunWatch | None]] = [lambda: None, lambda: RunWatch(recorder=Recorder())]


def failing(error: Exception, operator: str = "Abs") -> HostProvider:
    """A host provider whose kernel of one operator raises."""

    def call(*_inputs: Any) -> Any:
        raise error

    others = [kernel for kernel in fake_kernels() if kernel.op_type != operator]
    return HostProvider([KernelDef(operator, lambda _ctx: call, since=1, until=99), *others])


@pytest.mark.parametrize("watch", WATCHES)
def test_a_kernels_exception_becomes_an_execution_error(watch: Callable[[], RunWatch | None]) -> None:
    """Node, operator, provider, the inputs' types and shapes, and the original exception, watched or not."""
    error = ZeroDivisionError("nought")
    with pytest.raises(ExecutionError) as caught:
        drive(CHAIN, failing(error)).run({"x": floats(4)}, watch())
    text = str(caught.value)
    assert "Abs 'b' failed: ZeroDivisionError: nought" in text
    assert "node 'b', operator Abs, provider HostExecutionProvider" in text
    assert "input 0: float32 (4,)" in text
    assert caught.value.__cause__ is error


def test_the_error_of_a_failing_kernel_names_the_broken_constraint() -> None:
    """Inputs that the operator does not take are refused inputs, whatever the kernel raised."""
    text = "g (float[N] x, float[M] z) => (float[K] y) { y = Add(x, z) }"
    with pytest.raises(
        KernelInputError, match="Add does not take these inputs: sizes 3 and 4 do not broadcast"
    ) as caught:
        drive(text).run({"x": floats(4), "z": floats(3)})
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("watch", WATCHES)
def test_a_refusal_of_a_kernel_gets_its_place(watch: Callable[[], RunWatch | None]) -> None:
    """It says what the kernel said, and is caught as any of the classes onnxruntime has for refusals."""
    said = InvalidArgument("axis 7", why=("rank 2", "rank 3"), fix="Use 1.")
    said.add_note("seen by the test")
    with pytest.raises(KernelInputError) as caught:
        drive(CHAIN, failing(said)).run({"x": floats(4)}, watch())
    error = caught.value
    assert error.location == Location("b", "Abs", "", "HostExecutionProvider")
    assert (error.what, error.why, error.fix) == ("axis 7", ("rank 2", "rank 3"), "Use 1.")
    assert error.__notes__ == ["seen by the test"]
    assert {"InvalidArgument", "Fail", "RuntimeException"} < {kind.__name__ for kind in type(error).__mro__}


def test_a_refusal_of_a_kernel_keeps_its_cause_and_its_frames() -> None:
    """The kernel's own lines are in the traceback, and what it was raised from is its cause."""
    why = IndexError("7")

    def refuse(*_inputs: Any) -> Any:
        raise InvalidArgument("index 7") from why

    others = [kernel for kernel in fake_kernels() if kernel.op_type != "Abs"]
    provider = HostProvider([KernelDef("Abs", lambda _ctx: refuse, since=1, until=99), *others])
    with pytest.raises(KernelInputError) as caught:
        drive(CHAIN, provider).run({"x": floats(4)})
    assert caught.value.__cause__ is why
    assert "refuse" in [entry.name for entry in caught.traceback]


@pytest.mark.parametrize("error", [UsageError("no"), Fail("no"), InvalidGraph("no")])
def test_other_errors_of_a_kernel_keep_their_class(error: InvalidArgument) -> None:
    """An error of ort-py that says more than that something was refused is raised as it is, with its place."""
    with pytest.raises(type(error)) as caught:
        drive(CHAIN, failing(error)).run({"x": floats(4)})
    assert caught.value is error
    assert caught.value.location.node == "b"


def test_a_place_in_words_is_kept() -> None:
    """The place that a kernel names is not overwritten."""
    with pytest.raises(Fail) as caught:
        drive(CHAIN, failing(Fail("broken", where="row 3 of the table"))).run({"x": floats(4)})
    assert caught.value.where == "row 3 of the table"


def test_an_error_inside_a_body_has_its_path() -> None:
    """The nodes around a failing node are named, outermost first."""
    text = """
    g (bool c, float[4] x) => (float[4] y) {
      y = If (c) <
        then_branch = t () => (float[4] r) {
          r = If (c) <
            then_branch = u () => (float[4] v) { v = Abs(x) },
            else_branch = w () => (float[4] z) { z = Neg(x) }
          >
        },
        else_branch = e () => (float[4] s) { s = Neg(x) }
      >
    }
    """
    for raised, expected in ((RuntimeError("boom"), ExecutionError), (InvalidArgument("no"), KernelInputError)):
        with pytest.raises(expected) as caught:
            drive(text, failing(raised)).run({"c": np.array(True), "x": floats(4)})
        assert caught.value.location.node == "v"
        assert caught.value.location.path == ("y", "r")
        assert "inside 'y' > 'r'" in str(caught.value)


def test_inputs_are_described_whatever_they_are() -> None:
    """Absent inputs, sequences and arrays each in their own words."""

    def call(*_inputs: Any) -> Any:
        raise RuntimeError("boom")

    kernels = [
        KernelDef("SequenceInsert", lambda _ctx: call, since=1, until=99),
        KernelDef("SequenceConstruct", lambda _ctx: lambda *items: list(items), since=1, until=99),
    ]
    text = "g (float[4] x) => (seq(float[4]) y) { s = SequenceConstruct(x, x) y = SequenceInsert(s, x) }"
    with pytest.raises(ExecutionError) as caught:
        drive(text, HostProvider(kernels)).run({"x": floats(4)})
    assert caught.value.why == ("input 0: sequence of 2", "input 1: float32 (4,)")


def test_a_region_that_fails_is_named() -> None:
    """The region's name, size and provider stand in the error."""
    provider = FakeProvider(FakeDevice(largest=100), FakeBehaviour(compiles=True))
    driven = drive("g (float[n] x) => (float[m] y) { a = Concat<axis=0>(x, x) y = Neg(a) }", provider)
    with pytest.raises(ExecutionError) as caught:
        driven.run({"x": floats(20)})
    assert "region FakeExecutionProvider_g_0 of 2 nodes failed: MemoryError" in str(caught.value)
    assert caught.value.location.provider == "FakeExecutionProvider"
    assert isinstance(caught.value.__cause__, MemoryError)


def test_a_device_error_shows_at_the_wait() -> None:
    """Work that fails on a stream is reported by the step that waits for it."""
    provider = FakeProvider()
    driven = drive("g (float[4] x) => (float[4] y) { y = Neg(x) }", provider)
    original = provider.owner.create_stream

    def broken() -> Any:
        stream = original()
        stream.enqueue(lambda: dict[int, None]()[0])
        return stream

    provider.owner.create_stream = broken  # type: ignore[method-assign]  # a device that fails
    with pytest.raises(ExecutionError, match="wait for fake:0 failed: KeyError"):
        driven.run({"x": floats(4)})


def test_a_run_that_is_told_to_fail_fails_once() -> None:
    """The fake provider's n-th run raises; the next one is right again."""
    provider = FakeProvider(behaviour=FakeBehaviour(fail_runs={2}))
    driven = drive(CHAIN, provider)
    x = floats(4)
    for number in (1, 2, 3):
        provider.on_run_start()
        if number == 2:
            with pytest.raises(ExecutionError, match="set to fail in run 2"):
                driven.run({"x": x})
        else:
            np.testing.assert_array_equal(driven.run({"x": x})[0], np.abs(x))
