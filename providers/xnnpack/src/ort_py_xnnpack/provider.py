"""The provider of a session: claims of regions that XNNPACK takes and that pay, and their compilation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
from ort_py_xnnpack.binding.library import open_library
from ort_py_xnnpack.operators import is_heavy, refusal

__all__ = ["XnnpackProvider"]

_LARGE = 16384
"""Elements of a tensor from which an operator of a few instructions an element pays for a call of some 10 µs."""

_OTHERS = "it is not next to a product of weights of few bits, with which alone XNNPACK assists here"

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
        self._few_bits_only = bool(options["few_bits_only"])
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
        """Return whether weights should arrive as floating-point numbers: products are computed with those."""
        return not self._few_bits_only

    @property
    def joins_readers(self) -> bool:
        """True: products of the same rows round them to 8 bits once."""
        return True

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Look no further where the model has no weights of few bits, and nothing else is wanted."""
        if self._few_bits_only and not _has_few_bits(graph.nodes):
            return Capability((), tuple(Refusal(node.index, _OTHERS) for node in graph.nodes))
        return super().get_capability(graph, kernels)

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """See `operators`."""
        return refusal(node, graph)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """A call costs some 10 µs: it takes a product, or a large tensor."""
        if self._few_bits_only and not _has_few_bits(nodes):
            return _OTHERS
        if self._claim_small or any(is_heavy(node, graph) or _is_large(node) for node in nodes):
            return None
        return f"does not pay: too little work for a call, no product and no tensor of {_LARGE:,} elements or more"

    def compile(self, region: RegionView) -> CompiledRegion:
        """Describe it to XNNPACK and pack its weights."""
        from ort_py_xnnpack.execution.region import XnnpackRegion

        return XnnpackRegion(region, open_library(), self._expected, self._threads, fast_math=self._fast_math)


def _has_few_bits(nodes: Iterable[NodeSpec]) -> bool:
    return any(node.op_type == "MatMulNBits" for node in nodes)


def _is_large(node: NodeSpec) -> bool:
    value = node.outputs[0]
    shape = None if value is None else value.shape
    if shape is None or node.op_type in _MOVES:
        return False
    return math.prod(dim for dim in shape if isinstance(dim, int)) >= _LARGE
