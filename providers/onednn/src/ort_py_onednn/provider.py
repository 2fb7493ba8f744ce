"""The provider of a session: claims of subgraphs that pay, and their compilation."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import (
    Capability,
    CompiledRegion,
    GraphView,
    IExecutionProvider,
    KernelLookup,
    NodeSpec,
    RegionView,
    SessionContext,
    Transform,
)
from ort_py_onednn.binding.constants import F32
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.forks import gate
from ort_py_onednn.binding.openmp import guard_forks
from ort_py_onednn.execution.arithmetic import computed_types, converted_types, precision_refusal, product_type

__all__ = ["DnnlProvider"]


class DnnlProvider(IExecutionProvider):
    """Compiles regions with oneDNN; runs no single kernels.

    Args:
        name: As registered by the plug-in.
        context: The session's wishes.
        claim_small: Whether to take what is faster elsewhere.
        precision: In place of the session's, ``""`` for that.
    """

    def __init__(self, name: str, context: SessionContext, *, claim_small: bool = False, precision: str = "") -> None:
        self._name = name
        self._claim_small = claim_small
        self._threads = max(1, context.threads)
        self._steady = context.deterministic
        self._engine = engine()
        self._precision = precision or context.precision
        self._fast_math = context.fast_math
        guard_forks(self._engine.library)

    @property
    def name(self) -> str:
        """Name as registered by the plug-in."""
        return self._name

    @property
    def checks_inputs(self) -> bool:
        """False: oneDNN computes whatever addresses it is given, so every node has to be checked beforehand."""
        return False

    def transforms(self) -> Sequence[Transform]:
        """The rewrite of products that have code but for their zero points."""
        from ort_py_onednn.graph.float_zero_points import SplitFloatZeroPoints  # a restored model is not rewritten

        return (SplitFloatZeroPoints(self._engine.library),)

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Subgraphs of floating operators, each with work that is worth the call."""
        from ort_py_onednn.graph.claims import capability  # a restored model is not asked about

        library = self._engine.library
        return capability(
            graph,
            small=self._claim_small,
            computed=computed_types(library),
            converted=converted_types,
            grows=self._grows,
        )

    def _grows(self) -> bool:
        """Return whether there is code for attention to a past."""
        from ort_py_onednn.binding.past_attention import has_past_attention  # few models have it

        library = self._engine.library
        return product_type(self._precision, library) == F32 and has_past_attention(library)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """Return whether what others left of a claim still is worth a call."""
        from ort_py_onednn.graph.claims import group_refusal

        return None if self._claim_small else group_refusal(nodes, graph)

    def precision_refusal(self, precision: str) -> str | None:
        """Return whether the CPU has the instructions for the precision that was asked for, here or of the session."""
        return precision_refusal(self._precision, self._engine.library)

    def compile(self, region: RegionView) -> CompiledRegion:
        """Fuse, and where shapes are known plan and pack."""
        from ort_py_onednn.execution.region import DnnlRegion

        with gate.making():
            chosen = product_type(self._precision, self._engine.library)
            return DnnlRegion(
                region, self._engine, self._threads, chosen, steady=self._steady, fast_math=self._fast_math
            )
