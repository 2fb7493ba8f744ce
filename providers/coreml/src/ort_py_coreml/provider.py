"""The provider of a session: claims of regions that Core ML takes and that pay, and their compilation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_py.contracts import (
    ArtifactValidity,
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
from ort_py_coreml.artifact import Border, facts_in, unpack
from ort_py_coreml.back_end import BackEnd
from ort_py_coreml.back_ends import open_back_end
from ort_py_coreml.enumerations import check_shapes
from ort_py_coreml.folder import Folder
from ort_py_coreml.operators import is_heavy, refusal
from ort_py_coreml.options import check
from ort_py_coreml.region import CoreMLRegion
from ort_py_coreml.states import check_states

__all__ = ["CoreMLProvider"]

_LARGE = 65536
"""Elements of a tensor from which an operator of a few instructions an element is worth a call of some 100 µs."""

_MOVES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


class CoreMLProvider(RegionProvider):
    """Compiles regions for Core ML; runs no single kernels.

    Args:
        name: As registered by the plug-in.
        options: Validated options.
        context: The session's wishes.

    Raises:
        EPFail: Core ML cannot run models here.
        OptionError: A number is out of its range.
    """

    def __init__(self, name: str, options: Mapping[str, Any], context: SessionContext) -> None:
        check(options)
        check_states(options, written=self._written)
        check_shapes(options, written=self._written)
        self._name = name
        self._static = bool(options["RequireStaticInputShapes"])
        self._nested = bool(options["EnableOnSubgraphs"])
        self._most_regions = int(options["max_regions"])
        self._claim_small = bool(options["claim_small"])
        self._half = context.precision == "float16"
        self._back_end = self._open_back_end(options)

    @property
    def _written(self) -> str:
        """The ending of the file that is written; empty in sessions that run models."""
        return ""

    def _open_back_end(self, options: Mapping[str, Any]) -> BackEnd:
        return open_back_end(options, half=self._half)

    @property
    def name(self) -> str:
        """Name as registered by the plug-in."""
        return self._name

    @property
    def checks_inputs(self) -> bool:
        """False: what Core ML does with shapes and indices that the specification forbids is not documented."""
        return False

    @property
    def computes_empty_values(self) -> bool:
        """False: Core ML has no arrays without elements."""
        return False

    @property
    def computes_late_broadcasts(self) -> bool:
        """False: Core AI divides by a whole window that is larger than the data, and Apple documents neither case."""
        return False

    @property
    def dequantizes_constants(self) -> bool:
        """Return False: Core ML keeps weights in 8 bits. What it does not take, others do before it is compiled."""
        return False

    def precision_refusal(self, precision: str) -> str | None:
        """Core ML computes float32 models in float32 or float16, Core AI in float32."""
        known = {"float32", "float16"} if self._back_end.computes_float16 else {"float32"}
        return None if precision in known else f"regions are not computed in {precision}"

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """See `operators`; the back end may have reasons of its own."""
        if node.path and not self._nested:
            return "it is in the body of another node, and EnableOnSubgraphs is not set"
        reason = refusal(node, graph, static=self._static, later=self._back_end.is_later)
        return reason or self._back_end.refusal(node, graph)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """A call costs some 100 µs: it takes a product, or a large tensor."""
        if all(node.op_type == "DequantizeLinear" for node in nodes):
            return "it has no readers in the region, and Core ML has no constant outputs"
        if self._claim_small or any(is_heavy(node, graph) or _is_large(node) for node in nodes):
            return None
        return f"does not pay: too little work for a call, no product and no tensor of {_LARGE:,} elements or more"

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Claim regions, unless the graph would fall into many: each border costs copies and a call."""
        found = super().get_capability(graph, kernels)
        if len(found.claims) <= self._most_regions:
            return found
        reason = self._fragmentation(graph, found)
        claimed = [index for claim in found.claims for index in claim.nodes]
        return Capability((), (*found.refusals, *(Refusal(index, reason) for index in sorted(claimed))))

    def _fragmentation(self, graph: GraphView, found: Capability) -> str:
        """Return why a graph is left to others, with the operators that cut it: not those that would not pay."""
        left = (graph.nodes[one.node] for one in found.refusals)
        cutting = Counter(node.op_type for node in left if self.refusal(node, graph) is not None)
        named = ", ".join(f"{name} ({count})" for name, count in cutting.most_common(5))
        return (
            f"the graph would fall into {len(found.claims)} regions, and max_regions is {self._most_regions}; "
            f"nodes that Core ML does not take: {named}"
        )

    def compile(self, region: RegionView) -> CompiledRegion:
        """Write the region as a program, and load it.

        Raises:
            EPFail: It cannot be written or loaded.
        """
        folder, written = self._new_folder()
        return self._loaded(written, folder, self._back_end.save(region, written))

    def validate(self, artifact: bytes) -> ArtifactValidity:
        """Return whether it was made by this version of the back end with these options."""
        return ArtifactValidity.VALID if facts_in(artifact) == self._back_end.facts else ArtifactValidity.STALE

    def restore(self, artifact: bytes) -> CompiledRegion:
        """Load a region that was kept.

        Raises:
            EPFail: The artifact is damaged.
        """
        folder, written = self._new_folder()
        return self._loaded(written, folder, unpack(artifact, written))

    def close(self) -> None:
        """Release what the regions share."""
        self._back_end.close()

    def _new_folder(self) -> tuple[Folder, Path]:
        folder = Folder()
        return folder, folder.path / f"region{self._back_end.suffix}"

    def _loaded(self, written: Path, folder: Folder, border: Border) -> CoreMLRegion:
        model = self._back_end.load(written)
        return CoreMLRegion(written, folder, border, model, self._back_end.facts)


def _is_large(node: NodeSpec) -> bool:
    value = node.outputs[0]
    shape = None if value is None else value.shape
    if shape is None or node.op_type in _MOVES:
        return False
    return math.prod(dim for dim in shape if isinstance(dim, int)) >= _LARGE
