"""The provider of one session: each region becomes a session of onnxruntime.

Comes after all other files of the package.
"""

from __future__ import annotations

from ort_py.contracts import (
    Capability,
    Claim,
    ClaimKind,
    CompiledRegion,
    GraphView,
    KernelLookup,
    NodeSpec,
    Refusal,
    RegionProvider,
    RegionView,
    convex_groups,
)
from ort_py_onnxruntime.region import OnnxruntimeRegion
from ort_py_onnxruntime.routes import CPU
from ort_py_onnxruntime.sessions import make_session, model_of
from ort_py_onnxruntime.settings import Settings
from ort_py_onnxruntime.support import Support, taken_by_providers

__all__ = ["OnnxruntimeProvider"]


class OnnxruntimeProvider(RegionProvider):
    """Hands what onnxruntime runs to it, in regions as large as they can be.

    Args:
        name: The factory's name.
        settings: How its sessions are made.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._settings = settings
        self._support = Support(settings.names)
        self._own_kernels = settings.names == (CPU,)

    @property
    def name(self) -> str:
        """The factory's name."""
        return self._name

    @property
    def checks_inputs(self) -> bool:
        """True for onnxruntime's kernels for processors alone; nothing is known of other people's."""
        return self._own_kernels

    @property
    def computes_empty_values(self) -> bool:
        """As `checks_inputs`: a plug-in was seen that ends the process."""
        return self._own_kernels

    @property
    def computes_late_broadcasts(self) -> bool:
        """As `checks_inputs`."""
        return self._own_kernels

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """Explain why a node is not handed over, or return None."""
        return self._support.refusal(node)

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Regions of what onnxruntime has kernels for; where its CPU provider does not complete, of what it gives to
        the provider itself.
        """
        possible = super().get_capability(graph, kernels)
        if self._settings.completes:
            return possible
        refusals = list(possible.refusals)
        taken: list[int] = []
        for claim in possible.claims:
            try:
                ours = taken_by_providers(graph, claim.nodes, self._settings)
                reason = f"onnxruntime does not give it to {', '.join(self._settings.names)}"
            except Exception as error:  # a session that cannot be made is onnxruntime's answer
                ours, reason = set(), f"onnxruntime makes no session of it: {_line(error)}"
            taken += [index for index in claim.nodes if index in ours]
            refusals += [Refusal(index, reason) for index in claim.nodes if index not in ours]
        claims = [
            Claim(group, ClaimKind.COMPILE, f"one of a region of {len(group)}")
            for group in convex_groups(graph, sorted(taken))
        ]
        return Capability(tuple(claims), tuple(refusals))

    def compile(self, region: RegionView) -> CompiledRegion:
        """A session of onnxruntime.

        Raises:
            Fail: A provider that was asked for is not used: onnxruntime falls back silently.
            Exception: Whatever onnxruntime raises.
        """
        model = model_of(region)
        return OnnxruntimeRegion(make_session(model, self._settings), model.weights, self._settings.threads)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
