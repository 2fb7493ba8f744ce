"""Islands and borders on flows in a few letters."""

from __future__ import annotations

from core.tests.inspection.placement.flows import flow_from, value
from ort_py.inspection.placement.flow import Flow, FlowGraph
from ort_py.inspection.placement.islands import Island, borders_of, copied_bytes, island_groups

NONE = ("",) * 20


def chain(count: int) -> list[tuple[int, int]]:
    """Each node reads the one before."""
    return [(node, node + 1) for node in range(count - 1)]


def test_a_chain_is_cut_where_the_provider_changes() -> None:
    """Three pieces of a chain, in the order in which they run."""
    groups = island_groups(flow_from(5, chain(5)), "AABAA", NONE, "BA")
    assert groups == [[0, 1], [2], [3, 4]]


def test_what_can_be_ready_before_does_not_cut() -> None:
    """A value that the completing provider computes early, as masks are, leaves the others in one piece."""
    edges = [(0, 1), (1, 2), (3, 1), (3, 2)]
    assert island_groups(flow_from(4, edges), "AAAB", NONE, "BA") == [[3], [0, 1, 2]]


def test_islands_do_not_wait_for_each_other() -> None:
    """Two groups that hang together, each of which needs a part of the other, are cut."""
    edges = [(0, 1), (0, 2), (3, 4), (3, 5), (1, 4), (5, 2)]  # A: 0 1 2, B: 3 4 5
    groups = island_groups(flow_from(6, edges), "AAABBB", NONE, "BA")
    assert groups == [[3, 5], [0, 1, 2], [4]]


def test_what_does_not_hang_together_is_two_islands() -> None:
    """Nodes of one provider without a value between them."""
    assert sorted(island_groups(flow_from(3, [(0, 1), (0, 2)]), "BAA", NONE, "BA")) == [[0], [1], [2]]


def test_a_region_is_an_island() -> None:
    """Also beside kernels of its provider, and where nothing flows between its parts."""
    groups = island_groups(flow_from(4, chain(4)), "AAAA", ("r0", "r0", "", "r1"), "A")
    assert groups == [[0, 1], [2], [3]]


def test_nested_graphs_have_islands_of_their_own() -> None:
    """A reader in a nested graph stands for the node that holds it: what comes before it in the outer graph waits."""
    flow = flow_from(4, [(0, 3), (1, 2)], owners=[(1, [3])])
    assert island_groups(flow, "ACAA", NONE, "CA") == [[0], [1], [2], [3]]
    assert list(flow.edges()) == [(0, 1), (1, 2)]


def test_twenty_thousand_nodes_are_no_matter() -> None:
    """No recursion: a chain that changes provider with each node."""
    count = 20_000
    groups = island_groups(flow_from(count, chain(count)), "AB" * (count // 2), ("",) * count, "BA")
    assert len(groups) == count


def borders(devices: dict[str, str]) -> list[tuple[int, int, str, bool]]:
    """Borders of the caller's x, read by node 0 of A, whose value node 1 of B reads and returns."""
    flow = Flow(
        (FlowGraph("g", -1, (0, 1)),),
        (0, 0),
        (value("x", -1, [0]), value("a", 0, [1]), value("y", 1, [], returned=True)),
    )
    islands = [Island(0, "A", "", 0, (0,)), Island(1, "B", "", 0, (1,))]
    found = borders_of(flow, islands, devices, "cpu:0")
    return [(one.source, one.target, one.value.name, one.copied) for one in found]


def test_on_one_device_nothing_is_copied() -> None:
    """The caller's feeds and results cross no border there."""
    assert borders({"A": "cpu:0", "B": "cpu:0"}) == [(0, 1, "a", False)]


def test_another_device_takes_copies() -> None:
    """Feeds to it and values of it are copied; results on the host are not."""
    assert borders({"A": "fake:0"}) == [(-1, 0, "x", True), (0, 1, "a", True)]
    assert borders({"B": "fake:0"}) == [(0, 1, "a", True), (1, -1, "y", True)]


def test_bytes_count_once_for_each_device() -> None:
    """Two islands on one device share the copy. Symbolic sizes are kept apart."""
    known, unknown = value("a", 0, [1, 2], 100), value("b", 0, [1], None)
    flow = Flow((FlowGraph("g", -1, (0, 1, 2)),), (0, 0, 0), (known, unknown))
    islands = [Island(0, "A", "", 0, (0,)), Island(1, "B", "", 0, (1,)), Island(2, "B", "", 0, (2,))]
    found = borders_of(flow, islands, {"B": "fake:0"}, "cpu:0")
    assert len(found) == 3
    assert copied_bytes(found) == (100, ("4 bytes × N",))
