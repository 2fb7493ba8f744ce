"""Providers that do not compute values without elements: kernels answer such runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.given_provider import GivenFactory
from core.tests.small_models import model_bytes
from ort_py.contracts import (
    CompiledRegion,
    FunctionRegion,
    GraphView,
    NodeSpec,
    ProviderFactory,
    RegionProvider,
    RegionView,
)

NAME = "FullExecutionProvider"
WRONG = -77.0
CUT = """g (float[N, 4] x) => (float[4] y) <int64[1] s = {2}, int64[1] e = {9}, int64[1] axes = {0}> {
    a = Abs(x) v = Slice(a, s, e, axes) y = ReduceSum <keepdims = 0> (v, axes)
}"""
CHOSEN = """g (float[N] x) => (float[M] y) <int64[1] z = {0}> {
    i = NonZero(x) f = Squeeze(i, z) a = Cast <to = 1> (f) y = Abs(a)
}"""


class Full(RegionProvider):
    """Compiles everything, and computes `WRONG` numbers, so that it is seen who answered."""

    def __init__(self) -> None:
        self.empty = False
        self.late = True
        self.runs = 0
        self.shape: tuple[int, ...] = (4,)

    @property
    def name(self) -> str:
        return NAME

    @property
    def computes_empty_values(self) -> bool:
        return self.empty

    @property
    def computes_late_broadcasts(self) -> bool:
        return self.late

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None

    def compile(self, region: RegionView) -> CompiledRegion:
        shapes = [self.shape] * len(region.outputs)

        def run(*inputs: Any) -> Sequence[Any]:
            self.runs += 1
            return [np.full(shape, WRONG, np.float32) for shape in shapes]

        return FunctionRegion(run)


@pytest.fixture
def full(register: Callable[[ProviderFactory], None]) -> Full:
    """The provider of the test's sessions."""
    provider = Full()
    register(GivenFactory(provider))
    return provider


def _open(text: str, **options: Any) -> ort_py.InferenceSession:
    settings = ort_py.SessionOptions()
    settings.cache_dir = ""
    settings.cost_model = "always"
    for name, value in options.items():
        setattr(settings, name, value)
    return ort_py.InferenceSession(model_bytes(text), settings, providers=[NAME, "CPUExecutionProvider"])


def test_a_value_that_is_empty_in_a_run(full: Full) -> None:
    """Kernels answer each run whose slice is empty, the region all others; none of it is a fallback."""
    session = _open(CUT)
    for rows, wanted in ((2, 0.0), (2, 0.0), (5, WRONG), (1, 0.0), (0, 0.0), (3, WRONG)):
        (y,) = session.run(None, {"x": np.ones((rows, 4), np.float32)})
        np.testing.assert_array_equal(y, np.full(4, wanted, np.float32))
    assert full.runs == 2
    assert not session.fallback_report
    assert "is empty, which the provider does not compute" in str(session.plan)


def test_a_provider_that_computes_them(full: Full) -> None:
    full.empty = True
    session = _open(CUT)
    (y,) = session.run(None, {"x": np.ones((2, 4), np.float32)})
    np.testing.assert_array_equal(y, np.full(4, WRONG, np.float32))


def test_sizes_that_only_the_run_shows(full: Full) -> None:
    """The node that makes such a size is kept out of regions, with the reason; those behind it are not."""
    session = _open(CHOSEN)
    by_type = {node.op_type: node for node in session.placement.nodes}
    assert {name: node.provider for name, node in by_type.items()} == {
        "NonZero": "CPUExecutionProvider",
        "Squeeze": NAME,
        "Cast": NAME,
        "Abs": NAME,
    }
    reason = dict(by_type["NonZero"].refusals)[NAME]
    assert reason == (
        "its provider computes no empty values, and the size of 'i' depends on the data of a run: it may be 0"
    )
    (y,) = session.run(None, {"x": np.zeros(3, np.float32)})
    assert y.shape == (0,)


@pytest.mark.parametrize("late", [True, False])
def test_windows_that_only_the_run_shows_to_be_too_large(full: Full, late: bool) -> None:
    """Kernels answer runs whose data are smaller than the window of a pool, unless the provider computes them."""
    full.empty, full.late, full.shape = True, late, (1, 4, 1)
    session = _open(
        "g (float[1, 4, N] x) => (float[1, 4, M] y) { y = MaxPool <kernel_shape = [3], strides = [3]> (x) }"
    )
    for size, region in ((3, True), (2, late), (1, late), (5, True)):
        x = np.arange(4 * size, dtype=np.float32).reshape(1, 4, size)
        (y,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, np.full((1, 4, 1), WRONG) if region else x.max(2, keepdims=True))
