"""Ask a loaded provider whether it is usable here, with a time limit. Ends in a record, never in an exception.

Comes after `loading`, before `catalog`, which keeps the answer. A probe runs on a daemon thread of its own, because
nothing else can give up on foreign code that hangs; the thread is gone when the probe returns. A probe that hangs makes
its provider broken and leaves a sleeping thread that does not hold up the end of the process.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from ort_py.contracts import Availability
from ort_py.discovery.environment import probe_seconds
from ort_py.discovery.loading import broken
from ort_py.discovery.records import ProviderRecord, RecordState
from ort_py.errors import PluginError
from ort_py.hooks.guard import Raised, guarded
from ort_py.logs import INFO, WARNING, lazy_logger

CONTRACT_SECONDS = 0.02
"""Seconds that the contract allows a probe; a slower one is logged, not punished."""

_WARNED_SECONDS = 0.1
"""From here on the log entry is a warning: users of a slow machine can do nothing about less."""

_BUSY_MACHINE_SECONDS = 0.2
"""Below this, only processor time counts: a probe that had to wait for its turn on a busy machine is not slow."""

logger = lazy_logger(__name__)


def probe(record: ProviderRecord, seconds: float | None = None) -> ProviderRecord:
    """The record of a loaded provider as its probe answers: available, unavailable, or broken.

    Args:
        seconds: Time limit; ``ORT_PY_PROBE_TIMEOUT``, else 2 seconds, where None.

    Raises:
        OptionError: ``ORT_PY_PROBE_TIMEOUT`` is malformed.
    """
    factory = record.factory
    assert factory is not None, "only loaded providers are probed"
    limit = probe_seconds() if seconds is None else seconds
    answers: list[object] = []
    interrupted: list[KeyboardInterrupt] = []
    slow: list[float] = []

    def ask() -> None:
        wall, busy = time.perf_counter(), time.thread_time()
        try:
            answers.append(guarded(factory.probe))
        except KeyboardInterrupt as error:  # raised by the plug-in itself: signals go to the main thread
            interrupted.append(error)
        wall, busy = time.perf_counter() - wall, time.thread_time() - busy
        if busy > CONTRACT_SECONDS or wall > _BUSY_MACHINE_SECONDS:
            slow.extend((wall, WARNING if max(busy, wall / 2) >= _WARNED_SECONDS else INFO))

    thread = threading.Thread(target=ask, name=f"ort-py probe of {record.name}", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no threads on this platform, or no more of them: better without a limit than not at all
        ask()
    else:
        thread.join(limit)
    if thread.is_alive():
        error = TimeoutError(f"probe() of {record.name} did not return within {limit:g} s")
        return broken(record, str(error), error)
    if slow:
        logger.log(
            int(slow[1]),
            "probe() of %s (%s) took %.0f ms; providers are asked to answer in %.0f ms.",
            record.name,
            record.origin,
            slow[0] * 1e3,
            CONTRACT_SECONDS * 1e3,
        )
    answer = answers[0] if answers else Raised(interrupted[0])
    if isinstance(answer, Raised):
        return broken(record, f"its probe() raised {answer}", answer.error)
    if not isinstance(answer, Availability):
        return broken(
            record,
            f"its probe() returned {type(answer).__name__} instead of Availability",
            PluginError(
                f"probe() of {record.name} returned {answer!r}.", fix="Return an ort_py.contracts.Availability."
            ),
        )
    if answer.available:
        remark = "; ".join(filter(None, (record.reason, answer.reason)))
        return replace(record, state=RecordState.AVAILABLE, reason=remark, fix="", devices=answer.devices)
    return replace(
        record,
        state=RecordState.UNAVAILABLE,
        reason=answer.reason or "it gives no reason",
        fix=answer.fix,
        devices=answer.devices,
    )
