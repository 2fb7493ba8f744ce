"""The provider of a session: claims of regions that XNNPACK takes and that pay, and their compilation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.contracts import (
    Capability,
    CompiledRegion,
    GraphView,
    KernelLookup,
    NodeSpec,
    Refusal,
    RegionProvider,
    RegionView,
    SessionContext,
)
from ort_py.dtypes import DataType
from ort_py_xnnpack.binding.library import open_library
from ort_py_xnnpack.graph.flat_graph import FlatGraph
from ort_py_xnnpack.graph.grids import Grids
from ort_py_xnnpack.operators import is_heavy, refusal

if TYPE_CHECKING:
    from ort_py_xnnpack.binding.workspace import Workspaces

__all__ = ["XnnpackProvider"]

_LARGE = 16384
"""Elements of a tensor from which an operator of a few instructions an element pays for a call of some 10 µs."""

_OTHERS = "it is not next to a product of weights of few bits, with which alone XNNPACK assists here"

_ELSEWHERE = "its weights are dequantised in another group of nodes"

_MOST_TRIES = 4

_MOVES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


class XnnpackProvider(RegionProvider):
    """Compiles regions with XNNPACK; runs no single kernels.

    Args:
        name: As registered by the plug-in.
        options: Validated options.
        context: The session's wishes.

    Raises:
        EPFail: XNNPACK does not load.
    """

    def __init__(self, name: str, options: Mapping[str, Any], context: SessionContext) -> None:
        self._name = name
        self._claim_small = bool(options["claim_small"])
        self._threads = int(options["intra_op_num_threads"])
        self._expected = self._threads or max(1, context.threads)
        self._fast_math = context.fast_math
        self._asked: tuple[GraphView, _Asked] | None = None
        self._few_bits_only = bool(options["few_bits_only"])
        self._workspaces: Workspaces | None = None
        if not self._few_bits_only:
            open_library()  # which few models need of one that only assists

    @property
    def name(self) -> str:
        """Name as registered by the plug-in."""
        return self._name

    @property
    def checks_inputs(self) -> bool:
        """False: XNNPACK computes whatever addresses it is given, so every node has to be checked beforehand."""
        return False

    @property
    def computes_empty_values(self) -> bool:
        """False: XNNPACK refuses values without elements."""
        return False

    @property
    def dequantizes_constants(self) -> bool:
        """False: products are computed with the integers, and other weights are dequantised when they are packed."""
        return False

    @property
    def widened_types(self) -> frozenset[DataType]:
        """Float16: products are computed in float32, so conversions between nodes are saved if all nodes are."""
        return frozenset({DataType.FLOAT16})

    @property
    def joins_readers(self) -> bool:
        """True: products of the same rows round them to 8 bits once."""
        return True

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Look no further where the model has no weights of few bits, and nothing else is wanted."""
        if self._few_bits_only and not _has_few_bits(graph.nodes):
            return Capability((), tuple(Refusal(node.index, _OTHERS) for node in graph.nodes))
        asked = _Asked(graph)
        self._asked = graph, asked
        try:
            found = super().get_capability(graph, kernels)
            for _ in range(_MOST_TRIES):
                if not asked.lacking:
                    break
                # The others of their groups need not go with them.
                asked.refused |= asked.lacking
                asked.lacking = set()
                found = super().get_capability(graph, kernels)
            return found
        finally:
            self._asked = None

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """See `operators`."""
        if self._few_bits_only and node.op_type in {"DequantizeLinear", "QuantizeLinear"}:
            return _OTHERS
        return self._known(graph).refusal(node)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """A call costs some 10 µs: it takes a product, or a large tensor."""
        if self._few_bits_only and not _has_few_bits(nodes):
            return _OTHERS
        known = self._known(graph)
        if known.lacks_weights(nodes):
            return _ELSEWHERE
        if self._claim_small or any(known.is_heavy(node) or _is_large(node) for node in nodes):
            return None
        return f"does not pay: too little work for a call, no product and no tensor of {_LARGE:,} elements or more"

    def _known(self, graph: GraphView) -> _Asked:
        asked = self._asked
        return asked[1] if asked is not None and asked[0] is graph else _Asked(graph)

    def compile(self, region: RegionView) -> CompiledRegion:
        """Describe it to XNNPACK and pack its weights."""
        from ort_py_xnnpack.binding.workspace import Workspaces
        from ort_py_xnnpack.execution.region import XnnpackRegion

        library = open_library()
        if self._workspaces is None:
            self._workspaces = Workspaces(library)
        return XnnpackRegion(
            region, library, self._workspaces, self._expected, self._threads, fast_math=self._fast_math
        )


class _Asked:
    """What is known of a graph while it is asked which of its nodes XNNPACK runs.

    Args:
        graph: The graph.

    Attributes:
        refused: Indices of nodes whose weights are dequantised by another group or provider.
        lacking: Those that were found since.
    """

    def __init__(self, graph: GraphView) -> None:
        self._flat = FlatGraph(graph, graph.constant)
        self._grids = Grids(self._flat)
        self.refused: set[int] = set()
        self.lacking: set[int] = set()
        self._parts: dict[int, list[int]] = {}
        for place, owner in enumerate(self._flat.owners):
            self._parts.setdefault(owner, []).append(place)

    def refusal(self, node: NodeSpec) -> str | None:
        """Explain why a node of the graph cannot be run, or return None."""
        if node.index in self.refused:
            return _ELSEWHERE
        # Weights are refused where their reader is, so its reason comes first.
        places = sorted(self._parts[node.index], key=self._flat.is_dequantiser)
        reasons = (refusal(self._flat, self._grids, place) for place in places)
        return next((reason for reason in reasons if reason is not None), None)

    def is_heavy(self, node: NodeSpec) -> bool:
        """Return whether a node pays for a region by itself."""
        return any(is_heavy(self._flat.nodes[place]) for place in self._parts[node.index])

    def lacks_weights(self, nodes: Sequence[NodeSpec]) -> bool:
        """Return whether nodes read weights that another group dequantises."""
        group = {place for node in nodes for place in self._parts[node.index]}
        found = {self._flat.owners[place] for place in group if self._lacks(place, group)}
        self.lacking |= found
        return bool(found)

    def _lacks(self, place: int, group: set[int]) -> bool:
        for value in self._flat.nodes[place].inputs:
            made = None if value is None else self._flat.maker(value.name)
            if made is not None and made not in group and self._flat.is_dequantiser(made):
                return True
        return False


def _has_few_bits(nodes: Iterable[NodeSpec]) -> bool:
    return any(node.op_type == "MatMulNBits" for node in nodes)


def _is_large(node: NodeSpec) -> bool:
    value = node.outputs[0]
    shape = None if value is None else value.shape
    if shape is None or node.op_type in _MOVES:
        return False
    return math.prod(dim for dim in shape if isinstance(dim, int)) >= _LARGE
