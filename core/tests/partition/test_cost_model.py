"""Whether an island pays."""

from __future__ import annotations

import math

import pytest

from core.tests.driving import HostProvider, typed_model
from ort_py.contracts import IExecutionProvider, NodeSpec
from ort_py.graph.view import ModelGraphView
from ort_py.partition.cost_model import AlwaysPays, Island, TransferCostModel, host_cost
from ort_py.testing.fake_device import FakeBehaviour, FakeProvider

SMALL = ModelGraphView(typed_model("g (float[4] x) => (float[4] y) { y = Relu(x) }").graph)
LARGE = ModelGraphView(
    typed_model("g (float[2048,2048] x, float[2048,2048] w) => (float[2048,2048] y) { y = MatMul(x, w) }").graph
)
UNKNOWN = ModelGraphView(typed_model("g (float x, float[n] w) => (float y) { y = Add(x, w) }").graph)


def island(provider: IExecutionProvider, cost_us: float | None = None, inputs: tuple[str, ...] = ("x",)) -> Island:
    """The first node as an island with one result."""
    return Island((0,), provider, inputs, ("y",), cost_us)


def test_a_small_island_on_a_device_is_refused_with_figures() -> None:
    """The reason names nodes, both times, bytes and values."""
    text = TransferCostModel().refusal(SMALL, island(FakeProvider()))
    assert text == (
        "does not pay: 1 node(s) take about 2 µs on the host, 6 µs there plus 24 µs to copy 32 bytes in 2 value(s)"
    )


def test_a_large_product_pays() -> None:
    """2048³ multiplications outweigh 48 MB of copies."""
    assert TransferCostModel().refusal(LARGE, island(FakeProvider(), inputs=("x", "w"))) is None


def test_islands_on_the_host_always_pay() -> None:
    """They cross no border."""
    assert TransferCostModel().refusal(SMALL, island(HostProvider())) is None


def test_a_claims_own_cost_beats_the_estimate() -> None:
    """A provider that knows better decides both ways."""
    assert TransferCostModel().refusal(SMALL, island(FakeProvider(), -math.inf)) is None
    assert "does not pay" in str(TransferCostModel().refusal(LARGE, island(FakeProvider(), 1e9, ("x", "w"))))


def test_a_providers_estimate_beats_the_cores() -> None:
    """`estimate_cost` is asked for each node of a claim without a cost."""
    slow = FakeProvider(behaviour=FakeBehaviour(cost_us=1e9))
    assert "1000000000 µs there" in str(TransferCostModel().refusal(LARGE, island(slow, None, ("x", "w"))))


def test_a_broken_estimate_refuses_the_island() -> None:
    """A plug-in's exception becomes the reason, not the session's end."""

    class Broken(FakeProvider):
        def estimate_cost(self, node: NodeSpec) -> float | None:
            raise ZeroDivisionError("no peak")

    text = TransferCostModel().refusal(SMALL, island(Broken()))
    assert text == "estimate_cost raised ZeroDivisionError: no peak"


def test_always_pays() -> None:
    """The model for people who know better refuses nothing."""
    assert AlwaysPays().refusal(SMALL, island(FakeProvider())) is None


@pytest.mark.parametrize("view", [SMALL, LARGE, UNKNOWN])
def test_every_node_has_a_cost(view: ModelGraphView) -> None:
    """Unknown ranks and dimensions are guessed, never an error."""
    assert 0 < host_cost(view.nodes[0]) < math.inf


def test_work_grows_with_the_contraction() -> None:
    """The product costs about 2·n³ operations."""
    assert host_cost(LARGE.nodes[0]) == pytest.approx(2 * 2048**3 / 20_000, rel=0.01)
