"""ArrayModuleProvider: every operator from a module, an allocator and a copy; what arrays cannot hold is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.contracts import (
    Availability,
    IExecutionProvider,
    NodeSpec,
    ProviderFactory,
    SessionContext,
)
from ort_py.devices import HOST, Device
from ort_py_array import ArrayModuleProvider, LibraryKernels
from ort_py_kit.fake_device import FakeAllocator, FakeDevice, FakeTransfer, module_of
from ort_py_kit.graphs import model_from_text
from ort_py_kit.subject import forget_providers

NAME = "ToyExecutionProvider"


class ToyProvider(ArrayModuleProvider):
    """The library on a fake device, whose module has no hyperbolic functions, as it says."""

    def __init__(self) -> None:
        self.owner = FakeDevice()
        super().__init__(
            NAME,
            module_of(self.owner),
            device=self.owner.device,
            allocator=FakeAllocator(self.owner),
            transfers=[FakeTransfer(self.owner)],
            new_stream=self.owner.create_stream,
        )

    def refusal(self, node: NodeSpec) -> str | None:
        return "the device has no hyperbolic functions" if node.op_type in {"Sinh", "Cosh"} else None


class ToyFactory(ProviderFactory):
    """Makes them."""

    @property
    def name(self) -> str:
        return NAME

    def probe(self) -> Availability:
        return Availability(True, devices=(Device("fake", 0),))

    def create(self, options: Any, context: SessionContext) -> IExecutionProvider:
        return ToyProvider()


@pytest.fixture
def toy() -> Iterator[None]:
    """The provider, registered."""
    ort_py.register_provider(ToyFactory())
    yield
    forget_providers()


def session(text: str) -> ort_py.InferenceSession:
    """A session of a graph in text, with the provider ahead."""
    options = ort_py.SessionOptions()
    options.cost_model = "always"
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.pin_cpu = True
    options.cache_dir = "off"
    return ort_py.InferenceSession(
        model_from_text(text).SerializeToString(), options, [NAME, "CPUExecutionProvider"], enable_fallback=0
    )


def test_a_provider_of_the_host_needs_a_name() -> None:
    """NumPy's module, the host's memory, no copies, no streams, the whole library."""
    provider = ArrayModuleProvider(NAME)
    assert provider.name == NAME
    assert provider.array_module is np
    assert provider.device == HOST
    assert provider.allocator() is None
    assert provider.data_transfers() == ()
    assert provider.create_stream() is None
    assert isinstance(provider.kernel_registry(), LibraryKernels)


@pytest.mark.usefixtures("toy")
def test_operators_run_on_the_device() -> None:
    """Kernels of several families, copies and waits between them, the right numbers."""
    text = (
        "g (float[2, 3] x) => (float[2, 2] y) { s = Softmax(x)\n t = Transpose<perm = [1, 0]>(s)\n y = MatMul(s, t) }"
    )
    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    with session(text) as made:
        (y,) = made.run(None, {"x": x})
        assert made.placement.counts() == {NAME: 3}
    s = np.exp(x - x.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    np.testing.assert_allclose(y, s @ s.T, rtol=1e-5)


@pytest.mark.usefixtures("toy")
def test_what_arrays_cannot_hold_is_refused() -> None:
    """Strings, and element types that only NumPy has with `ml_dtypes`, with the value's name."""
    with session("g (string[2] x) => (string[2] y) { y = StringConcat(x, x) }") as made:
        (node,) = made.placement.nodes
        assert node.provider == "CPUExecutionProvider"
        assert node.refusals[0][1] == "'x' is tensor(string), which arrays of fake:0 cannot hold"
    with session("g (bfloat16[2] x) => (bfloat16[2] y) { y = Neg(x) }") as made:
        assert {provider for _, provider in _runners(made)} == {"CPUExecutionProvider"}


@pytest.mark.usefixtures("toy")
def test_nodes_may_be_refused() -> None:
    """By the subclass, with its reason."""
    with session("g (float[2] x) => (float[2] y) { a = Sinh(x)\n y = Abs(a) }") as made:
        assert dict(_runners(made)) == {"Sinh": "CPUExecutionProvider", "Abs": NAME}
        (sinh,) = [node for node in made.placement.nodes if node.op_type == "Sinh"]
        assert "the device has no hyperbolic functions" in [reason for _, reason in sinh.refusals]


def _runners(made: ort_py.InferenceSession) -> list[tuple[str, str]]:
    return [(node.op_type, node.provider) for node in made.placement.nodes]
