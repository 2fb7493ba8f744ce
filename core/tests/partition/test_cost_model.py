"""The cost of a placement, and the islands that pay."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from core.tests.driving import HostProvider, typed_model
from ort_py.contracts import Capability, Claim, ClaimKind, GraphView, IExecutionProvider, KernelLookup, NodeSpec
from ort_py.devices import HOST, Device
from ort_py.kernels.registry import KernelRegistry
from ort_py.partition.assignment import Assignment
from ort_py.partition.cost_model import CostModel, always_pays, transfer_costs
from ort_py.partition.partitioner import partition
from ort_py.partition.rates import DEVICE_RATES, HOST_RATES, Calibration, Rates
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider, fake_kernels

SMALL = "g (float[4] x) => (float[4] y) { y = Relu(x) }"
LARGE = "g (float[2048,2048] x, float[2048,2048] w) => (float[2048,2048] y) { y = MatMul(x, w) }"

FAKE, HOST_NAME = "FakeExecutionProvider", "HostExecutionProvider"
TINY = Rates(launch_us=1.0, node_us=1.0, flops_per_us=1e3, bytes_per_us=1e3)


class Stated(IExecutionProvider):
    """A provider that says what each operator costs: nodes as kernels, or connected ones as one region.

    Args:
        costs: Microseconds of each operator that it takes; None leaves one to the core.
        device: Where it computes.
        name: Its name.
        whole: Claim all nodes that it takes as one region, at the sum of their costs.
    """

    def __init__(
        self,
        costs: Mapping[str, float | None],
        device: Device = HOST,
        name: str = "Stated",
        *,
        whole: bool = False,
    ) -> None:
        self._costs, self._device, self._name, self._whole = costs, device, name, whole

    @property
    def name(self) -> str:
        return self._name

    @property
    def device(self) -> Device:
        return self._device

    def kernel_registry(self) -> list[object]:  # type: ignore[override]  # the fakes' kernels, of any device
        return list(fake_kernels())

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        taken = [node for node in graph.nodes if node.op_type in self._costs]
        if self._whole:
            cost = sum(self._costs[node.op_type] or 0.0 for node in taken)
            return Capability((Claim(tuple([node.index for node in taken]), ClaimKind.COMPILE, "whole", cost),))
        return Capability(tuple([Claim((node.index,)) for node in taken]))

    def estimate_cost(self, node: NodeSpec) -> float | None:
        return self._costs[node.op_type]


def placed(text: str, *providers: IExecutionProvider, model: CostModel | None = None) -> Assignment:
    """The assignment of a model's nodes."""
    kernels = KernelRegistry()
    for provider in providers:
        kernels.register(provider.name, provider.kernel_registry(), "test")

    def fail(name: str, error: Exception) -> None:
        raise AssertionError(f"{name} failed") from error

    return partition(typed_model(text).graph, providers, kernels, model or transfer_costs(), fail)


def runners(found: Assignment) -> list[str]:
    """Provider of each node, in order."""
    return [found.nodes[node].provider for node in sorted(found.nodes, key=lambda node: node.graph.nodes.index(node))]


def reasons(found: Assignment) -> list[str]:
    """Reasons why the first provider does not run the other nodes."""
    return [assigned.refusals[0][1] for _, assigned in found if assigned.refusals]


def chain(operators: Sequence[str], shape: str = "4") -> str:
    """A model of unary operators in a row."""
    lines = [f"v{index + 1} = {operator}(v{index})" for index, operator in enumerate(operators)]
    return f"g (float[{shape}] v0) => (float[{shape}] v{len(operators)}) {{ {' '.join(lines)} }}"


# -- one island ----------------------------------------------------------------------------------------------------


def test_a_small_island_on_a_device_is_refused_with_figures() -> None:
    """The reason names nodes, both times, bytes and values."""
    assert reasons(placed(SMALL, FakeProvider(), HostProvider())) == [
        "does not pay: 1 node(s) take about 2 µs elsewhere, 6 µs there plus 24 µs to copy 32 bytes in 2 value(s)"
    ]


def test_a_large_product_pays() -> None:
    """2048³ multiplications outweigh 48 MB of copies."""
    assert runners(placed(LARGE, FakeProvider(), HostProvider())) == [FAKE]


def test_islands_on_the_host_are_their_providers_affair() -> None:
    """They cross no border: without stated costs, rank decides."""
    assert runners(placed(SMALL, HostProvider(name="First"), HostProvider())) == ["First"]


@pytest.mark.parametrize(("cost", "runner"), [(-math.inf, FAKE), (1e9, HOST_NAME)])
def test_a_claims_own_cost_beats_the_estimate(cost: float, runner: str) -> None:
    """A provider that knows better decides both ways."""
    text = SMALL if cost < 0 else LARGE
    assert runners(placed(text, FakeProvider(behaviour=FakeBehaviour(cost_us=cost)), HostProvider())) == [runner]


