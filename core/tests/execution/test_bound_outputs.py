"""Outputs written where the caller wants them: by kernels and regions, and never over what is still to be read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive
from ort_py.contracts import (
    ALL_FLOATS,
    CompiledRegion,
    FrameResources,
    GraphView,
    KernelDef,
    KernelForms,
    NodeSpec,
    RegionInstance,
    RegionProvider,
    RegionView,
)
from ort_py.engine.runner import Runner
from ort_py.errors import ExecutionError
from ort_py.execution import bound_outputs
from ort_py.execution.bound_outputs import WORTH_BYTES
from ort_py.execution.planned_runs import PlannedRuns

SIZE = WORTH_BYTES // 4
TYPES = {"T": ALL_FLOATS}

NEGATIVE = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
CHAIN = "g (float[N] x) => (float[N] y, float[N] z) { y = Neg(x) z = Abs(y) }"
LONG = "g (float[N] x) => (float[N] y) { a = Neg(x) b = Abs(a) c = Neg(b) d = Abs(c) y = Neg(d) }"
VIEW = "g (float[N] x) => (float[N] y, float[N] v) { y = Neg(x) v = Identity(y) }"


def _into(function: Any) -> Any:
    """A kernel over a ufunc that writes into given arrays."""
    return lambda ctx: function


KERNELS = [
    KernelDef("Neg", factory=_into(np.negative), since=13, until=25, types=TYPES, out=True),
    KernelDef("Abs", factory=_into(np.abs), since=13, until=25, types=TYPES, out=True, inplace=((0, 0),)),
    KernelDef("Exp", factory=_into(np.exp), since=13, until=25, types=TYPES),
    KernelDef("Identity", factory=lambda ctx: lambda x: x, since=13, until=25, types={}, views=((0, 0),)),
]


def numbers(size: int = SIZE, seed: int = 0) -> np.ndarray[Any, Any]:
    """Positive and negative ones."""
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def runner_of(text: str, *providers: Any) -> Runner:
    """A runner on kernels that write into given arrays."""
    return Runner(drive(text, *(providers or (HostProvider(KERNELS),))).program)


def run_into(runner: Runner, x: Any, **memory: Any) -> list[Any]:
    """Three runs of one shape, the last one's results: what is recorded and what is known settles in two."""
    for _ in range(3):
        results = runner.run([], {"x": x}, runner.writing_to(memory))
    return results


def test_a_kernel_writes_there() -> None:
    """The result is the array that was given, from the second run of a shape on."""
    runner, x, target = runner_of(NEGATIVE), numbers(), np.empty(SIZE, np.float32)
    (first,) = runner.run([], {"x": x}, runner.writing_to({"y": target}))
    assert first is not target
    (y,) = run_into(runner, x, y=target)
    assert y is target
    np.testing.assert_array_equal(y, -x)


