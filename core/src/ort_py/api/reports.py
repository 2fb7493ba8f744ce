"""What happened while a session was made: seconds a stage, transforms, memory. Plain values for users."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ort_py.contracts import AllocatorStats

__all__ = ["LoadReport", "MemoryReport", "StageReport"]


@dataclass(frozen=True, slots=True)
class StageReport:
    """One stage of making a session.

    Attributes:
        stage: Its name: providers, load, validate, infer types, optimise, partition, compile, plan.
        seconds: How long it took.
        notes: What it did, in lines.
    """

    stage: str
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class LoadReport:
    """Stages in the order they ran."""

    stages: list[StageReport] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Total time."""
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
        return "\n".join([*lines, f"{'total':<12} {self.seconds * 1e3:9.1f} ms"])


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes a session's model keeps in memory.

    Attributes:
        weights: Bytes of the model's constants on the host, each counted once however many sessions share it.
        weights_mapped: Those of them that are mapped from a file.
        device_weights: Bytes of constants on each other device, by its name.
        allocators: What the allocator of each provider says, where it has one.
    """

    weights: int
    weights_mapped: int
    device_weights: dict[str, int]
    allocators: dict[str, AllocatorStats]
