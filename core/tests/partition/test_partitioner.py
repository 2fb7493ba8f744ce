"""Assigning nodes: by rank, each exactly once, with every refusal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.driving import HostProvider, drive, floats, reference, typed_model
from ort_py.contracts import Capability, Claim, ClaimKind, GraphView, IExecutionProvider, KernelLookup, NodeSpec
from ort_py.graph.ir import Model, walk
from ort_py.kernels.registry import KernelRegistry
from ort_py.partition.assignment import CORE, Assignment, RunnerKind
from ort_py.partition.cost_model import CostModel, always_pays, transfer_costs
from ort_py.partition.partitioner import partition
from ort_py.planning.schedule import schedule
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider

CHAIN = """
g (float[4] x) => (float[4] y) {
  a = Relu(x)
  b = Neg(a)
  y = Abs(b)
}
"""

LOOP = """
g (float[4] x, bool c) => (float[4] y) {
  a = Relu(x)
  y = If (c) <
    then_branch = t () => (float[4] r) { r = Neg(a) },
    else_branch = e () => (float[4] s) { s = Abs(a) }
  >
}
"""


def assign(
    model: Model | str, *providers: IExecutionProvider, cost_model: CostModel | None = None
) -> tuple[Model, Assignment, list[tuple[str, Exception]]]:
    """Partition without insisting that every node finds somebody."""
    model = typed_model(model) if isinstance(model, str) else model
    kernels = KernelRegistry()
    for provider in providers:
        kernels.register(provider.name, provider.kernel_registry(), "test")
    errors: list[tuple[str, Exception]] = []
    found = partition(
        model.graph, providers, kernels, cost_model or always_pays(), lambda name, error: errors.append((name, error))
    )
    return model, found, errors


def test_rank_decides() -> None:
    """The first provider with a kernel takes a node, the next completes, and the refusal is kept."""
    _, found, _ = assign(CHAIN, FakeProvider(behaviour=FakeBehaviour(operators={"Neg"})), HostProvider())
    by_op = {node.op_type: assigned for node, assigned in found}
    assert by_op["Neg"].provider == "FakeExecutionProvider"
    assert by_op["Neg"].reason == "fake kernel"
    assert by_op["Relu"].provider == by_op["Abs"].provider == "HostExecutionProvider"
    assert by_op["Relu"].refusals == (("FakeExecutionProvider", "no kernel for Relu"),)
    assert found.counts() == {"FakeExecutionProvider": 1, "HostExecutionProvider": 2}


def test_nodes_nobody_takes_have_every_refusal() -> None:
    """Unassigned nodes are returned, not raised: they may be expanded to their function body."""
    _, found, _ = assign(
        CHAIN,
        FakeProvider(behaviour=FakeBehaviour(operators={"Neg"})),
        FakeProvider(behaviour=FakeBehaviour(operators={"Abs"}), name="Other"),
    )
    ((node, refusals),) = found.unassigned.items()
    assert node.op_type == "Relu"
    assert refusals == (("FakeExecutionProvider", "no kernel for Relu"), ("Other", "no kernel for Relu"))


def test_a_claimed_region_is_one_unit() -> None:
    """Compiled nodes know their region; its provider gets no kernel steps for them."""
    model, found, _ = assign(CHAIN, FakeProvider(behaviour=FakeBehaviour(compiles=True)), HostProvider())
    (region,) = found.regions[model.graph]
    assert [node.op_type for node in region.nodes] == ["Relu", "Neg", "Abs"]
    assert {assigned.region for _, assigned in found} == {region}
    assert {assigned.runner for _, assigned in found} == {RunnerKind.REGION}


def test_a_region_that_is_not_convex_is_split() -> None:
    """A node in the middle that the compiler cannot take cuts the region in two."""
    text = "g (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) y = Add(a, b) }"
    provider = FakeProvider(behaviour=FakeBehaviour(compiles=True, operators={"Relu", "Add"}))

    class Whole(FakeProvider):
        def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
            return Capability((Claim((0, 2), ClaimKind.COMPILE),))

    for chosen in (provider, Whole(behaviour=FakeBehaviour(operators={"Relu", "Add"}))):
        model, found, _ = assign(text, chosen, HostProvider())
        assert [len(region.nodes) for region in found.regions[model.graph]] == [1, 1]


class Selective(FakeProvider):
    """Takes all as one region, and says that what is left of it does not pay."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(behaviour=FakeBehaviour(compiles=True), name="Selective")
        self.asked: list[list[str]] = []
        self.error = error

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        self.asked.append([node.op_type for node in nodes])
        if self.error is not None:
            raise self.error
        return f"{len(nodes)} left"


@pytest.mark.parametrize(
    ("error", "reason"), [(None, "1 left"), (RuntimeError("broken"), "group_refusal raised RuntimeError: broken")]
)
def test_what_is_left_of_a_claim_may_go_to_the_next(error: Exception | None, reason: str) -> None:
    """A provider before it took the rest, and its own rule says that so little is not worth a region."""
    selective = Selective(error)
    first = FakeProvider(behaviour=FakeBehaviour(operators={"Relu", "Neg"}))
    model, found, _ = assign(CHAIN, first, selective, HostProvider())
    assert selective.asked == [["Abs"]]
    assert found.regions[model.graph] == []
    (last,) = [assigned for node, assigned in found if node.op_type == "Abs"]
    assert last.provider == "HostExecutionProvider"
    assert last.refusals[1] == ("Selective", reason)