def test_a_providers_estimate_beats_the_cores() -> None:
    """`estimate_cost` is asked for each node of a claim without a cost."""
    device = Device("fake", 0)
    assert runners(placed(SMALL, Stated({"Relu": -1e6}, device), HostProvider())) == ["Stated"]
    assert "500 µs there" in reasons(placed(SMALL, Stated({"Relu": 500.0}, device), HostProvider()))[0]


def test_a_broken_estimate_refuses_the_node() -> None:
    """A plug-in's exception becomes the reason, not the session's end."""

    class Broken(FakeProvider):
        def estimate_cost(self, node: NodeSpec) -> float | None:
            raise ZeroDivisionError("no peak")

    assert reasons(placed(SMALL, Broken(), HostProvider())) == ["estimate_cost raised ZeroDivisionError: no peak"]


def test_an_island_that_nobody_else_takes_stays() -> None:
    """Dear is better than not at all."""
    only = HostProvider([kernel for kernel in fake_kernels() if kernel.op_type != "Relu"])
    assert runners(placed(SMALL, FakeProvider(), only)) == [FAKE]


def test_always_pays() -> None:
    """The model for people who know better refuses nothing."""
    assert runners(placed(SMALL, FakeProvider(), HostProvider(), model=always_pays())) == [FAKE]


def test_unknown_sizes_are_guessed() -> None:
    """Unknown ranks and dimensions are allowed."""
    text = "g (float x, float[n] w) => (float y) { y = Add(x, w) }"
    assert runners(placed(text, FakeProvider(), HostProvider())) == [HOST_NAME]


# -- several islands -----------------------------------------------------------------------------------------------


def test_the_edge_of_an_island_that_does_not_pay_leaves() -> None:
    """A product stays on the device; the cheap operators around it go where no copy is needed for them."""
    text = """g (float[512,512] x, float[512,512] w) => (float[512,512] y) {
        a = Neg(x) b = MatMul(a, w) y = Abs(b) }"""
    costs = {"Neg": 50.0, "MatMul": 10.0, "Abs": 50.0}
    found = placed(text, Stated(costs, Device("fake", 0)), Stated({"Neg": 5.0, "MatMul": 9e3, "Abs": 5.0}, name="CPU"))
    assert runners(found) == ["CPU", "Stated", "CPU"]
    assert "does not pay at the edge of its island" in reasons(found)[0]


def test_a_cheap_core_survives_the_loss_of_its_edges() -> None:
    """An island that does not pay as a whole is not given up before its edges are."""
    text = """g (float[512,512] x, float[512,512] w) => (float[512,512] y) {
        a = Neg(x) b = MatMul(a, w) y = Abs(b) }"""
    costs = {"Neg": 50e3, "MatMul": 10.0, "Abs": 50e3}
    found = placed(text, Stated(costs, Device("fake", 0)), Stated({"Neg": 5.0, "MatMul": 9e3, "Abs": 5.0}, name="CPU"))
    assert runners(found) == ["CPU", "Stated", "CPU"]


def test_two_libraries_of_one_device_share_an_island() -> None:
    """Nothing is copied between them: a small part next to a large one of the same device pays."""
    text = """g (float[512,512] x, float[512,512] w) => (float[512,512] y) {
        a = MatMul(x, w) b = Neg(a) y = MatMul(b, w) }"""
    device = Device("fake", 0)
    found = placed(
        text, Stated({"MatMul": 10.0}, device, "Products"), Stated({"Neg": 8.0}, device, "Others"), HostProvider()
    )
    assert runners(found) == ["Products", "Others", "Products"]


def test_fourteen_unsupported_nodes_do_not_make_fifteen_islands() -> None:
    """Where cutting does not pay, the row stays on the host, and every reason names what cut it."""
    row = ["Relu", "Relu", "Neg"] * 14 + ["Relu", "Relu"]
    device = FakeProvider(behaviour=FakeBehaviour(operators={"Relu"}, compiles=True))
    found = placed(chain(row, "1,32,14,14"), device, HostProvider())
    assert set(runners(found)) == {HOST_NAME}
    assert not any(found.regions.values())
    refused = [text for text in reasons(found) if text.startswith("does not pay")]
    assert len(refused) == 30
    assert all("cut off by" in text and "× Neg" in text for text in refused)
    assert any(
        note == "Neg cuts: 14 node(s) that no provider of the device runs separate 15 islands" for note in found.notes
    )


def test_the_same_row_is_cut_where_that_pays() -> None:
    """The parts may save more than their copies cost."""
    row = ["Relu", "Relu", "Neg"] * 14 + ["Relu", "Relu"]
    device = Stated({"Relu": -1e5}, Device("fake", 0), whole=False)
    found = placed(chain(row), device, HostProvider())
    assert runners(found).count("Stated") == 30


# -- whole placements ----------------------------------------------------------------------------------------------


