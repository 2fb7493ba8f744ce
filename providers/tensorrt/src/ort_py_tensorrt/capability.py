"""The parts of a graph that become engines: groups of nodes that the parser takes, asked again when a border moves.

A group loses the nodes that the parser refuses. What is left has other borders and other groups, about which the
parser is asked again. A group at which the parser's process ends is halved until the nodes are found at which it does.
Comes after `questions`, before `provider`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from ort_py.contracts import GraphView, convex_groups
from ort_py.lazy_dataclass import dataclass
from ort_py_tensorrt.parsing import Verdict
from ort_py_tensorrt.questions import ParserEnded
from ort_py_tensorrt.region_model import RegionModel, model_of, nodes_of

__all__ = ["Ask", "Found", "Question", "find", "refusals_of"]

Group: TypeAlias = tuple[int, ...]
Question: TypeAlias = Callable[[GraphView, Group], Mapping[int, str]]
"""Asks about a group; returns a reason for each node that is refused, none if the group is taken."""
Ask: TypeAlias = Callable[[RegionModel], Verdict]
"""Asks the parser about a model; raises `ParserEnded` if its process ends."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search.

    Attributes:
        groups: Groups that the parser takes as they are.
        reasons: Reason by node that it does not take.
        rounds: How often groups were made.
    """

    groups: tuple[Group, ...]
    reasons: Mapping[int, str]
    rounds: int


def find(graph: GraphView, able: Iterable[int], question: Question, rounds: int) -> Found:
    """Search for groups that are taken as a whole.

    Args:
        graph: The graph.
        able: Nodes that may be taken.
        question: Asks about a group.
        rounds: How often groups may be made; what is unsettled then is refused.
    """
    left = sorted(able)
    taken: set[Group] = set()
    reasons: dict[int, str] = {}
    for number in range(rounds):
        groups = convex_groups(graph, left)
        refused: dict[int, str] = {}
        for group in groups:
            if group not in taken:
                found = question(graph, group)
                refused |= found
                if not found:
                    taken.add(group)
        if not refused:
            return Found(tuple(groups), reasons, number + 1)
        reasons |= refused
        left = [index for index in left if index not in refused]
    settled = tuple(group for group in convex_groups(graph, left) if group in taken)
    inside = {index for group in settled for index in group}
    unsettled = f"the parser still refused parts of its region after {rounds} rounds"
    return Found(settled, reasons | {index: unsettled for index in left if index not in inside}, rounds)


def refusals_of(ask: Ask, graph: GraphView, group: Group) -> Mapping[int, str]:
    """Return the nodes of a group that the parser refuses, with its reasons; none if it takes the group."""
    model = model_of(graph.region(group))
    owners = nodes_of(model.proto, graph, group)
    try:
        verdict = ask(model)
    except ParserEnded as ended:
        return _culprits(ask, graph, group, ended)
    if verdict.whole:
        return dict.fromkeys(group, verdict.whole)
    refused: dict[int, str] = {}
    for node, reason in verdict.refused.items():
        refused.setdefault(owners[node], reason)
    for name in verdict.sizes_from:
        reason = f"the values of '{name}', which is computed outside of its region, decide the shape of its result"
        inside = {index for index in graph.consumers(name) if index in set(group)}
        refused |= dict.fromkeys(inside, reason)
    return refused


def _culprits(ask: Ask, graph: GraphView, group: Group, ended: ParserEnded) -> Mapping[int, str]:
    """Return the nodes of a group at which the parser's process ends: all, if it does so at none of its halves."""
    middle = len(group) // 2
    found: dict[int, str] = {}
    for half in (group[:middle], group[middle:]) if middle else ():
        try:
            ask(model_of(graph.region(half)))
        except ParserEnded as again:
            found |= _culprits(ask, graph, half, again)
    return found or dict.fromkeys(group, ended.reason)
