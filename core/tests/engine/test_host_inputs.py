"""Regions on a device learn which of their inputs are on the host, and get them there where they ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import ort_py
from core.tests.small_models import CPU, model_bytes
from ort_py.contracts import CompiledRegion, IExecutionProvider, ProviderFactory, RegionView, SessionContext
from ort_py.devices import HOST
from ort_py_kit.fake_provider import FakeBehaviour, FakeFactory, FakeProvider

NAME = "FakeExecutionProvider"
FED = "g (float[2, 3] x, int64[2] s) => (float[3, 2] y) { a = Relu(x) y = Reshape(a, s) }"
MADE = """g (float[2, 3] x, float[3, 2] z) => (float[3, 2] y) {
    t = Abs(z) u = Neg(t) s = Shape(u) a = Relu(x) y = Reshape(a, s)
}"""
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


class Watching(FakeProvider):
    """Records the inputs of its regions."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.told: list[tuple[list[str], frozenset[str]]] = []

    def compile(self, region: RegionView) -> CompiledRegion:
        self.told.append(([value.name for value in region.inputs], region.host_inputs))
        return super().compile(region)


class Factory(FakeFactory):
    """Makes one provider, and keeps it."""

    def __init__(self, *operators: str) -> None:
        super().__init__(NAME)
        self.made = Watching(None, FakeBehaviour(operators=operators, compiles=True), NAME)

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return self.made


def run(text: str, feeds: Mapping[str, Any], provider: Watching) -> Any:
    """The result of the second run of a session, whose copies alone are kept."""
    options = ort_py.SessionOptions()
    options.cost_model, options.cache_dir, options.pin_cpu = "always", "off", True
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    with ort_py.InferenceSession(model_bytes(text), options, providers=[NAME, *CPU]) as session:
        session.run(None, dict(feeds))
        provider.transfer.copies.clear()
        result, *_ = session.run(None, dict(feeds))
    return result


def test_what_is_fed_is_on_the_host(register: Callable[[ProviderFactory], None]) -> None:
    """The region reads the shape there: it travels neither to the device nor back."""
    factory = Factory("Relu", "Reshape")
    register(factory)
    result = run(FED, {"x": X, "s": np.array([3, 2])}, factory.made)
    np.testing.assert_array_equal(result, np.maximum(X, 0).reshape(3, 2))
    assert factory.made.told == [(["x", "s"], frozenset({"x", "s"}))]
    assert [(source, nbytes) for source, _, nbytes in factory.made.transfer.copies] == [
        (HOST, X.nbytes),
        (factory.made.device, X.nbytes),
    ]


def test_what_a_host_kernel_makes_is_on_the_host(register: Callable[[ProviderFactory], None]) -> None:
    """A shape that the CPU provider computes is, what the device computes is not."""
    factory = Factory("Relu", "Reshape")
    register(factory)
    result = run(MADE, {"x": X, "z": X.reshape(3, 2)}, factory.made)
    np.testing.assert_array_equal(result, np.maximum(X, 0).reshape(3, 2))
    assert factory.made.told == [(["x", "s"], frozenset({"x", "s"}))]
    assert len(factory.made.transfer.copies) == 2


def test_what_another_region_makes_is_not(register: Callable[[ProviderFactory], None]) -> None:
    """The second region reads a value of the first, which is on the device."""
    text = """g (float[2, 3] x, int64[2] s) => (float[3, 2] y, float[2, 3] b) {
        a = Relu(x) b = Sigmoid(a) c = Mul(a, b) y = Reshape(c, s)
    }"""
    factory = Factory("Relu", "Mul", "Reshape")
    register(factory)
    run(text, {"x": X, "s": np.array([3, 2])}, factory.made)
    ((names, host),) = [told for told in factory.made.told if "s" in told[0]]
    assert set(names) == {"a", "b", "s"}
    assert host == {"b", "s"}