def test_one_provider_alone_is_a_candidate() -> None:
    """Where two that take turns are far slower than the second alone, it gets all; the reasons say so."""
    first = Stated({"Relu": 10.0}, Device("one", 0), "First")
    second = Stated({"Relu": 1.0, "Neg": 1.0}, Device("two", 0), "Second")
    host = Stated({"Relu": 1e3, "Neg": 1e3}, HOST, "CPU")
    found = placed(chain(["Relu", "Neg"] * 6), first, second, host)
    assert set(runners(found)) == {"Second"}
    assert reasons(found)[0].startswith("does not pay")
    assert any("Second alone about" in note and "in order about" in note for note in found.notes)


def test_an_explicit_order_is_left_for_twice_the_speed_only() -> None:
    """A list that a user gives is a strong wish; rank alone is a weaker one."""
    first = Stated({"Relu": 16.0}, HOST, "First")
    second = Stated({"Relu": 10.0}, HOST, "Second")
    # Only whole placements are compared here.
    automatic, explicit = [replace(transfer_costs(explicit=named), island_margin=0.0) for named in (False, True)]
    assert set(runners(placed(chain(["Relu"] * 4), first, second, model=automatic))) == {"Second"}
    assert set(runners(placed(chain(["Relu"] * 4), first, second, model=explicit))) == {"First"}


def test_a_region_on_the_host_is_weighed_where_both_sides_state_costs() -> None:
    """A compiler's own figure against the kernels' own: there is nothing to guess."""
    kernels = Stated({"Relu": 3.0}, HOST, "Kernels")
    assert set(runners(placed(chain(["Relu"] * 3), Stated({"Relu": 9.0}, HOST, whole=True), kernels))) == {"Kernels"}
    assert set(runners(placed(chain(["Relu"] * 3), Stated({"Relu": 1.0}, HOST, whole=True), kernels))) == {"Stated"}
    unknown = HostProvider()
    assert set(runners(placed(chain(["Relu"] * 3), Stated({"Relu": 9.0}, HOST, whole=True), unknown))) == {"Stated"}


def test_bodies_of_control_flow_are_weighed_like_any_graph() -> None:
    """A product inside a branch goes to the device, a small operator beside it does not."""
    text = """g (float[128,128] x, bool c) => (float[128,128] y) {
        y = If (c) <
            then_branch = t () => (float[128,128] r) { r = MatMul(x, x) },
            else_branch = e () => (float[128,128] s) { s = Abs(x) }
        > }"""
    found = placed(text, FakeProvider(), HostProvider())
    by_operator = {node.op_type: assigned.provider for node, assigned in found}
    assert by_operator["MatMul"] == FAKE
    assert by_operator["Abs"] == HOST_NAME


def test_a_provider_that_refuses_every_seventh_node_keeps_what_pays() -> None:
    """The others go to the next; every node has a runner and every refusal a reason."""

    class Seventh(FakeProvider):
        def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
            taken = [node.index for node in graph.nodes if node.index % 7]
            return Capability(tuple([Claim((index,), ClaimKind.KERNEL, "most", -1.0) for index in taken]))

    found = placed(chain(["Relu"] * 20), Seventh(), HostProvider())
    assert len(found.nodes) == 20
    assert all(assigned.refusals for _, assigned in found if assigned.provider == HOST_NAME)


# -- calibration ---------------------------------------------------------------------------------------------------


def test_measured_rates_replace_the_guess() -> None:
    """A bus that is measured to be slow keeps the product on the host."""
    slow = Rates(6.0, 6.0, 4e5, 1e5, copy_us=1e7, copy_bytes_per_us=1.0, measured=True)
    found = placed(LARGE, FakeProvider(), HostProvider(), model=transfer_costs(Calibration({FAKE: slow})))
    assert runners(found) == [HOST_NAME]


def test_rates_survive_json_and_nonsense_does_not() -> None:
    """Written rates are read again; a negative, missing or foreign figure is not accepted."""
    rates = Rates(1.0, 2.0, 3.0, 4.0, measured=True)
    assert Rates.of(rates.to_json()) == rates
    assert "copy_bytes_per_us" not in rates.to_json()
    broken: Collection[Mapping[str, object]] = (
        {},
        rates.to_json() | {"launch_us": -1.0},
        rates.to_json() | {"flops_per_us": 0},
        rates.to_json() | {"node_us": "fast"},
    )
    assert [Rates.of(one) for one in broken] == [None] * 4
    assert Rates.of(rates.to_json() | {"title": "somebody"}) == rates


def test_defaults_are_by_kind_of_device() -> None:
    """Without a measurement the host is the host, and everything else is behind a bus."""
    known = Calibration({HOST_NAME: TINY})
    assert known.of(HostProvider()) is TINY
    assert known.of(FakeProvider()) is DEVICE_RATES
    assert Calibration().of(HostProvider()) is HOST_RATES
    assert np.isfinite(DEVICE_RATES.copy_bytes_per_us)
