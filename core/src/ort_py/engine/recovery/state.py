"""What a session remembers of its failures in runs, and of a program that has not proved itself yet.

Read and written by `recovery`, under the session's lock where threads could disagree. Knows no policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ort_py.contracts import IExecutionProvider
from ort_py.discovery import FallbackRecord
from ort_py.errors import DeviceReset, Location
from ort_py.fallback.circuits import FAILURES_KEY, RETRY_KEY, circuits_of
from ort_py.fallback.lost_devices import process_lost_devices
from ort_py.fallback.report import FallbackReport
from ort_py.fallback.states import SessionState
from ort_py.hooks.forked_children import tell_in_children
from ort_py.options import SessionOptions

if TYPE_CHECKING:
    from ort_py.engine.assembly import Assembled
    from ort_py.engine.construction import Construction
    from ort_py.engine.runner import Runner

__all__ = ["RecoveryState", "Unproven", "expect_device", "fallback_report", "session_state"]


@dataclass(slots=True)
class Unproven:
    """A program was replaced, and no run of the new one has succeeded yet: it may come back.

    Attributes:
        runner, assembled: Of the program that was replaced.
        dropped: Providers it was planned without.
        trial: The provider that is being tried again, ``""`` where providers were left out.
        records: What is told once the new program has proved itself.
    """

    runner: Runner
    assembled: Assembled
    dropped: frozenset[str]
    trial: str = ""
    records: list[FallbackRecord] = field(default_factory=list)


class RecoveryState:
    """The memory of one session's recoveries.

    Args:
        options: The session's options.

    Attributes:
        circuits: Breakers of its providers.
        generations: Resets of each provider's device that its program knows of.
        under_way: Recoveries under way.
        unproven: What may come back, None for nothing.
        moved: Providers that compute on another device than at first, or were left for a wrong result.
        fitting: By batch axis, the size of parts that fitted into memory, and until when runs are split so at once.
    """

    def __init__(self, options: SessionOptions) -> None:
        self.circuits = circuits_of(options.entry(FAILURES_KEY), options.entry(RETRY_KEY))
        self.generations: dict[str, int] = {}
        self.under_way = 0
        self.unproven: Unproven | None = None
        self.moved: set[str] = set()
        self.fitting: dict[int, tuple[int, float]] = {}
        tell_in_children(self)

    @property
    def watching(self) -> bool:
        """Whether runs must look before they begin, and tell how they ended."""
        return self.circuits.watching or self.unproven is not None

    def after_fork(self) -> None:
        """In a forked child: what the parent's other threads were about to do does not happen."""
        self.under_way = 0
        self.circuits.after_fork()

    def planning_for(self, providers: Iterable[IExecutionProvider]) -> None:
        """A program is about to be made: devices as they are now."""
        lost = process_lost_devices()
        self.generations = {one.name: lost.generation(one.name, one.device) for one in providers}


def session_state(built: Construction) -> SessionState:
    """The state of a session that is not closed."""
    state = built.recovery
    if state.under_way:
        return SessionState.RECOVERING
    if state.circuits.alone:
        return SessionState.FAILED
    changed = built.dropped or state.moved or state.unproven is not None
    return SessionState.DEGRADED if changed else SessionState.READY


def fallback_report(built: Construction) -> FallbackReport:
    """The fallback report of a session."""
    names = {provider.name for provider in built.created}
    devices = [one for one in process_lost_devices().seen() if one.name.partition(" on ")[0] in names]
    return FallbackReport(built.fallbacks.records, (*built.recovery.circuits.seen(), *devices))


def expect_device(provider: IExecutionProvider) -> None:
    """Refuse a provider whose device the process has just lost.

    Raises:
        DeviceReset: It was, it could not be reset, and it is not yet time to try it again.
    """
    lost = process_lost_devices()
    if lost.is_left(provider.name, provider.device) and not provider.use_backup_device():
        raise DeviceReset(
            f"The device {provider.device} was lost in this process.",
            where=Location(provider=provider.name),
            why="it could not be reset, or was lost again and again",
            fix="Name another provider, or create the session later.",
        )
