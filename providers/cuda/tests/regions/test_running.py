"""Regions as the engine runs them: several threads, many signatures, mistakes in the data; and random ones."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from ort_py.contracts.compiled import FrameResources
from ort_py.errors import InvalidArgument, KernelInputError
from ort_py_cuda import modules, regions
from ort_py_cuda.code import faults
from ort_py_cuda.regions import compile_region
from ort_py_cuda.regions.groups import node_groups
from ort_py_cuda.regions.region import _SIGNATURES, CodeRegion, _flat_kernel
from ort_py_kit.graphs import model_from_text, reference_run
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.regions.parts import CONTEXT, agree, check, outputs_of, region_of, view_of


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host."""
    return host.install(monkeypatch)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return rng().standard_normal(shape, np.float32)


TEXT = "g (float[n, m] x, float[m] y) => (float[n, m] z) { a = Add(x, y) z = Tanh(a) }"


def test_an_instance_runs_what_it_was_bound_to() -> None:
    """Results are the caller's: the next run makes others."""
    instance = compile_region(region_of(TEXT), CONTEXT).instantiate(FrameResources())
    x, y = host.on_host(floats(3, 4)), host.on_host(floats(4))
    instance.bind([x, y], [None])
    (first,) = instance()
    kept = first.copy()
    instance.bind([host.on_host(floats(3, 4)), y], [None])
    instance()
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_allclose(first, np.tanh(np.asarray(x + y)), rtol=1e-6)


def test_several_threads(device: host.HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """One region, each thread with shapes of its own; the emulated device takes one at a time."""
    compiled = compile_region(region_of(TEXT), CONTEXT)
    one_at_a_time = threading.Lock()
    original = device.launch

    def launch(*given: Any) -> None:
        with one_at_a_time:
            original(*given)

    monkeypatch.setattr(device, "launch", launch)
    wrong: list[int] = []

    def run(number: int) -> None:
        generator = np.random.default_rng(number)
        for _ in range(20):
            x = generator.standard_normal((number + 1, 8), np.float32)
            y = generator.standard_normal(8, np.float32)
            (z,) = compiled.run(host.on_host(x), host.on_host(y))
            if not np.allclose(z, np.tanh(x + y), rtol=1e-5):
                wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_signatures_are_bounded() -> None:
    """A region that sees ever new shapes forgets old ones."""
    compiled = compile_region(region_of(TEXT), CONTEXT)
    for rows in range(1, _SIGNATURES + 10):
        compiled.run(host.on_host(floats(rows, 4)), host.on_host(floats(4)))
    assert len(compiled._plans) <= _SIGNATURES


def test_equal_regions_share_a_kernel() -> None:
    before = _flat_kernel.cache_info().currsize
    for name in ("p", "q"):
        text = f"g (float[4] {name}) => (float[4] z{name}) {{ {name}1 = Sinh({name}) z{name} = Atan({name}1) }}"
        check(text, {name: floats(4)})
    assert _flat_kernel.cache_info().currsize == before + 1


def test_a_zero_divisor() -> None:
    """Is raised when the stream was waited for, with the node's name; other elements are computed."""
    text = "g (int32[4, 1] x, int32[4, 1] y) => (int32[4, 1] z) { a = Abs(x) z = Div(a, y) }"
    feeds = {"x": np.array([[6], [7], [8], [9]], np.int32), "y": np.array([[3], [0], [2], [1]], np.int32)}
    with pytest.raises(KernelInputError, match="Integer division by zero") as caught:
        outputs_of(region_of(text), feeds)
    assert "node 'z'" in str(caught.value)
    faults.raise_if_any(host.STREAM)


def test_shapes_that_do_not_broadcast() -> None:
    compiled = compile_region(region_of(TEXT), CONTEXT)
    with pytest.raises(InvalidArgument, match="cannot be broadcast together"):
        compiled.run(host.on_host(floats(3, 4)), host.on_host(floats(5)))


def test_the_providers_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """`regions.compile` takes memory from CuPy, which the stream has made the provider's."""
    monkeypatch.setattr(modules.cupy(), "empty", host.xp.empty, raising=False)
    compiled = regions.compile(region_of(TEXT))
    assert isinstance(compiled, CodeRegion)
    (z,) = compiled.run(host.on_host(floats(2, 4)), host.on_host(floats(4)))
    assert z.shape == (2, 4)


_UNARY = ("Tanh", "Sigmoid", "Neg", "Abs", "Relu", "Sin", "Softplus", "Gelu", "Floor")
_BINARY = ("Add", "Sub", "Mul", "Max", "Min")
_ROWS = ("ReduceMax", "ReduceMean", "ReduceSum", "Softmax")


@pytest.mark.parametrize("seed", range(25))
def test_random_regions(seed: int) -> None:
    """Ten operators on operands of any shape that broadcasts, with reductions in between; all that is claimed."""
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 6)), int(rng.integers(1, 70))
    shapes = {"x": (rows, columns), "b": (columns,), "c": (rows, 1), "d": (1, 1)}
    names = list(shapes)
    lines = []
    for number in range(10):
        kind = rng.integers(0, 5)
        first, second = (names[int(one)] for one in rng.integers(0, len(names), 2))
        if kind == 0 and seed % 2:
            op_type = _ROWS[int(rng.integers(0, len(_ROWS)))]
            whole = [one for one in names if one == "x" or one.startswith("w")]
            chosen = whole[int(rng.integers(0, len(whole)))]
            lines.append(f"r{number} = {op_type}({chosen}{'' if op_type == 'Softmax' else ', axes'})")
            names.append(f"r{number}")
        elif kind < 3:
            lines.append(f"w{number} = {_BINARY[int(rng.integers(0, len(_BINARY)))]}(x, {second})")
            names.append(f"w{number}")
        else:
            lines.append(f"v{number} = {_UNARY[int(rng.integers(0, len(_UNARY)))]}({first})")
            names.append(f"v{number}")
    inputs = ", ".join(f"float[{', '.join(map(str, shape))}] {name}" for name, shape in shapes.items())
    made = [name for name in names if name not in shapes]
    outputs = ", ".join(f"float {name}" for name in made)
    text = f"g ({inputs}) => ({outputs}) <int64[1] axes = {{-1}}> {{ {' '.join(lines)} }}"
    feeds: dict[str, Any] = {
        name: rng.standard_normal(shape, np.float32) if shape else np.float32(0.5) for name, shape in shapes.items()
    }
    graph = view_of(text)
    wanted = dict(zip(made, reference_run(model_from_text(text), feeds), strict=True))
    known = {**feeds, **wanted}
    groups = node_groups(graph, range(len(graph.nodes)))
    for group in groups:
        region = graph.region(group)
        found = outputs_of(region, {value.name: known[value.name] for value in region.inputs})
        for name, array in found.items():
            agree(array, wanted[name])