def test_where_arrays_lie_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs with the same arrays use what was found out for the first of them."""
    runner, x, target = runner_of(NEGATIVE), numbers(), np.empty(SIZE, np.float32)
    writing, looks, find = runner.writing_to({"y": target}), list[int](), bound_outputs._overlaps

    def counted(arrays: Any) -> Any:
        looks.append(1)
        return find(arrays)

    monkeypatch.setattr(bound_outputs, "_overlaps", counted)
    for number in range(5):
        x[0] = number
        (y,) = runner.run([], {"x": x}, writing)
        np.testing.assert_array_equal(y, -x)
    assert y is target
    assert len(looks) == 1


def test_another_input_is_looked_at() -> None:
    """One that overlaps the array is read in full before it is written to, whatever was found out before."""
    runner, block = runner_of(NEGATIVE), numbers(2 * SIZE)
    target, x = block[SIZE - 1 : -1], numbers()
    writing, before = runner.writing_to({"y": target}), block.copy()
    for _ in range(3):
        (y,) = runner.run([], {"x": x}, writing)
    assert y is target
    block[...] = before
    for _ in range(3):
        (y,) = runner.run([], {"x": block[:SIZE]}, writing)
        assert not np.may_share_memory(y, block)
        np.testing.assert_array_equal(y, -before[:SIZE])


def test_an_array_that_was_made_read_only() -> None:
    """No step writes to it, though one did before."""
    runner, x, target = runner_of(NEGATIVE), numbers(), np.empty(SIZE, np.float32)
    writing = runner.writing_to({"y": target})
    for _ in range(3):
        (y,) = runner.run([], {"x": x}, writing)
    assert y is target
    target.flags.writeable = False
    x *= 2
    (y,) = runner.run([], {"x": x}, writing)
    assert y is not target
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(target, -x / 2)


def test_an_array_whose_shape_was_changed() -> None:
    """It is looked at again, and left alone where it does not fit the result."""
    runner, x, target = runner_of(NEGATIVE), numbers(), np.empty(SIZE, np.float32)
    writing = runner.writing_to({"y": target})
    for _ in range(3):
        runner.run([], {"x": x}, writing)
    target.resize((SIZE // 2, 2), refcheck=False)
    (y,) = runner.run([], {"x": 2 * x}, writing)
    assert y is not target
    np.testing.assert_array_equal(y, -2 * x)


def test_ordinary_runs_make_their_own() -> None:
    """Before, in between and after; what was bound stays as it was."""
    runner, x, target = runner_of(LONG), numbers(), np.empty(SIZE, np.float32)
    run_into(runner, x, y=target)
    for seed in range(4):
        other = numbers(seed=seed)
        (y,) = runner.run([], {"x": other})
        np.testing.assert_array_equal(y, -np.abs(other))
        assert not np.may_share_memory(y, target)
    np.testing.assert_array_equal(target, -np.abs(x))


def test_intermediate_values_may_be_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps before write into the frame's arena, which is overwritten before each run here."""
    monkeypatch.setattr(PlannedRuns, "poison", True)
    runner, target = runner_of(LONG), np.empty(SIZE, np.float32)
    for seed in range(5):
        x = numbers(seed=seed)
        (y,) = runner.run([], {"x": x}, runner.writing_to({"y": target}))
        np.testing.assert_array_equal(y, -np.abs(x))
    monkeypatch.setattr(PlannedRuns, "poison", False)
    assert run_into(runner, x, y=target)[0] is target


def test_an_output_that_another_node_reads() -> None:
    """Both are written where they are wanted, and the second reads the first there."""
    runner, x = runner_of(CHAIN), numbers()
    wanted = {"y": np.empty(SIZE, np.float32), "z": np.empty(SIZE, np.float32)}
    y, z = run_into(runner, x, **wanted)
    assert y is wanted["y"]
    assert z is wanted["z"]
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(z, np.abs(x))


@pytest.mark.parametrize("shift", [0, 1, SIZE - 1])
@pytest.mark.parametrize("kernel", ["Neg", "Abs"])
def test_memory_of_an_input(shift: int, kernel: str) -> None:
    """An array that overlaps a feed is left to the caller's copy, so that the feed is read in full first.

    Neg may write over no input, and Abs only over one that is the very memory.
    """
    block = numbers(2 * SIZE)
    x, target, before = block[:SIZE], block[shift : shift + SIZE], block.copy()
    if kernel == "Abs" and not shift:
        target = target[: SIZE // 2]
    (y,) = run_into(runner_of(f"g (float[N] x) => (float[N] y) {{ y = {kernel}(x) }}"), x, y=target)
    assert not np.may_share_memory(y, block)
    np.testing.assert_array_equal(y, -x if kernel == "Neg" else np.abs(x))
    np.testing.assert_array_equal(block, before)


def pair_of(runner: Runner, shared: Any, **memory: Any) -> list[Any]:
    """Results of three runs over `shared`, which each may write to: it has the same content before each."""
    before = shared.copy()
    for _ in range(3):
        shared[...] = before
        results = runner.run([], {"x": shared}, runner.writing_to(memory))
    return results


def test_an_output_over_its_input() -> None:
    """A kernel that declares the pair writes over the feed, also where the two arrays are different objects."""
    x = numbers()
    expected, target = np.abs(x), x[:]
    (y,) = pair_of(runner_of("g (float[N] x) => (float[N] y) { y = Abs(x) }"), x, y=target)
    assert y is target
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[N] x) => (float[N] y, float[N] z) { y = Abs(x) z = Neg(x) }",
        "g (float[N] x) => (float[N] y, float[N] z) { v = Identity(x) y = Abs(x) z = Neg(v) }",
        "g (float[N] x) => (float[N] y, float[N] z) { v = Identity(x) y = Abs(v) z = Neg(x) }",
    ],
    ids=["the input", "a view of it", "a view is written"],
)
def test_an_input_that_is_read_later(text: str) -> None:
    """It is left as it was until the run is over."""
    x = numbers()
    before = x.copy()
    y, z = pair_of(runner_of(text), x, y=x)
    assert y is not x
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(y, np.abs(before))
    np.testing.assert_array_equal(z, -before)


