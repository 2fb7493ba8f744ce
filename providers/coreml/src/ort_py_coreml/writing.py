"""The provider behind `writer`: it claims what Core ML takes, and writes its region instead of loading it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_py.contracts import (
    Capability,
    CompiledRegion,
    FrameResources,
    GraphView,
    KernelLookup,
    NodeSpec,
    RegionInstance,
    RegionProvider,
    RegionView,
    SessionContext,
)
from ort_py.errors import EPFail
from ort_py_coreml.back_end import BackEnd
from ort_py_coreml.back_ends import writer_for
from ort_py_coreml.provider import CoreMLProvider

__all__ = ["PackageWriter"]


class PackageWriter(CoreMLProvider):
    """Writes packages with the names of the model's inputs and outputs, and runs nothing.

    Args:
        name: As registered.
        options: Validated options.
        context: The session's wishes.
        target: The package.
    """

    def __init__(self, name: str, options: Mapping[str, Any], context: SessionContext, target: Path) -> None:
        self._target = target
        super().__init__(name, options, context)

    @property
    def _written(self) -> str:
        return self._target.suffix

    def _open_back_end(self, options: Mapping[str, Any]) -> BackEnd:
        return writer_for(self._target, options, half=self._half)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """Small models are written too."""
        return None

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Claim regions, however many: the engine says what keeps them apart."""
        return RegionProvider.get_capability(self, graph, kernels)

    def compile(self, region: RegionView) -> CompiledRegion:
        """Write the package, unless there was a region before: the engine then refuses the model.

        Raises:
            EPFail: The region cannot be written.
        """
        if not self._target.exists():
            self._back_end.save(region, self._target, named=True)
        return _Written()


class _Written(CompiledRegion):
    """A region that was written."""

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """Refuse to run.

        Raises:
            EPFail: Always.
        """
        raise EPFail(
            "A package that is written to a file is not run.", fix="load the model with CoreMLExecutionProvider"
        )
