"""A provider that compiles each graph as one region by a function that a test gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ort_py.contracts import (
    Availability,
    Capability,
    Claim,
    ClaimKind,
    CompiledRegion,
    GraphView,
    IExecutionProvider,
    KernelLookup,
    ProviderFactory,
    RegionView,
    SessionContext,
)

__all__ = ["NAME", "CompilingFactory", "CompilingProvider"]

NAME = "CompilingExecutionProvider"


class CompilingProvider(IExecutionProvider):
    """Claims every node, in one region."""

    def __init__(self, compile_region: Callable[[RegionView], CompiledRegion]) -> None:
        self._compile = compile_region

    @property
    def name(self) -> str:
        return NAME

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        return Capability((Claim(tuple(range(len(graph.nodes))), ClaimKind.COMPILE),))

    def compile(self, region: RegionView) -> CompiledRegion:
        return self._compile(region)


class CompilingFactory(ProviderFactory):
    """Makes them.

    Args:
        make: Makes one.
    """

    def __init__(self, make: Callable[[], CompilingProvider]) -> None:
        self._make = make

    @property
    def name(self) -> str:
        return NAME

    def probe(self) -> Availability:
        return Availability(available=True)

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return self._make()