def test_a_view_of_the_input_that_leaves() -> None:
    """An output is collected at the end of the run, so what it shows may not be written over."""
    x = numbers()
    before = x.copy()
    runner = runner_of("g (float[N] x) => (float[N] y, float[N] v) { v = Identity(x) y = Abs(x) }")
    y, v = pair_of(runner, x, y=x)
    assert y is not x
    np.testing.assert_array_equal(y, np.abs(before))
    np.testing.assert_array_equal(v, before)


def test_an_input_that_is_read_before() -> None:
    """The last reader may write over it."""
    x = numbers()
    before = x.copy()
    runner = runner_of("g (float[N] x) => (float[N] y, float[N] z) { z = Neg(x) y = Abs(x) }")
    y, z = pair_of(runner, x, y=x)
    assert y is x
    np.testing.assert_array_equal(y, np.abs(before))
    np.testing.assert_array_equal(z, -before)


TWO = "g (float[N] x, float[N] w) => (float[N] y, float[N] z) { y = Abs(x) z = Neg(w) }"


def test_memory_of_two_inputs() -> None:
    """One array that is fed twice is not written over."""
    runner, x = runner_of(TWO), numbers()
    before = x.copy()
    for _ in range(3):
        y, z = runner.run([], {"x": x, "w": x}, runner.writing_to({"y": x}))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(y, np.abs(before))
    np.testing.assert_array_equal(z, -before)


def test_memory_of_an_input_and_two_outputs() -> None:
    """One array that two outputs are bound over is not written over."""
    runner, x, w = runner_of(TWO), numbers(), numbers(seed=1)
    before = x.copy()
    for _ in range(3):
        y, z = runner.run([], {"x": x, "w": w}, runner.writing_to({"y": x, "z": x}))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(y, np.abs(before))
    np.testing.assert_array_equal(z, -w)


def test_memory_of_another_input() -> None:
    """An array is written over the input that the kernel names, and over no other."""
    runner, x, w = runner_of(TWO), numbers(), numbers(seed=1)
    before = w.copy()
    for _ in range(3):
        y, z = runner.run([], {"x": x, "w": w}, runner.writing_to({"y": w}))
    np.testing.assert_array_equal(w, before)
    np.testing.assert_array_equal(y, np.abs(x))
    np.testing.assert_array_equal(z, -before)


MOMENTUM = """
<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
g (float r, int64 t, float[N] g, float[N] x, float[N] w) => (float[N] y, float[N] z) {
    y, z = ai.onnx.preview.training.Momentum
        <alpha = 0.0, beta = 1.0, norm_coefficient = 0.0, mode = "standard"> (r, t, x, g, w)
}
"""


def _momentum(ctx: Any) -> KernelForms:
    """Adds 1 to both states. It can do that in place."""

    def over(r: Any, t: Any, x: Any, g: Any, w: Any, y: Any, z: Any) -> tuple[Any, Any]:
        return np.add(x, 1, out=y), np.add(w, 1, out=z)

    return KernelForms(5, lambda r, t, x, g, w: (x + 1, w + 1), None, over)


