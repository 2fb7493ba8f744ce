"""Steps whose results follow from shapes: found in a plan, made once a signature, and made again for another."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from core.tests.driving import Driven, HostProvider, drive, floats
from ort_py.contracts import (
    CompiledRegion,
    FunctionRegion,
    GraphView,
    KernelDef,
    NodeSpec,
    RegionProvider,
    RegionView,
)
from ort_py.execution import recording
from ort_py.execution.watch import RunWatch
from ort_py.planning.fixed_values import is_deterministic, steps_fixed_by_shapes
from ort_py.profiling.recorder import Recorder

TEXT = """
g (float[n] x) => (float[n] y, int64[1] area) {
  size = Shape(x)
  double = Add(size, size)
  area = Mul(double, size)
  factor = Cast <to = 1> (double)
  noise = RandomUniformLike(x)
  grown = Mul(x, factor)
  y = Add(grown, noise)
}
"""
"""Returns ``2 n x`` and ``2 n²``; what is random here is zero."""


def counting() -> tuple[HostProvider, Counter[str]]:
    """A provider with the operators of `TEXT`, and how often each of them was called."""
    calls: Counter[str] = Counter()

    def kernel(name: str, function: Callable[..., Any]) -> KernelDef:
        def call(*arrays: Any) -> Any:
            calls[name] += 1
            return function(*arrays)

        return KernelDef(name, lambda _ctx: call, since=1, until=99, implementation="ort_py:believed")

    functions: dict[str, Callable[..., Any]] = {
        "Shape": lambda x: np.array(x.shape, np.int64),
        "Add": np.add,
        "Mul": np.multiply,
        "Cast": lambda x: x.astype(np.float32),
        "RandomUniformLike": np.zeros_like,
    }
    return HostProvider([kernel(name, function) for name, function in functions.items()]), calls


def checked(driven: Driven, length: int, watch: RunWatch | None = None) -> tuple[Any, Any]:
    """One run, whose results are looked at."""
    x = floats(length, seed=length)
    y, area = driven.run({"x": x}, watch)
    np.testing.assert_array_equal(y, x * np.float32(2 * length))
    np.testing.assert_array_equal(area, [2 * length * length])
    return y, area


def test_what_follows_from_shapes() -> None:
    """Sizes and numbers made of them do; a result of the model, data and what is random do not."""
    plan = drive(TEXT, counting()[0]).plan
    found = steps_fixed_by_shapes(plan, {value.slot for value in plan.inputs})
    assert [plan.steps[number].location.op_type for number in sorted(found)] == ["Shape", "Add", "Cast"]
    assert not steps_fixed_by_shapes(plan, ())


def test_sizes_are_computed_once_a_signature() -> None:
    """Later runs of the same shapes compute what they have to; another shape starts afresh, and the first returns."""
    provider, calls = counting()
    driven = drive(TEXT, provider)
    for _ in range(3):
        checked(driven, 5)
    assert calls == {"Shape": 1, "Cast": 1, "Add": 1 + 3, "Mul": 3 + 3, "RandomUniformLike": 3}
    checked(driven, 6)
    checked(driven, 6)
    checked(driven, 5)
    assert (calls["Shape"], calls["RandomUniformLike"]) == (2, 6)


def test_a_caller_may_write_to_results() -> None:
    """Results are the caller's: writing to it changes no later run."""
    driven = drive(TEXT, counting()[0])
    for _ in range(4):
        for result in checked(driven, 7):
            result[...] = -1


def test_watched_runs_are_alike() -> None:
    """Profiled runs, runs with a limit of time, and runs whose memory is counted."""
    driven = drive(TEXT, counting()[0])
    for watch in (None, RunWatch(recorder=Recorder()), RunWatch(seconds=60), RunWatch(memory_bytes=10_000), None):
        checked(driven, 4, watch)


def test_large_results_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would take memory for time that they do not save."""
    monkeypatch.setattr(recording, "_KEPT_BYTES", 4)
    provider, calls = counting()
    driven = drive(TEXT, provider)
    for _ in range(3):
        checked(driven, 5)
    assert calls["Shape"] == 3  # eight bytes
    assert calls["Cast"] == 1  # four


def test_all_that_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph of many such steps keeps the first ones, and what the others make is made in each run."""
    monkeypatch.setattr(recording, "_MOST_KEPT", 20)
    provider, calls = counting()
    driven = drive(TEXT, provider)
    for _ in range(3):
        checked(driven, 5)
    assert calls == {"Shape": 1, "Add": 1 + 3, "Mul": 3 + 3, "Cast": 1, "RandomUniformLike": 3}  # 8 + 8 + 4 bytes
    monkeypatch.setattr(recording, "_MOST_KEPT", 15)
    for _ in range(3):
        checked(driven, 6)
    assert (calls["Shape"], calls["Cast"]) == (2, 2)
    assert calls["Add"] == 4 + 6


