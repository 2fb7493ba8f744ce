"""The memory of an engine's recoveries: its failures in runs, and a program that has not proved itself yet.

`answers` and `exchange` read and write it, under the engine's lock where threads could disagree. It knows no policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from ort_py.contracts import IExecutionProvider
from ort_py.discovery import FallbackRecord
from ort_py.engine.assembly import Assembled
from ort_py.engine.runner import Runner
from ort_py.errors import DeviceReset, Location
from ort_py.fallback.awaited import AwaitedRegions
from ort_py.fallback.circuits import FAILURES_KEY, RETRY_KEY, circuits_of
from ort_py.fallback.lost_devices import process_lost_devices
from ort_py.fallback.policy import SessionState
from ort_py.lazy_dataclass import dataclass
from ort_py.options import SessionOptions, entry_of
from ort_py.platform.forks import notify_after_fork


@dataclass(slots=True)
class Unproven:
    """A program that was replaced and may come back, because no run of the new one has succeeded yet.

    Attributes:
        dropped: Providers it was planned without.
        trial: The provider that is being tried again, ``""`` if providers were left out.
        records: Records to publish once the new program has proved itself.
    """

    runner: Runner
    assembled: Assembled
    dropped: frozenset[str]
    trial: str = ""
    records: list[FallbackRecord] = field(default_factory=list)


class RecoveryState:
    """The memory of one engine's recoveries.

    Attributes:
        generations: Resets of each provider's device that its program knows of.
        unproven: The provider that may come back, None for none.
        awaited: Regions that providers are still making.
        moved: Providers that compute on another device than at first, or were left for a wrong result.
        fitting: By batch axis, the size of parts that fitted into memory, and until when runs are split so at once.
    """

    def __init__(self, options: SessionOptions) -> None:
        self.circuits = circuits_of(entry_of(options, FAILURES_KEY), entry_of(options, RETRY_KEY))
        self.generations: dict[str, int] = {}
        self.awaited = AwaitedRegions()
        self.under_way = 0
        self.unproven: Unproven | None = None
        self.moved: set[str] = set()
        self.fitting: dict[int, tuple[int, float]] = {}
        notify_after_fork(self)

    def session_state(self, *, left_out: bool) -> SessionState:
        """The state of a session that is open.

        Args:
            left_out: Whether a provider is left out after a failure.
        """
        if self.under_way:
            return SessionState.RECOVERING
        if self.circuits.alone:
            return SessionState.FAILED
        changed = left_out or self.moved or self.unproven is not None
        return SessionState.DEGRADED if changed else SessionState.READY

    @property
    def watching(self) -> bool:
        """True if runs look before they begin whether to try a provider again, and report how they ended."""
        return self.circuits.watching or self.unproven is not None or bool(self.awaited)

    def after_fork(self) -> None:
        """Forget, in a forked child, what the parent's other threads were about to do."""
        self.under_way = 0
        self.circuits.after_fork()

    def planning_for(self, providers: Iterable[IExecutionProvider]) -> None:
        """Remember which resets of their devices the providers of the next program know of."""
        lost = process_lost_devices()
        self.generations = {one.name: lost.generation(one.name, one.device) for one in providers}


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
            why="it could not be reset, or it was lost repeatedly",
            fix="Name another provider, or create the session later.",
        )
