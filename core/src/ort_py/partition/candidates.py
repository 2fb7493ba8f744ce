"""The choice of the cheapest placement of a graph: providers in the session's order, the host alone, or one provider
first.

Between `islands`, which improves each of them, and `partitioner`, which carries the chosen one out. The session's order
stays unless another is faster by a margin: estimates are rough, and an order that a user gives is a wish. Where all
providers are on the host and do not say what their nodes cost, nothing is compared: their rank decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from ort_py.contracts import IExecutionProvider
from ort_py.devices import HOST
from ort_py.graph.ir import Graph
from ort_py.graph.view import ModelGraphView
from ort_py.lazy_dataclass import dataclass
from ort_py.partition.cost_model import CostModel
from ort_py.partition.survey import Answer, estimates

if TYPE_CHECKING:
    from ort_py.partition.work_table import WorkTable

IN_ORDER = "in order"
"""Name of the placement that follows the session's order."""


@dataclass(slots=True)
class Choice:
    """A placement and why it was chosen.

    Attributes:
        owner: For each node the index of its provider in the answers, or -1 if it has none.
        order: Places in the order in which providers serve.
        costs: Microseconds of one run of each placement that was looked at, by its name; the chosen one first.
        reasons: Why nodes lost a provider that claims them: (its place, node) and the reason.
        cuts: (operator, nodes, islands) of nodes between islands that no provider there takes.
    """

    owner: Sequence[int]
    order: Sequence[int]
    costs: dict[str, float] = field(default_factory=dict)
    reasons: dict[tuple[int, int], str] = field(default_factory=dict)
    cuts: list[tuple[str, int, int]] = field(default_factory=list)


def compares(providers: Sequence[IExecutionProvider], model: CostModel) -> bool:
    """Return whether all providers must be asked, because one has a device of its own or states the costs of its nodes.

    Measured rates are not a reason: on the host they differ by less than estimates are wrong by, and asking a
    compiler what it can run may take longer than all the rest of partitioning.
    """
    return model.weighs and any(one.device != HOST or estimates(one) for one in providers)


def choose(graph: Graph, view: ModelGraphView, answers: Sequence[Answer], model: CostModel) -> Choice:
    """The cheapest placement of a graph.

    Args:
        answers: Their answers, in the session's order.
    """
    stated = sum(answer.states_costs for answer in answers)
    if not model.weighs or (stated < 2 and all(answer.provider.device == HOST for answer in answers)):
        return _first_come(len(view.nodes), answers)
    from ort_py.partition.islands import cuts_of, groups_of, improve  # most sessions follow their order
    from ort_py.partition.work_table import WorkTable

    table = WorkTable(graph, view, answers, model.calibration)
    groups = groups_of(table)
    in_order = list(range(len(answers)))
    found: dict[str, tuple[float, Choice]] = {}
    seen: set[bytes] = set()
    for name, order in _orders(table, in_order).items():
        owner = table.owners(order)
        if owner.tobytes() in seen:
            continue
        seen.add(owner.tobytes())
        improved = improve(table, owner, order, groups, model)
        cost = table.total(improved.owner)
        found[name] = (cost, Choice(improved.owner.tolist(), order, {}, improved.reasons))
    kept, first = found[IN_ORDER]
    name, (cost, best) = min(found.items(), key=lambda item: item[1][0])  # the first of those that cost the same
    if cost * model.order_margin >= kept:
        name, best = IN_ORDER, first
    best.costs = {name: found[name][0]} | {other: figure for other, (figure, _) in found.items()}
    if name != IN_ORDER:
        _explain(best, table, found[name][0], kept, name)
    best.cuts = cuts_of(table, table.owners(in_order), groups)
    return best


def _first_come(count: int, answers: Sequence[Answer]) -> Choice:
    owner = [-1] * count
    for place in reversed(range(len(answers))):
        for index in answers[place].claims:
            owner[index] = place
    return Choice(owner, range(len(answers)))


def _orders(table: WorkTable, in_order: Sequence[int]) -> dict[str, list[int]]:
    """Orders to compare: as given, the host first, and each provider whose costs are known with the host behind it."""
    host = [place for place in in_order if table.device[place] == 0]
    orders = {IN_ORDER: list(in_order)}
    if host and len(host) < len(in_order):
        orders["the host alone"] = [*host, *(place for place in in_order if place not in host)]
    for place in in_order:
        if table.device[place] == 0 and not table.known[place]:
            continue
        name = table.answers[place].provider.name
        # On the host it is completed by the last, which runs everything: that is what this provider alone means.
        behind = host if table.device[place] else list(reversed(host))
        rest = [other for other in (*behind, *in_order) if other != place]
        orders[f"{name} alone"] = [place, *dict.fromkeys(rest)]
    return orders


def _explain(choice: Choice, table: WorkTable, cost: float, in_order: float, name: str) -> None:
    for index, place in enumerate(choice.owner):
        for other in range(place):
            if table.claimed[other][index] and (other, index) not in choice.reasons:
                choice.reasons[other, index] = (
                    f"does not pay: the graph takes about {cost:.0f} µs with {name}, {in_order:.0f} µs in order"
                )
