"""Results that follow from shapes: computed by a program, remembered, and left to the steps where those say more."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.tests.driving import Driven, HostProvider, drive, floats
from ort_py.contracts import KernelDef
from ort_py.errors import KernelInputError
from ort_py.execution import planned_runs, shape_results
from ort_py.execution.watch import RunWatch
from ort_py.planning.shape_program import Way, shape_program
from ort_py.profiling.recorder import Recorder

MODEL = """
g (float[n,k] x) => (float[n,k] y, float[1,m] places)
<int64 zero = {0}, int64 one = {1}, int64[1] first = {0}, int64[1] single = {1}, float nought = {0}> {
  size = Shape(x)
  count = Gather(size, zero)
  width = Gather(size, one)
  more = Add(count, width)
  area = Mul(count, width)
  list = Unsqueeze(more, first)
  shape = Concat <axis = 0> (single, list)
  steps = Range(zero, more, one)
  row = Unsqueeze(steps, first)
  spread = Expand(row, shape)
  weight = Cast <to = 1> (area)
  numbers = Cast <to = 1> (spread)
  y = Mul(x, weight)
  some = ReduceMax <keepdims = 0> (x)
  nothing = Mul(some, nought)
  places = Add(numbers, nothing)
}
"""
"""``n k x``, and the numbers from 0 to ``n + k``."""


CAST = {1: np.float32, 6: np.int32, 7: np.int64}
"""Types that a Cast names."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that follow from shapes are found when the first run has no plan."""
    monkeypatch.setattr(planned_runs, "_PATIENCE", 0)


def counting() -> tuple[HostProvider, Counter[str]]:
    """A provider with the operators of `MODEL`, and how often each of them was called."""
    calls: Counter[str] = Counter()

    def kernel(name: str, function: Callable[..., Any]) -> KernelDef:
        def factory(ctx: Any) -> Callable[..., Any]:
            to = ctx.node.attributes.get("to")

            def call(*arrays: Any) -> Any:
                calls[name] += 1
                return arrays[0].astype(CAST[to]) if to else function(*arrays)

            return call

        return KernelDef(name, factory, since=1, until=99, implementation="ort_py:believed")

    functions: dict[str, Callable[..., Any]] = {
        "Shape": lambda x: np.array(x.shape, np.int64),
        "Gather": lambda x, places: np.asarray(x[places]),
        "Add": np.add,
        "Mul": np.multiply,
        "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
        "Concat": lambda *parts: np.concatenate(parts),
        "Range": np.arange,
        "Expand": lambda x, shape: np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))),
        "Cast": lambda x: x,
        "ReduceMax": lambda x: np.max(x, initial=0),
        "ReduceProd": lambda x: x,  # without axes, where it does nothing then
    }
    return HostProvider([kernel(name, function) for name, function in functions.items()]), calls


def checked(driven: Driven, rows: int, columns: int, watch: RunWatch | None = None) -> tuple[Any, Any]:
    """One run, whose results are looked at."""
    x = floats(rows, columns, seed=rows)
    y, places = driven.run({"x": x}, watch)
    np.testing.assert_array_equal(y, x * np.float32(rows * columns))
    np.testing.assert_array_equal(places, np.arange(rows + columns, dtype=np.float32)[None])
    return y, places


def warmed() -> tuple[Driven, Counter[str]]:
    """A program that has met so many shapes that it takes results from now on, and its calls from here."""
    provider, calls = counting()
    driven = drive(MODEL, provider)
    for rows in range(1, 6):
        checked(driven, rows, 3)
    calls.clear()
    return driven, calls


def test_what_a_program_finds() -> None:
    """Lists of numbers are computed; a range, what is reshaped and what is expanded are made; the rest is run."""
    plan = drive(MODEL, counting()[0]).plan
    found = shape_program(plan)
    assert found is not None
    ways = {plan.steps[one.number].location.op_type: one.way for one in found.left}
    assert ways == {"Range": Way.RANGE, "Unsqueeze": Way.RESHAPE, "Expand": Way.EXPAND, "Cast": Way.STEP}
    others = [step.location.op_type for number, step in enumerate(plan.steps) if number not in found.replaced]
    assert others == ["Mul", "ReduceMax", "Mul", "Add"]


def test_new_shapes_execute_no_arithmetic() -> None:
    """What depends on shapes alone calls no kernel, but for those of long results; what came before calls none."""
    driven, calls = warmed()
    checked(driven, 9, 4)
    assert calls == {"Cast": 2, "Mul": 2, "ReduceMax": 1, "Add": 1}
    checked(driven, 8, 4)
    calls.clear()
    checked(driven, 9, 4)
    assert calls == {"Mul": 2, "ReduceMax": 1, "Add": 1}


