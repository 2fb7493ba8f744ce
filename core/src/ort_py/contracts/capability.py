"""A provider's answer to the question which part of a graph it can run.

Comes back from `IExecutionProvider.get_capability`. The partitioner makes regions convex, asks the cost model and
decides; a claim is an offer, not an assignment.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from ort_py.lazy_dataclass import dataclass


class ClaimKind(Enum):
    """The way in which a provider would run the nodes of a claim."""

    KERNEL = "kernel"
    """Each node by a kernel from the provider's registry."""

    COMPILE = "compile"
    """All nodes as one region, through `IExecutionProvider.compile`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Nodes a provider can run natively.

    Attributes:
        nodes: Indices in the view that was asked about. A COMPILE claim is one region; the partitioner may split it
            to make it convex, never join it with another.
        kind: Kernels or one compiled region.
        reason: Shown in the placement report, e.g. ``"kernel Softmax(13)"`` or ``"parser accepts nodes 3-41"``.
        cost_us: Estimated microseconds for one run at the view's shapes, copies not counted; None leaves the estimate
            to the core. Weighed against the next providers: on another device always, on the host where they state
            costs too.
    """

    nodes: tuple[int, ...]
    kind: ClaimKind = ClaimKind.KERNEL
    reason: str = ""
    cost_us: float | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node the provider does not take, and why: shown to users as it is."""

    node: int
    reason: str


@dataclass(frozen=True, slots=True)
class Capability:
    """A provider's whole answer. Nodes in neither tuple count as refused without a reason."""

    claims: tuple[Claim, ...] = ()
    refusals: tuple[Refusal, ...] = field(default=())
