"""The report of a session's creation: seconds per stage, and transforms. Plain values for users."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.transforms.report import OptimisationReport


@dataclass(frozen=True, slots=True)
class StageReport:
    """One stage of making a session.

    Attributes:
        stage: Its name: providers, load, validate, infer types, optimise, partition, compile, plan.
        notes: Its effects, one per line.
    """

    stage: str
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class LoadReport:
    """Stages in the order they ran.

    Attributes:
        fingerprint: Identity of the session; see `InferenceSession.fingerprint`; ``""`` if it was closed before it was
            asked.
    """

    stages: list[StageReport] = field(default_factory=list)
    fingerprint: str = ""
    _optimisation: OptimisationReport | None = field(default=None, repr=False)

    @property
    def optimisation(self) -> OptimisationReport:
        """Changes of each graph transform; empty if the model came from the cache or nothing was optimised."""
        from ort_py.transforms.report import OptimisationReport  # a session from the cache was optimised before

        return OptimisationReport() if self._optimisation is None else self._optimisation

    @optimisation.setter
    def optimisation(self, report: OptimisationReport) -> None:
        self._optimisation = report

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @contextmanager
    def stage(self, name: str) -> Iterator[list[str]]:
        """Time a stage; the list takes its notes. A stage that raises is recorded too."""
        notes: list[str] = []
        start = time.perf_counter()
        try:
            yield notes
        finally:
            self.stages.append(StageReport(name, time.perf_counter() - start, tuple(notes)))

    def __repr__(self) -> str:
        return f"<LoadReport of {len(self.stages)} stages: {self.seconds * 1e3:.1f} ms>"

    def __str__(self) -> str:
        lines = [f"{stage.stage:<12} {stage.seconds * 1e3:9.1f} ms" for stage in self.stages]
        lines.append(f"{'total':<12} {self.seconds * 1e3:9.1f} ms")
        return "\n".join([*lines, f"{'fingerprint':<12} {self.fingerprint}"] if self.fingerprint else lines)