@pytest.mark.parametrize("both", [True, False])
def test_a_kernel_that_updates_its_inputs(both: bool) -> None:
    """It is handed those that the caller bound over, from the second run on, and makes the others."""
    kernel = KernelDef("Momentum", _momentum, "ai.onnx.preview.training", outputs=2, inplace=((2, 0), (4, 1)))
    runner, x, w = runner_of(MOMENTUM, HostProvider([kernel])), numbers(), numbers(seed=1)
    feeds = {"r": np.float32(0), "t": np.int64(1), "g": numbers(), "x": x, "w": w}
    memory = {"y": x, "z": w} if both else {"y": x}
    runner.run([], feeds, runner.writing_to(memory))
    before = x.copy(), w.copy()
    y, z = runner.run([], feeds, runner.writing_to(memory))
    assert (y is x, z is w) == (True, both)
    np.testing.assert_array_equal(y, before[0] + 1)
    np.testing.assert_array_equal(z, before[1] + 1)


@pytest.mark.parametrize("shift", [0, SIZE // 2])
def test_memory_given_twice(shift: int) -> None:
    """At most one of two outputs in overlapping memory is written there; both are right."""
    block, x = np.empty(2 * SIZE, np.float32), numbers()
    y, z = run_into(runner_of(CHAIN), x, y=block[:SIZE], z=block[shift : shift + SIZE])
    assert not np.may_share_memory(y, z)
    np.testing.assert_array_equal(y, -x)
    np.testing.assert_array_equal(z, np.abs(x))


def test_outputs_that_are_views() -> None:
    """A view of a bound output is an array of its own, also where memory is given for it."""
    x, y_memory, v_memory = numbers(), np.empty(SIZE, np.float32), np.empty(SIZE, np.float32)
    y, v = run_into(runner_of(VIEW), x, y=y_memory, v=v_memory)
    assert not np.may_share_memory(y, v)
    assert v is not v_memory
    for found in (y, v):
        np.testing.assert_array_equal(found, -x)


def test_other_shapes_and_types_are_left_alone() -> None:
    """Memory that does not fit the result, one that broadcasting would fill too, is not written to."""
    runner, x = runner_of(NEGATIVE), numbers()
    for target in (np.zeros((2, SIZE), np.float32), np.zeros(SIZE, np.float64), np.zeros(2 * SIZE, np.float32)):
        (y,) = run_into(runner, x, y=target)
        assert y is not target
        np.testing.assert_array_equal(y, -x)
        assert not target.any()


def test_shapes_may_change() -> None:
    """Each run's result is right, whatever was known of the run before."""
    runner = runner_of(LONG)
    for size in (SIZE, SIZE, 2 * SIZE, SIZE, 2 * SIZE, 2 * SIZE, 2 * SIZE, SIZE):
        x, target = numbers(size, seed=size), np.empty(size, np.float32)
        (y,) = runner.run([], {"x": x}, runner.writing_to({"y": target}))
        np.testing.assert_array_equal(y, -np.abs(x))
    assert run_into(runner, x, y=target)[0] is target


@pytest.mark.parametrize("kind", ["read-only", "in pieces", "small"])
def test_unfit_memory_is_not_used(kind: str) -> None:
    """Read-only memory, strided memory, and memory so small that a copy is quicker."""
    size = 100 if kind == "small" else SIZE
    target = np.empty(2 * size, np.float32)[::2] if kind == "in pieces" else np.empty(size, np.float32)
    if kind == "read-only":
        target.flags.writeable = False
    x = numbers(size)
    (y,) = run_into(runner_of(NEGATIVE), x, y=target)
    assert y is not target
    np.testing.assert_array_equal(y, -x)


def test_kernels_that_make_their_outputs() -> None:
    target, x = np.empty(SIZE, np.float32), numbers()
    (y,) = run_into(runner_of("g (float[N] x) => (float[N] y) { y = Exp(x) }"), x, y=target)
    assert y is not target
    np.testing.assert_array_equal(y, np.exp(x))


def test_threads_have_their_own_memory() -> None:
    """Runs at the same time write each to its own."""
    runner, wrong = runner_of(LONG), list[int]()

    def work(number: int) -> None:
        x, target = numbers(seed=number), np.empty(SIZE, np.float32)
        for _ in range(20):
            (y,) = runner.run([], {"x": x}, runner.writing_to({"y": target}))
            if not np.array_equal(y, -np.abs(x)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_run_that_fails() -> None:
    """The next run does not use its frame again."""
    failing: list[Exception] = []

    def factory(ctx: Any) -> Any:
        def absolute(x: Any, out: Any = None) -> Any:
            if failing:
                raise failing.pop()
            return np.abs(x, out)

        return absolute

    kernels = [KERNELS[0], KernelDef("Abs", factory=factory, since=13, until=25, types=TYPES, out=True)]
    runner, x, target = runner_of(CHAIN, HostProvider(kernels)), numbers(), np.empty(SIZE, np.float32)
    run_into(runner, x, z=target)
    failing.append(OSError("the cable"))
    with pytest.raises(ExecutionError, match="the cable"):
        runner.run([], {"x": x}, runner.writing_to({"z": target}))
    assert run_into(runner, x, z=target)[1] is target


class _Instance(RegionInstance):
    """Negates; gives so many of the first numbers as the first of them says, where that is above 1."""

    def __init__(self) -> None:
        self._bound: tuple[Any, Any] = (None, None)
        self.given: list[Any] = []

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._bound = inputs[0], outputs[0]
        self.given.append(outputs[0])

    def __call__(self) -> Sequence[Any]:
        x, target = self._bound
        size = int(x[0]) if x[0] > 1 else len(x)
        if target is None or target.shape != (size,):
            target = np.empty(size, np.float32)
        return [np.negative(x[:size], out=target)]


class _Region(CompiledRegion):
    def __init__(self) -> None:
        self.instance = _Instance()
        self.pairs: tuple[tuple[int, int], ...] = ()

    @property
    def inplace(self) -> tuple[tuple[int, int], ...]:
        return self.pairs

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        return self.instance


class _Compiles(RegionProvider):
    """Compiles every Neg to a region."""

    def __init__(self) -> None:
        self.region = _Region()

    @property
    def name(self) -> str:
        return "CompilesExecutionProvider"

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type == "Neg" else "only Neg"

    def compile(self, region: RegionView) -> CompiledRegion:
        return self.region


def test_a_region_writes_there() -> None:
    """It is handed the array from the second run on, and None in ordinary runs."""
    provider = _Compiles()
    runner, x, target = runner_of(NEGATIVE, provider), np.zeros(SIZE, np.float32), np.ones(SIZE, np.float32)
    (y,) = run_into(runner, x, y=target)
    assert y is target
    assert not target.any()
    runner.run([], {"x": x})
    assert provider.region.instance.given[0] is None
    assert provider.region.instance.given[-1] is None


@pytest.mark.parametrize("pairs", [(), ((0, 0),), ((7, 0),)], ids=str)
def test_a_region_that_may_write_over_its_input(pairs: tuple[tuple[int, int], ...]) -> None:
    """It is handed the input for the output where it says so, and else the caller copies."""
    provider = _Compiles()
    provider.region.pairs = pairs
    runner, x = runner_of(NEGATIVE, provider), np.full(SIZE, -0.5, np.float32)
    run_into(runner, x, y=x)
    (y,) = runner.run([], {"x": x}, runner.writing_to({"y": x}))
    assert (y is x) == (pairs == ((0, 0),))
    assert provider.region.instance.given[-1] is (x if y is x else None)
    np.testing.assert_array_equal(np.abs(y), 0.5)
    assert y is x or (x == -0.5).all(), "the caller copies"


def test_a_region_whose_values_decide_its_shape() -> None:
    """If the array does not fit, the region's own result is returned and the array stays unchanged."""
    provider = _Compiles()
    runner, x, target = runner_of(NEGATIVE, provider), np.zeros(SIZE, np.float32), np.ones(SIZE, np.float32)
    run_into(runner, x, y=target)
    x[0] = 3
    target[...] = 5
    (y,) = runner.run([], {"x": x}, runner.writing_to({"y": target}))
    assert y.tolist() == [-3, 0, 0]
    assert (target == 5).all()