def test_empty_shapes() -> None:
    """Sizes of 0 are sizes like others."""
    driven, _ = warmed()
    for rows, columns in ((0, 3), (3, 0), (0, 0), (2, 2)):
        checked(driven, rows, columns)


def test_a_caller_may_write_to_results() -> None:
    """Results are the caller's: writing to them changes no later run."""
    driven, _ = warmed()
    for rows in (7, 8, 7, 8, 9, 7):
        for result in checked(driven, rows, 2):
            result[...] = -1


def test_watched_runs_execute_each_step() -> None:
    """Profiled runs, runs with a limit of time, and runs whose memory is counted make everything themselves."""
    driven, calls = warmed()
    watches = (RunWatch(recorder=Recorder()), RunWatch(seconds=60), RunWatch(memory_bytes=100_000))
    for rows, watch in enumerate(watches, start=20):
        checked(driven, rows, 3)
        calls.clear()
        checked(driven, rows + 10, 3, watch)
        assert calls["Shape"] == 1


def test_large_results_are_made_by_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are needed for a while only, so they are made where they are needed, and not kept."""
    monkeypatch.setattr(shape_results, "_LARGE_BYTES", 100)
    driven, calls = warmed()
    checked(driven, 9, 2)
    assert calls["Range"] == 0
    checked(driven, 90, 2)
    assert calls["Range"] == 1


def test_few_sets_of_shapes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that came first goes first, and large ones are not kept at all."""
    monkeypatch.setattr(shape_results, "_REMEMBERED", 2)
    driven, calls = warmed()
    for rows, casts in ((10, 2), (11, 2), (10, 0), (12, 2), (11, 0), (10, 2)):
        calls.clear()
        checked(driven, rows, 2)
        assert calls["Cast"] == casts
    monkeypatch.setattr(shape_results, "_REMEMBERED_BYTES", 8)
    for _ in range(2):
        checked(driven, 13, 2)
        calls.clear()
        checked(driven, 14, 2)
        assert calls["Cast"] == 2


def test_what_fails_fails_where_it_is() -> None:
    """A step that fails is named as in any other run, and the next run is right."""
    text = """
    g (float[n] x) => (float[n] y) <int64 zero = {0}, int64 one = {1}, int64[6] table = {1, 1, 1, 1, 1, 1}> {
      size = Shape(x) count = Gather(size, zero) next = Add(count, zero) last = Add(next, zero) again = Mul(last, one)
      found = Gather(table, again) weight = Cast <to = 1> (found) y = Mul(x, weight)
    }
    """
    driven = drive(text, counting()[0])
    for rows in (1, 2, 3, 4, 5, 1, 2):
        np.testing.assert_array_equal(driven.run({"x": floats(rows)})[0], floats(rows))
    with pytest.raises(KernelInputError, match="6 is not between -6 and 5") as error:
        driven.run({"x": floats(6)})
    assert error.value.location.node == "found"
    np.testing.assert_array_equal(driven.run({"x": floats(3)})[0], floats(3))


@pytest.mark.parametrize(
    ("steps", "first"),
    [
        ("same = ReduceProd <noop_with_empty_axes = 1> (third) count = Gather(same, zero)", 6),
        ("rows = Gather(third, zero) much = Mul(rows, big) wrapped = Cast <to = 6> (much) "
         "count = Cast <to = 7> (wrapped)", 0),
    ],
    ids=["product-of-no-axes", "number-that-wraps-around"],
)  # fmt: skip
def test_a_program_computes_as_kernels_do(steps: str, first: int) -> None:
    """Where it would not, it leaves the numbers to them."""
    text = f"""
    g (float[3,k] x) => (float y)
    <int64 zero = {{0}}, int64 one = {{1}}, int64 big = {{1099511627776}}, float no = {{0}}> {{
      size = Shape(x) more = Add(size, one) again = Add(more, one) third = Add(again, one) {steps}
      next = Add(count, zero) weight = Cast <to = 1> (next)
      some = ReduceMax <keepdims = 0> (x) nothing = Mul(some, no) y = Add(weight, nothing)
    }}
    """
    driven = drive(text, counting()[0])
    for columns in (1, 2, 3, 4, 5, 6, 7, 6):
        np.testing.assert_array_equal(driven.run({"x": floats(3, columns)})[0], np.float32(first))


def test_nothing_is_held_longer() -> None:
    """A value that only a replaced step reads last is released there."""
    driven, _ = warmed()
    x = floats(11, 2)
    gone = weakref.ref(x)
    driven.run({"x": x})
    del x
    assert gone() is None
