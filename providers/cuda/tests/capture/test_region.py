"""Captured regions on a stand-in device: warm-up, recording, replays, memory, threads, and what cannot be captured."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import FrameResources, KernelCatalog, KernelDef
from ort_py.devices import Device
from ort_py.errors import ExecutionError, KernelNotFoundError
from ort_py_array.library import LibraryKernels
from ort_py_cuda.capture.program import program_of
from ort_py_cuda.capture.region import CapturedRegion
from ort_py_kit.graphs import graph_view
from providers.cuda.tests.stand_in.machine import Machine

from .capturing import CapturingModule, CapturingStream

_DEVICE = Device("cuda", 0)
_CHAIN = "a = Mul (x, w) b = Sigmoid (a) c = Add (b, x) y = Relu (c)"


class _Device:
    """A machine, its module and a stream."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.xp = CapturingModule(self.machine)
        self.stream = self.xp.stream()

    def put(self, x: Any) -> Any:
        with self.stream:
            return self.xp.asarray(x)

    def get(self, x: Any, stream: CapturingStream | None = None) -> Any:
        with stream or self.stream:
            return x.get()


@pytest.fixture
def device() -> _Device:
    """A machine with one GPU."""
    return _Device()


def _region(text: str = _CHAIN, size: str = "N") -> Any:
    view = graph_view(f"g (float[{size}] x) => (float[{size}] y) <float[1] w = {{2}}> {{ {text} }}")
    return view.region(range(len(view.nodes)))


def _captured(
    device: _Device, text: str = _CHAIN, *, kernels: KernelCatalog | None = None, **options: Any
) -> CapturedRegion:
    with device.stream:
        program = program_of(_region(text), kernels or LibraryKernels(), device.xp, _DEVICE)
    return CapturedRegion(program, device.xp, **{"inspect": lambda graph: None, **options})


def _numbers(seed: int, size: int = 4) -> Any:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def _wanted(x: Any) -> Any:
    return np.maximum(1 / (1 + np.exp(-2 * x)) + x, 0)


def _run(device: _Device, instance: Any, x: Any, stream: CapturingStream | None = None) -> Any:
    stream = stream or device.stream
    with stream:
        instance.bind([device.xp.asarray(x)], [None])
        (y,) = instance()
        return y.get()


def test_first_warm_up_then_record_then_replay(device: _Device) -> None:
    """Ten runs of one shape: one graph, launched nine times, right results each time."""
    instance = _captured(device).instantiate(FrameResources())
    for seed in range(10):
        np.testing.assert_allclose(_run(device, instance, _numbers(seed)), _wanted(_numbers(seed)), rtol=1e-6)
        assert len(getattr(device.stream, "graphs", [])) == min(seed, 1)
    (graph,) = device.stream.graphs
    assert graph.launches == 9


def test_results_belong_to_the_caller(device: _Device) -> None:
    """Later runs do not change the results of earlier ones."""
    instance = _captured(device).instantiate(FrameResources())
    held = []
    with device.stream:
        for seed in range(6):
            instance.bind([device.xp.asarray(_numbers(seed))], [None])
            held.append(instance()[0])
    for seed, y in enumerate(held):
        np.testing.assert_allclose(device.get(y), _wanted(_numbers(seed)), rtol=1e-6)


def test_a_graph_s_memory_is_nobody_else_s(device: _Device) -> None:
    """Arrays of others are made and dropped between replays: nothing of the graph is written to, nor reads theirs."""
    instance = _captured(device).instantiate(FrameResources())
    others = []
    for seed in range(8):
        np.testing.assert_allclose(_run(device, instance, _numbers(seed)), _wanted(_numbers(seed)), rtol=1e-6)
        others += [device.put(np.full(4, 7, np.float32)) for _ in range(5)]
        del others[::2]
    assert all(np.all(device.get(x) == 7) for x in others)


def test_each_shape_has_a_graph_up_to_a_bound(device: _Device) -> None:
    """A further signature runs as usual, and the report says so."""
    region = _captured(device, signatures=2)
    instance = region.instantiate(FrameResources())
    for _ in range(3):
        for size in (3, 5, 7):
            np.testing.assert_allclose(_run(device, instance, _numbers(1, size)), _wanted(_numbers(1, size)), rtol=1e-6)
    assert len(device.stream.graphs) == 2
    assert "more than 2 shape signatures" in region.remarks()[0]
    assert not region.capturing.refused


