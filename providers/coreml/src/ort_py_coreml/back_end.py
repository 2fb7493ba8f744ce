"""The library that runs a provider's regions: Core ML on macOS, or Core AI. Both are written with MIL's functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec, RegionView
from ort_py_coreml.artifact import Border

__all__ = ["Array", "BackEnd", "Model"]

Array = np.ndarray[Any, Any]


class Model(ABC):
    """A written region that is ready to run. Used by one thread at a time."""

    @abstractmethod
    def predict(self, feeds: Mapping[str, Array], check: Callable[[], None] | None) -> Mapping[str, Array]:
        """Run once.

        Args:
            feeds: Arrays by the names of the program's inputs.
            check: Raises if the time of the run is over; None if it has no limit.

        Returns:
            Arrays by the names of the program's outputs, which nothing writes to later.
        """

    @abstractmethod
    def close(self) -> None:
        """Release it."""


class BackEnd(ABC):
    """Writes and runs the regions of one session."""

    @property
    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Facts that have to be equal for a written region to be valid elsewhere."""

    @property
    @abstractmethod
    def suffix(self) -> str:
        """The ending of the name of a written region."""

    @property
    def computes_float16(self) -> bool:
        """Whether it computes float32 models in float16 where a session asks for that."""
        return False

    @property
    def is_later(self) -> bool:
        """Whether programs are written for later systems than the oldest ones; see `Operator.later`."""
        return True

    def check_process(self) -> None:  # noqa: B027 - most back ends have nothing to check
        """Return whether regions can be loaded in this process.

        Raises:
            EPFail: They cannot, because it was forked.
        """

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """Return why it does not run a node that can be written with the functions of MIL, or None."""
        return None

    @abstractmethod
    def save(self, region: RegionView, target: Path, *, named: bool = False) -> Border:
        """Write a region to a folder that does not exist.

        Args:
            region: The region.
            target: The folder; its name ends in `suffix`.
            named: Whether inputs and outputs have the region's names.

        Raises:
            EPFail: The region cannot be written.
        """

    @abstractmethod
    def load(self, written: Path) -> Model:
        """Make a written region ready to run.

        Raises:
            EPFail: It cannot be run here.
        """

    def close(self) -> None:  # noqa: B027 - optional
        """Release what the regions share."""
