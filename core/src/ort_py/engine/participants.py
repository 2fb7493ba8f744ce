"""Decisions of a session before it places nodes: the participating providers, their order, and their known times.

Between `engine`, which holds one, and `partition`, which decides. The order is that of the config entry, else the
one that was measured for this model here, else the session's own. Strict sessions take no measured order: it may leave
out a provider that was asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ort_py.contracts import IExecutionProvider
from ort_py.discovery import ProviderRecord
from ort_py.engine.cache_use import CacheUse
from ort_py.engine.load_report import LoadReport
from ort_py.engine.tuned_placement import PLACEMENT_KEY, TunedPlacement, in_placement, named_placement
from ort_py.graph.reading.given_model import GivenModel
from ort_py.options import SessionOptions
from ort_py.partition.rates import Calibration


class Participants:
    """Decisions about the placement of one session that are made in advance.

    Attributes:
        key: Key under which a measured order is kept, ``""`` where none can be.
        names: Providers that take part, in order; empty for all as they are.
        explicit: Whether the user named the providers in their order.
    """

    def __init__(self, options: SessionOptions, cache: CacheUse) -> None:
        self._options = options
        self._cache = cache
        self.key = ""
        self.names: tuple[str, ...] = ()
        self.explicit = False
        self.calibration = Calibration()

    def decide(
        self,
        source: GivenModel,
        pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]],
        report: LoadReport,
        *,
        strict: str,
        threads: int,
        explicit: bool,
        reserve: Collection[str] = (),
    ) -> None:
        """Look up the placement that is named or was measured.

        Args:
            pairs: Records and providers of the session, in rank order.
            report: Receives a stage if the order differs from that of the session.
            reserve: Names of providers that can join the session where they were measured to make it faster.

        Raises:
            OptionError: The config entry names a provider that the session does not have.
        """
        self.explicit = explicit
        if len(pairs) < 2:
            return
        providers = [provider for _, provider in pairs]
        self.calibration = self._cache.calibration(pairs, threads)
        self.key = "" if strict else self._cache.placement_key(source, pairs, [threads])
        named = named_placement(self._options, providers)
        known = {*(provider.name for provider in providers), *reserve}
        tuned = self._cache.tuned(self.key, known) if named is None else None
        if tuned is None and not named:
            return
        with report.stage("placement") as notes:
            if tuned is not None:
                self.names = tuned.providers
                notes.append(str(tuned))
            elif named:
                self.names = named
                notes.append(f"the config entry {PLACEMENT_KEY} names {', '.join(named)}")

    def order(self, providers: Sequence[IExecutionProvider]) -> list[IExecutionProvider]:
        """The providers that take part, in order."""
        return in_placement(providers, self.names)

    def remember(self, title: str, tuned: TunedPlacement) -> bool:
        """Keep what was measured for this session's model; returns whether it is kept."""
        return self._cache.remember(self.key, title, tuned)

    def __repr__(self) -> str:
        """All settings that matter besides the participating providers, as a part of the key of a prepared model."""
        rates = sorted((name, repr(found)) for name, found in self.calibration.items())
        return f"Participants({self.explicit}, {rates})"