def test_threads_have_graphs_of_their_own(device: _Device) -> None:
    """An instance a frame, each on its stream, at the same time."""
    region = _captured(device)
    wrong: list[int] = []

    def work(number: int) -> None:
        stream = device.xp.stream()
        with stream:
            instance = region.instantiate(FrameResources())
        for seed in range(20):
            x = _numbers(100 * number + seed)
            if not np.allclose(_run(device, instance, x, stream), _wanted(x)):
                wrong.append(number)
        if len(stream.graphs) != 1:
            wrong.append(-number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_is_counted_and_given_back(device: _Device) -> None:
    """The figure is that of the graphs' pool, and zero after the frame is gone."""
    region = _captured(device)
    instance = region.instantiate(FrameResources())
    assert instance.reserved_bytes() == 0
    for seed in range(3):
        _run(device, instance, _numbers(seed))
    assert instance.reserved_bytes() > 0
    used = device.xp.cuda._default.used_bytes()
    device.stream.graphs.clear()
    device.xp.cuda.pools.clear()
    instance.close()
    gc.collect()
    assert instance.reserved_bytes() == 0
    assert device.xp.cuda._default.used_bytes() < used


def _failing(at_capture: Callable[[CapturingModule], Any]) -> KernelDef:
    """Relu that does something which cannot be captured."""

    def factory(ctx: Any) -> Any:
        def run(x: Any) -> Any:
            at_capture(ctx.xp)
            return ctx.xp.maximum(x, 0)

        return run

    return KernelDef("Relu", factory, since=1, until=28, implementation="ort_py_cuda.kernels.fake:relu")


class _With(KernelCatalog):
    """The library with one kernel of ours in front."""

    def __init__(self, own: KernelDef) -> None:
        self._own = own

    def kernels_of(self, domain: str, op_type: str) -> Sequence[KernelDef]:
        return (
            [self._own]
            if (domain, op_type) == ("", self._own.op_type)
            else LibraryKernels().kernels_of(domain, op_type)
        )

    def __iter__(self) -> Iterator[KernelDef]:
        return iter(())


def _waits(xp: CapturingModule) -> None:
    xp.machine.stream.synchronize()


def test_what_waits_is_not_captured(device: _Device) -> None:
    """The region runs as usual from then on, tries no second time, and says which node it was."""
    region = _captured(device, kernels=_With(_failing(_waits)))
    instance = region.instantiate(FrameResources())
    for seed in range(4):
        np.testing.assert_allclose(_run(device, instance, _numbers(seed)), _wanted(_numbers(seed)), rtol=1e-6)
    assert region.capturing.refused
    assert len(region.remarks()) == 1
    assert "the stream is capturing" in region.remarks()[0]
    assert len(device.stream.graphs) == 1  # ended, and never launched
    assert device.stream.graphs[0].launches == 0
    other = region.instantiate(FrameResources())
    for seed in range(3):
        _run(device, other, _numbers(seed))
    assert len(device.stream.graphs) == 1


def test_a_graph_that_must_not_be_repeated_is_not_launched(device: _Device) -> None:
    """An upload of the host's memory is found by inspection."""
    region = _captured(
        device,
        kernels=_With(_failing(lambda xp: xp.asarray(np.float32(1)))),
        inspect=lambda graph: "it copies 4 bytes from the host's memory",
    )
    instance = region.instantiate(FrameResources())
    for seed in range(3):
        np.testing.assert_allclose(_run(device, instance, _numbers(seed)), _wanted(_numbers(seed)), rtol=1e-6)
    assert region.remarks() == (
        "not captured: EPFail: The captured graph must not be repeated.; it copies 4 bytes from the host's memory",
    )
    assert device.stream.graphs[0].launches == 0


def test_the_default_stream_is_not_captured(device: _Device) -> None:
    """The caller's own, where it is that one: the reason is among the remarks."""
    region = _captured(device)
    instance = region.instantiate(FrameResources())
    for seed in range(3):
        instance.bind([device.xp.asarray(_numbers(seed))], [None])
        (y,) = instance()
        np.testing.assert_allclose(y.get(), _wanted(_numbers(seed)), rtol=1e-6)
    assert "default stream cannot be captured" in region.remarks()[0]


def test_outputs_are_no_views_of_inputs(device: _Device) -> None:
    """Neither in the warm-up, nor when replayed, nor where nothing is captured any more."""
    region = _captured(device, "a = Relu (x) y = Identity (x)")
    instance = region.instantiate(FrameResources())
    for seed in range(4):
        with device.stream:
            x = device.xp.asarray(_numbers(seed))
            instance.bind([x], [None])
            (y,) = instance()
        assert not np.may_share_memory(x.raw, y.raw)
        np.testing.assert_array_equal(device.get(y), _numbers(seed))
        if seed == 2:
            region.capturing.refuse("a test wants it so")


def test_errors_name_the_node(device: _Device) -> None:
    """A kernel that fails in an ordinary run."""

    def breaks(xp: CapturingModule) -> None:
        raise ValueError("broken")

    region = _captured(device, kernels=_With(_failing(breaks)))
    with pytest.raises(ExecutionError, match="ValueError: broken") as caught:
        _run(device, region.instantiate(FrameResources()), _numbers(1))
    assert "Relu" in str(caught.value)


def test_a_node_without_a_kernel(device: _Device) -> None:
    """Compiling refuses it, so that its nodes go elsewhere."""

    class Nothing(_With):
        def kernels_of(self, domain: str, op_type: str) -> Sequence[KernelDef]:
            return []

    with pytest.raises(KernelNotFoundError, match="No kernel for Mul"):
        _captured(device, kernels=Nothing(_failing(_waits)))


def test_concat_is_copied_part_by_part(device: _Device) -> None:
    """No list of addresses comes from the host."""
    region = _captured(device, "a = Concat <axis = 0> (x, x, w) b = Relu (a) y = Neg (b)")
    instance = region.instantiate(FrameResources())
    for seed in range(3):
        x = _numbers(seed)
        np.testing.assert_array_equal(_run(device, instance, x), -np.maximum(np.concatenate([x, x, [2]]), 0))


def test_parts_are_compiled_to_one_step_each(device: _Device) -> None:
    """A part gets an instance a frame, runs between kernels in an order that fits, and is captured with them."""
    from ort_py.contracts import FunctionRegion, RegionView

    xp, closed = device.xp, []

    class Part(FunctionRegion):
        def close(self) -> None:
            closed.append(True)

    def compile_part(view: RegionView) -> Part:
        assert [node.op_type for node in view.nodes] == ["Mul", "Sigmoid"]
        return Part(lambda x: [xp.divide(1, xp.add(1, xp.exp(xp.multiply(x, -2))))])

    with device.stream:
        program = program_of(_region(), LibraryKernels(), xp, _DEVICE, [(0, 1)], compile_part)
    assert [step.part is not None for step in program.steps] == [True, False, False]
    region = CapturedRegion(program, xp, inspect=lambda graph: None)
    instance = region.instantiate(FrameResources())
    for seed in range(4):
        np.testing.assert_allclose(_run(device, instance, _numbers(seed)), _wanted(_numbers(seed)), rtol=1e-6)
    assert len(device.stream.graphs) == 1
    instance.close()


def test_values_are_dropped_behind_their_last_reader(device: _Device) -> None:
    """So that the pool uses their memory again: a long chain takes no more than a short one."""

    def reserved(length: int) -> int:
        text = " ".join(f"v{i} = Neg ({f'v{i - 1}' if i else 'x'})" for i in range(length))
        region = _captured(device, f"{text} y = Neg (v{length - 1})")
        instance = region.instantiate(FrameResources())
        for seed in range(3):
            _run(device, instance, _numbers(seed))
        return instance.reserved_bytes()

    assert reserved(40) == reserved(4)


def test_packed_constants_have_no_values_left(device: _Device) -> None:
    """A kernel that packs a weight gets an array of its shape that holds nothing."""
    seen: list[Any] = []

    def factory(ctx: Any) -> Any:
        packed = ctx.packed((1,), "doubled", lambda w: ctx.xp.multiply(w, 2))

        def run(x: Any, w: Any) -> Any:
            seen.append((w.shape, w.strides))
            return ctx.xp.multiply(x, packed)

        return run

    own = KernelDef("Mul", factory, since=1, until=28, implementation="ort_py_cuda.kernels.fake:mul")
    region = _captured(device, "a = Mul (x, w) y = Relu (a)", kernels=_With(own))
    y = _run(device, region.instantiate(FrameResources()), _numbers(1))
    np.testing.assert_allclose(y, np.maximum(_numbers(1) * 4, 0))
    assert seen == [((1,), (0,))]