def test_results_whose_shapes_are_read_go_as_before() -> None:
    """A value that a kept size reads last is dropped there: it neither waits for the run's end nor outlives it."""
    alive: list[weakref.ref[Any]] = []
    left: list[int] = []

    def made(x: Any) -> Any:
        left.append(sum(one() is not None for one in alive))
        result = np.negative(x)
        alive.append(weakref.ref(result))
        return result

    provider, _ = counting()
    kernels = [
        *provider.kernel_registry(),
        KernelDef("Neg", lambda _ctx: made, since=1, until=99, implementation="ort_py:x"),
    ]
    text = """
    g (float[n] x) => (int64[1] y) {
      a = Neg(x) s = Shape(a) b = Neg(x) t = Shape(b) c = Neg(x) u = Shape(c) v = Add(s, t) y = Add(u, v)
    }
    """
    driven, x = drive(text, HostProvider(kernels)), floats(9)
    for _ in range(4):
        (y,) = driven.run({"x": x})
        assert y == 27
        assert not any(one() is not None for one in alive)
    assert not any(left)


class ShapesFirst(RegionProvider):
    """Its only region reads a shape first, and then numbers."""

    @property
    def name(self) -> str:
        return "ShapesFirstExecutionProvider"

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type in ("Shape", "Cast", "Mul") else "not mine"

    def compile(self, region: RegionView) -> CompiledRegion:
        return FunctionRegion(lambda x: [x * np.float32(x.size)])


def test_a_region_that_begins_with_a_shape_reads_numbers_too() -> None:
    """A region is not what its first node is."""
    text = "g (float[n] x) => (float[n] y) { s = Shape(x) f = Cast <to = 1> (s) a = Mul(x, f) y = Add(a, a) }"
    driven = drive(text, ShapesFirst(), counting()[0])
    assert driven.runner_of("s") == driven.runner_of("a") != driven.runner_of("y")
    for seed in range(4):
        x = floats(5, seed=seed)
        (y,) = driven.run({"x": x})
        np.testing.assert_array_equal(y, x * np.float32(10))


def test_shapes_of_results_are_looked_at() -> None:
    """Values that follow from the shape of a result are kept, until a run makes another shape of the same inputs."""
    provider, calls = counting()
    length = [3]

    def cut(x: Any) -> Any:
        return x[: length[0]]

    kernels = [
        *provider.kernel_registry(),
        KernelDef("Relu", lambda _ctx: cut, since=1, until=99, implementation="ort_py:x"),
    ]
    text = (
        "g (float[n] x) => (float[m] y) { a = Relu(x) s = Shape(a) b = Mul(s, s) f = Cast <to = 1> (b) y = Mul(a, f) }"
    )
    driven, x = drive(text, HostProvider(kernels)), floats(9)
    for number in (3, 3, 3, 5, 3, 5, 5, 0, 3):
        length[0] = number
        (y,) = driven.run({"x": x})
        np.testing.assert_array_equal(y, x[:number] * np.float32(number * number))
        if number == 5 and calls["Shape"] == 1:
            pytest.fail("the shape was not looked at")
    assert calls["Shape"] == 1 + 6  # once for the three first runs, then in each
    plan = driven.plan
    steady = {value.slot for value in plan.inputs}
    assert len(steps_fixed_by_shapes(plan, steady)) == 3
    assert not steps_fixed_by_shapes(plan, steady, unsteady={0})


def test_random_operators_are_those_of_onnx() -> None:
    """ONNX marks them; operators with graphs are no kernels, and AffineGrid is a function of deterministic ones."""
    marked = onnx.defs.OpSchema.NodeDeterminism.NonDeterministic
    random = {schema.name for schema in onnx.defs.get_all_schemas() if getattr(schema, "node_determinism") == marked}  # noqa: B009 - the stub does not know it
    for name in random - {"AffineGrid", "If", "Loop", "Scan", "SequenceMap"}:
        assert not is_deterministic(name, "")
    assert is_deterministic("Range", "")
    assert not is_deterministic("Range", "com.example")
