"""Core AI as a back end: Apple's successor of Core ML, whose runtime also computes on the processors of Linux."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ort_py.contracts import GraphView, NodeSpec, RegionView
from ort_py.errors import EPFail
from ort_py_coreml.artifact import Border, border_of
from ort_py_coreml.back_end import BackEnd
from ort_py_coreml.core_ai.limits import refusal
from ort_py_coreml.core_ai.program import save
from ort_py_coreml.core_ai.runtime import LoadedAsset, Loop, check_process

__all__ = ["CoreAI"]


class CoreAI(BackEnd):
    """Assets of Core AI.

    Args:
        options: Validated options.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._longest = int(options["max_dimension"])
        self._loop = Loop()

    def check_process(self) -> None:
        """See `runtime`."""
        check_process()

    @property
    def facts(self) -> Mapping[str, Any]:
        """Version of Core AI, and the option that borders depend on."""
        return {"coreai": version("coreai-core"), "max_dimension": self._longest}

    @property
    def suffix(self) -> str:
        """Assets."""
        return ".aimodel"

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """See `limits`."""
        return refusal(node, graph)

    def save(self, region: RegionView, target: Path, *, named: bool = False) -> Border:
        """Write an asset."""
        return border_of(save(region, target, named=named), self._longest)

    def load(self, written: Path) -> LoadedAsset:
        """Load an asset."""
        try:
            return LoadedAsset(written, self._loop)
        except Exception as error:  # Core AI raises all kinds of errors, and each means the same here
            raise EPFail(
                "Core AI cannot load a region.",
                why=(f"{type(error).__name__}: {error}",),
                fix="run it with another provider, and report this together with the model",
            ) from error

    def close(self) -> None:
        """End the thread of the loop."""
        self._loop.close()