def test_what_is_left_of_a_claim_may_go_to_several_regions() -> None:
    """The next compiler takes a node in the middle of the rest, which is no unit any more."""

    class Middle(FakeProvider):
        def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
            return Capability((Claim((1,), ClaimKind.COMPILE),))

    text = "g (float[4] x) => (float[4] y) { a = Relu(x) b = Neg(a) c = Abs(b) y = Exp(c) }"
    first = FakeProvider(behaviour=FakeBehaviour(operators={"Exp"}))
    middle = Middle(behaviour=FakeBehaviour(compiles=True), name="Middle")
    model, found, _ = assign(text, first, Selective(), middle, HostProvider())
    assert not found.unassigned
    assert [[node.op_type for node in region.nodes] for region in found.regions[model.graph]] == [["Neg"]]
    assert found.counts() == {"FakeExecutionProvider": 1, "Middle": 1, "HostExecutionProvider": 2}


def test_what_is_left_of_a_claim_stays_where_nobody_is_next() -> None:
    """A small region is better than none, and after a whole claim no other provider is asked."""
    selective = Selective()
    model, found, _ = assign(CHAIN, FakeProvider(behaviour=FakeBehaviour(operators={"Relu", "Neg"})), selective)
    assert [len(region.nodes) for region in found.regions[model.graph]] == [1]
    whole = Selective()
    model, found, _ = assign(CHAIN, whole, HostProvider())
    assert [len(region.nodes) for region in found.regions[model.graph]] == [3]
    assert whole.asked == []


def test_a_region_named_twice_is_taken_once() -> None:
    """Claims that overlap share no node: the first gets it."""

    class Greedy(FakeProvider):
        def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
            return Capability((Claim((0, 1), ClaimKind.COMPILE), Claim((1, 2), ClaimKind.COMPILE), Claim((2, 77))))

    model, found, _ = assign(CHAIN, Greedy(), HostProvider())
    assert [len(region.nodes) for region in found.regions[model.graph]] == [2, 1]
    assert not found.unassigned


def test_an_island_that_does_not_pay_stays() -> None:
    """A refused island goes to the next provider with the cost model's reason, for kernels and for regions."""
    for compiles in (False, True):
        provider = FakeProvider(behaviour=FakeBehaviour(compiles=compiles))
        _, found, _ = assign(CHAIN, provider, HostProvider(), cost_model=transfer_costs())
        assert found.counts() == {"HostExecutionProvider": 3}
        for _, assigned in found:
            ((name, reason),) = assigned.refusals
            assert name == "FakeExecutionProvider"
            assert reason.startswith("does not pay: 3 node(s)")


def test_a_stated_cost_is_that_of_the_whole_claim() -> None:
    """A claim of three nodes at 3e9 µs costs that once, whether it is kept whole or split."""

    class Costly(FakeProvider):
        kind = ClaimKind.KERNEL

        def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
            return Capability((Claim((0, 1, 2), self.kind, cost_us=3e9),))

    class CostlyRegion(Costly):
        kind = ClaimKind.COMPILE

    for provider in (Costly(), CostlyRegion()):
        _, found, _ = assign(CHAIN, provider, HostProvider(), cost_model=transfer_costs())
        reasons = {assigned.refusals[0][1] for _, assigned in found}
        (reason,) = reasons
        assert "3000000000 µs there" in reason


def test_islands_that_cost_nothing_are_kept() -> None:
    provider = FakeProvider(behaviour=FakeBehaviour(cost_us=-math.inf))
    _, found, _ = assign(CHAIN, provider, HostProvider(), cost_model=transfer_costs())
    assert found.counts() == {"FakeExecutionProvider": 3}


def test_a_claim_without_a_kernel_is_refused_by_name() -> None:
    """A provider that claims what it has no kernel for loses the node, with the reason."""

    class Boaster(FakeProvider):
        def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
            return Capability((Claim((0,)),))

    _, found, _ = assign(CHAIN, Boaster(behaviour=FakeBehaviour(operators=())), HostProvider())
    first = next(assigned for node, assigned in found if node.op_type == "Relu")
    assert first.provider == "HostExecutionProvider"
    assert first.refusals == (
        ("FakeExecutionProvider", "the provider claimed the node, but has no kernel: no kernel for Relu"),
    )


def test_a_provider_that_raises_loses_the_graph_only() -> None:
    """Its exception is reported to the session and is among the refusals; others take the nodes."""
    _, found, errors = assign(CHAIN, FakeProvider(behaviour=FakeBehaviour(fail_capability=True)), HostProvider())
    assert found.counts() == {"HostExecutionProvider": 3}
    ((name, error),) = errors
    assert name == "FakeExecutionProvider"
    assert "set to fail" in str(error)
    assert {assigned.refusals[0][1] for _, assigned in found} == {
        "get_capability raised RuntimeError: set to fail in get_capability"
    }


