"""Sessions whose runs are captured, with values bound on the GPU: each run writes to its arrays and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py_cuda import libraries
from ort_py_kit.graphs import model_from_text
from providers.cuda.tests.capture.capturing import CapturingModule, CapturingStream
from providers.cuda.tests.stand_in.machine import Machine

_CHAIN = """<ir_version: 10, opset_import: ["" : 21]>
    g (float[n, 3] x) => (float[n, 3] y, float[n, 3] z) { a = Relu(x) y = Add(a, x) z = Neg(y) }"""
_STALE = np.float32(-77)


@pytest.fixture
def machine(use_machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine whose streams can be captured; its graphs are never refused."""
    made = Machine()
    use_machine(made, CapturingModule)
    monkeypatch.setattr("ort_py_cuda.capture.runs.host_work", lambda graph, driver: None)
    monkeypatch.setattr(libraries, "load", lambda name: None)
    return made


@pytest.fixture
def session(machine: Machine) -> ort_py.InferenceSession:
    """A session that captures."""
    settings = ort_py.SessionOptions()
    settings.cost_model = "always"
    settings.pin_cpu = True
    settings.cache_dir = "off"
    providers: list[Any] = [("CUDAExecutionProvider", {"enable_cuda_graph": True}), "CPUExecutionProvider"]
    model = model_from_text(_CHAIN).SerializeToString()
    return ort_py.InferenceSession(model, settings, providers, enable_fallback=0)


def _launches(machine: Machine) -> int:
    graphs = [
        graph
        for stream in machine.streams.values()
        if isinstance(stream, CapturingStream)
        for graph in getattr(stream, "graphs", [])
    ]
    return sum(graph.launches for graph in graphs)


def _numbers(seed: int, rows: int = 2) -> Any:
    return np.random.default_rng(seed).standard_normal((rows, 3)).astype(np.float32)


def _wanted(x: Any) -> tuple[Any, Any]:
    y = np.maximum(x, 0) + x
    return y, -y


def _on_device(x: Any) -> ort_py.OrtValue:
    return ort_py.OrtValue.ortvalue_from_numpy(x, "cuda", 0)


def test_each_run_writes_where_it_is_bound(machine: Machine, session: ort_py.InferenceSession) -> None:
    """Inputs and outputs at new addresses in each run; what earlier runs wrote to is not touched any more."""
    held: list[tuple[ort_py.OrtValue, ...]] = []
    for seed in range(6):
        x = _numbers(seed)
        given, targets = _on_device(x), [_on_device(np.zeros_like(x)) for _ in range(2)]
        binding = session.io_binding()
        binding.bind_input("x", "cuda", 0, np.float32, x.shape, given.data_ptr())
        for name, target in zip("yz", targets, strict=True):
            binding.bind_output(name, "cuda", 0, np.float32, x.shape, target.data_ptr())
        session.run_with_iobinding(binding)
        for target, wanted in zip(targets, _wanted(x), strict=True):
            np.testing.assert_array_equal(target.numpy(), wanted)
        for one in (given, *targets):
            one.update_inplace(np.full_like(x, _STALE))
        held.append((given, *targets))
    assert _launches(machine) == 5  # the first run warms up
    assert len({one.data_ptr() for row in held for one in row}) == 18
    for row in held:
        for one in row:
            assert np.all(one.numpy() == _STALE)


def test_memory_that_was_bound_may_be_dropped(machine: Machine, session: ort_py.InferenceSession) -> None:
    """Others get it, and later replays leave it to them."""
    others: list[ort_py.OrtValue] = []
    for seed in range(8):
        x = _numbers(seed)
        target = _on_device(np.zeros_like(x))
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", _on_device(x))
        binding.bind_ortvalue_output("y", target)
        binding.bind_output("z", "cpu")
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(target.numpy(), _wanted(x)[0])
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[1], _wanted(x)[1])
        del binding, target
        others += [_on_device(np.full_like(x, _STALE)) for _ in range(4)]
    assert all(np.all(one.numpy() == _STALE) for one in others)
    assert _launches(machine) == 7


def test_results_that_are_allocated_once(machine: Machine, session: ort_py.InferenceSession) -> None:
    """A binding that names the device only: the same memory in each run, with that run's results."""
    binding = session.io_binding()
    binding.bind_output("y", "cuda", 0)
    binding.bind_output("z", "cuda", 0)
    addresses = set()
    for seed in range(5):
        x = _numbers(seed)
        binding.bind_ortvalue_input("x", _on_device(x))
        session.run_with_iobinding(binding)
        outputs = binding.get_outputs()
        addresses.add(tuple(one.data_ptr() for one in outputs))
        for one, wanted in zip(outputs, _wanted(x), strict=True):
            np.testing.assert_array_equal(one.numpy(), wanted)
    assert len(addresses) == 1
    assert _launches(machine) == 4


def test_results_of_earlier_runs_stay(machine: Machine, session: ort_py.InferenceSession) -> None:
    """A binding for each run, which names the device only: its results are its own, whatever is replayed later."""
    held: list[list[ort_py.OrtValue]] = []
    for seed in range(5):
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", _on_device(_numbers(seed)))
        for name in "yz":
            binding.bind_output(name, "cuda", 0)
        session.run_with_iobinding(binding)
        held.append(binding.get_outputs())
    assert len({one.data_ptr() for row in held for one in row}) == 10
    for seed, row in enumerate(held):
        for one, wanted in zip(row, _wanted(_numbers(seed)), strict=True):
            np.testing.assert_array_equal(one.numpy(), wanted)


def test_an_input_is_an_output(machine: Machine, session: ort_py.InferenceSession) -> None:
    """Bound to the same memory: read before it is written, in each run."""
    value = _on_device(_numbers(1))
    wanted = _numbers(1)
    for _ in range(4):
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", value)
        binding.bind_ortvalue_output("y", value)
        binding.bind_output("z", "cuda", 0)
        session.run_with_iobinding(binding)
        wanted = _wanted(wanted)[0]
        np.testing.assert_array_equal(value.numpy(), wanted)
        np.testing.assert_array_equal(binding.get_outputs()[1].numpy(), -wanted)
    assert _launches(machine) == 3


def test_shapes_take_turns(machine: Machine, session: ort_py.InferenceSession) -> None:
    """A graph each; bound and plain runs share them where their places are the same."""
    for seed in range(9):
        x = _numbers(seed, rows=1 + seed % 3)
        target = _on_device(np.zeros_like(x))
        binding = session.io_binding()
        binding.bind_cpu_input("x", x)
        binding.bind_ortvalue_output("y", target)
        binding.bind_output("z", "cuda", 0)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(target.numpy(), _wanted(x)[0])
        np.testing.assert_array_equal(session.run(["z"], {"x": x})[0], _wanted(x)[1])
    assert _launches(machine) >= 6
