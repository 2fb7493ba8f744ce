"""The fallback report of a session: every event once, in order, with how the breakers stand.

A list, so that `for record in report`, `len(report)` and `report == []` say what they seem to. Filled by the engine's
building and its runs, through its log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from ort_py.discovery.fallback_record import FallbackRecord
from ort_py.fallback.breaker import Circuit
from ort_py.hooks import FallbackEvent
from ort_py.hooks.manager import HookManager
from ort_py.logs import INFO, WARNING, lazy_logger
from ort_py.platform.forks import ProcessLock

_logger = lazy_logger("ort_py.session")


class FallbackReport(list[FallbackRecord]):
    """The parts of a session that do not run where, or as, they were requested.

    Args:
        circuits: The breaker of each provider or device that failed in a run.
    """

    def __init__(self, records: Iterable[FallbackRecord] = (), circuits: Iterable[Circuit] = ()) -> None:
        super().__init__(records)
        self.circuits = tuple(circuits)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: ``{"events": [...], "circuits": [...]}``."""
        return {"events": [one.to_dict() for one in self], "circuits": [asdict(one) for one in self.circuits]}

    def __str__(self) -> str:
        lines = [str(record) for record in self]
        lines += [
            f"{one.name}: {one.state}, {one.failures} failure(s)"
            + (f", tried again in {one.seconds:.0f} s" if one.seconds else "")
            for one in self.circuits
        ]
        return "\n".join(lines) or "nothing fell back"


class FallbackLog:
    """The events of a session so far: each is once in the report and the log, and observers are notified once."""

    def __init__(self, hooks: HookManager, session_id: str) -> None:
        self.records: list[FallbackRecord] = []
        self._hooks = hooks
        self._session_id = session_id
        self._lock = ProcessLock()

    def note(self, record: FallbackRecord) -> None:
        """Add an event; one of a run that is in the report already is counted there.

        A run that is answered each time it happens would otherwise make report and log grow without end.
        """
        with self._lock.held():
            for place, one in enumerate(self.records):
                if record.kind == "run" and one.is_like(record):
                    self.records[place] = replace(record, count=one.count + 1)
                    return
            self.records.append(record)
        # `discovery` has already logged those of the selection, once for all sessions.
        level = INFO if record.kind == "selection" else WARNING
        _logger.log(level, "fallback (%s): %s", record.kind, record)
        self._hooks.observe(
            "ort_py_fallback",
            FallbackEvent(
                self._session_id, record.kind, record.provider, record.reason, record.node, record.replacement
            ),
        )