def test_an_answer_that_is_no_capability_counts_as_an_exception() -> None:
    """A plug-in that returns None does not take the session with it."""

    class Silent(FakeProvider):
        def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
            return None  # type: ignore[return-value]  # what is tested

    _, found, errors = assign(CHAIN, Silent(), HostProvider())
    assert found.counts() == {"HostExecutionProvider": 3}
    assert "it returned a NoneType, not a Capability" in str(errors[0][1])


def test_control_flow_is_the_cores_and_bodies_are_partitioned() -> None:
    """If is a step of the core; each body's nodes find providers like any others."""
    model, found, _ = assign(LOOP, FakeProvider(behaviour=FakeBehaviour(operators={"Neg"})), HostProvider())
    runners = {node.op_type: assigned.provider for node, assigned in found}
    assert runners == {
        "Relu": "HostExecutionProvider",
        "If": CORE,
        "Neg": "FakeExecutionProvider",
        "Abs": "HostExecutionProvider",
    }
    assert len(list(walk(model.graph))) == 3
    branch = next(assigned for node, assigned in found if node.op_type == "If")
    assert dict(branch.refusals) == {
        "FakeExecutionProvider": "no kernel for If",
        "HostExecutionProvider": "no kernel for If",
    }


def test_a_node_that_is_run_whole_takes_its_bodies_along() -> None:
    """Nodes inside a claimed If belong to the region: no other provider is asked about them."""

    class Whole(FakeProvider):
        def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
            return Capability((Claim((1,), ClaimKind.COMPILE, "whole If"),))

    _model, found, _ = assign(LOOP, Whole(), HostProvider())
    runners = {node.op_type: assigned.provider for node, assigned in found}
    assert runners == {"Relu": "HostExecutionProvider", "If": "FakeExecutionProvider"}


@st.composite
def graphs(draw: st.DrawFn) -> tuple[str, list[frozenset[str]]]:
    """A random model over five operators and what three providers can do."""
    operators = ["Relu", "Neg", "Abs", "Add", "Mul"]
    count = draw(st.integers(1, 12))
    lines: list[str] = []
    for index in range(count):
        operator = draw(st.sampled_from(operators))
        names = ["x"] + [f"v{source}" for source in range(index)]
        read = [draw(st.sampled_from(names)) for _ in range(2 if operator in ("Add", "Mul") else 1)]
        lines.append(f"v{index} = {operator}({', '.join(read)})")
    outputs = sorted(draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3)) | {count - 1})
    declared = ", ".join(f"float[3] v{index}" for index in outputs)
    able = [frozenset(draw(st.sets(st.sampled_from(operators)))) for _ in range(2)]
    return "g (float[3] x) => (" + declared + ") {\n" + "\n".join(lines) + "\n}", able


@settings(deadline=None)  # a busy machine is not a failure
@given(graphs(), st.tuples(st.booleans(), st.booleans()))
def test_every_node_has_one_runner_and_regions_can_be_scheduled(
    case: tuple[str, list[frozenset[str]]], compiles: tuple[bool, bool]
) -> None:
    """For any claims of two providers, an order exists and the results are right."""
    text, able = case
    providers = [
        FakeProvider(behaviour=FakeBehaviour(operators=operators, compiles=compiled), name=name)
        for name, operators, compiled in zip(("First", "Second"), able, compiles, strict=True)
    ]
    providers[1].owner = providers[0].owner  # both on one device, as two libraries for one accelerator are
    providers[1].transfer = providers[0].transfer
    model, found, _ = assign(text, *providers, HostProvider())
    assert {node for node, _ in found} == set(model.graph.nodes)
    regions = found.regions[model.graph]
    assert len([node for region in regions for node in region.nodes]) == len(
        [1 for _, assigned in found if assigned.runner is RunnerKind.REGION]
    )
    schedule(model.graph, regions)
    feeds = {"x": floats(3)}
    for got, want in zip(drive(text, *providers, HostProvider()).run(feeds), reference(text, feeds), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_graph_name_is_in_the_regions_name() -> None:
    """Reports tell the regions of two graphs apart."""
    model, found, _ = assign(CHAIN, FakeProvider(behaviour=FakeBehaviour(compiles=True)))
    assert [region.name for region in found.regions[model.graph]] == ["FakeExecutionProvider_g_0"]


@pytest.mark.parametrize("name", ["If", "Loop", "Scan"])
def test_control_flow_of_another_domain_is_an_ordinary_node(name: str) -> None:
    """Only ai.onnx's operators are steps of the core."""
    text = f"""
    <ir_version: 10, opset_import: ["" : 21, "com.example" : 1]>
    g (float[3] x) => (float[3] y) {{ y = com.example.{name}(x) }}
    <domain: "com.example", opset_import: ["" : 21]>
    {name} (x) => (y) {{ y = Relu(x) }}
    """
    _, found, _ = assign(text, HostProvider())
    assert {node.op_type for node, _ in found} == {"Relu"}
