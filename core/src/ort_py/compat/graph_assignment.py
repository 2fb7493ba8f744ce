"""The nodes of each provider in onnxruntime's form; `placement` gives more detail and is always available.

Comes after a session's placement is known.
"""

from __future__ import annotations

from ort_py.errors import Fail
from ort_py.inspection.placement import Placement
from ort_py.lazy_dataclass import dataclass
from ort_py.options import SessionOptions, entry_of

_KEY = "session.record_ep_graph_assignment_info"


@dataclass(frozen=True, slots=True)
class OrtEpAssignedNode:
    """A node.

    Attributes:
        name: Its name in the model, or the one it was given.
    """

    name: str
    domain: str
    op_type: str


@dataclass(frozen=True, slots=True)
class OrtEpAssignedSubgraph:
    """Nodes that went to one provider together: a compiled region, or a node with a kernel of its own."""

    ep_name: str
    _nodes: tuple[OrtEpAssignedNode, ...] = ()

    def get_nodes(self) -> list[OrtEpAssignedNode]:
        """The nodes, in the order of the graph."""
        return list(self._nodes)


def assignment_info(options: SessionOptions, placement: Placement) -> list[OrtEpAssignedSubgraph]:
    """The nodes of the main graph, grouped by the provider that runs them.

    Raises:
        Fail: The session was created without asking for this, which onnxruntime wants.
    """
    if entry_of(options, _KEY) != "1":
        raise Fail(
            "Which provider got which nodes was not recorded.",
            why=f"the config entry '{_KEY}' is not set to '1'",
            fix="Set it before creating the session, or look at `session.placement`, which is always there.",
        )
    groups: dict[tuple[str, str], list[OrtEpAssignedNode]] = {}
    for position, node in enumerate(placement):
        if not node.path:
            group = node.region or str(position)
            groups.setdefault((node.provider, group), []).append(
                OrtEpAssignedNode(node.node, node.domain, node.op_type)
            )
    return [OrtEpAssignedSubgraph(provider, tuple(nodes)) for (provider, _), nodes in groups.items()]
