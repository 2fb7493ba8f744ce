"""Devices that were lost, for all sessions of the process: one resets, the others only plan again.

A reset gives up what every session has on the device, so it must not be done once for each of them. Each successful
reset begins a new *generation*; a session whose programs are of an older one plans again and leaves the device alone.
A device that is lost again and again is left out for a while, by new sessions too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ort_py.devices import Device
from ort_py.fallback.breaker import BreakerState, Circuit, CircuitBreaker, Clock
from ort_py.logs import lazy_logger
from ort_py.platform.forks import ProcessLock

_logger = lazy_logger("ort_py.session")

LOSSES = 3
"""Losses within a pause after which a device is left alone."""

TRIES = 2
"""Calls of a provider's `reset_device` for one loss."""


class _Lost:
    """One device that was lost before."""

    def __init__(self, clock: Clock) -> None:
        self.generation = 0
        self.breaker = CircuitBreaker(LOSSES, clock=clock)
        self.lock = ProcessLock()


class LostDevices:
    """Losses by provider and device."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lost: dict[tuple[str, Device], _Lost] = {}

    def generation(self, provider: str, device: Device) -> int:
        """Successful resets so far: what is read before a session plans."""
        found = self._lost.get((provider, device))
        return 0 if found is None else found.generation

    def is_left(self, provider: str, device: Device) -> bool:
        """Return whether the device was lost recently and could not be reset."""
        found = self._lost.get((provider, device))
        return found is not None and found.breaker.state is BreakerState.OPEN

    def reset(self, provider: str, device: Device, generation: int, call: Callable[[], bool]) -> bool:
        """Try to reset a lost device, unless another session has done so. Returns whether it is usable.

        Args:
            generation: Result of `generation` when the failed program was planned.
        """
        lost = self._lost.setdefault((provider, device), _Lost(self._clock))
        with lost.lock.held():
            if lost.generation != generation:
                return True
            if lost.breaker.failed():
                return False
            for _ in range(TRIES):
                if _called(provider, call):
                    lost.generation += 1
                    return True
            lost.breaker.trip()
            return False

    def retry(self, provider: str, device: Device, call: Callable[[], bool]) -> bool:
        """Return whether a provider that was left out may use a device again: the device was never lost permanently, or
        a due reset has succeeded now.
        """
        lost = self._lost.get((provider, device))
        if lost is None:
            return True
        with lost.lock.held():
            if lost.breaker.state is BreakerState.CLOSED:
                return True
            if not lost.breaker.begin_trial():
                return False
            usable = _called(provider, call)
            if usable:
                lost.generation += 1
                lost.breaker.succeeded()
            else:
                lost.breaker.failed()
            return usable

    def seen(self) -> tuple[Circuit, ...]:
        """The state of the breaker of each device that was ever lost."""
        return tuple(lost.breaker.as_circuit(f"{name} on {device}") for (name, device), lost in self._lost.items())

    def forget(self) -> None:
        """Start from the beginning, for tests."""
        self._lost.clear()


def _called(provider: str, call: Callable[[], bool]) -> bool:
    try:
        return bool(call())
    except Exception:  # a plug-in's code, whose device is gone
        _logger.exception("%s: reset_device failed", provider)
        return False


_process = LostDevices()


def process_lost_devices() -> LostDevices:
    return _process
