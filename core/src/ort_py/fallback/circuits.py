"""A session's memory of failures: a circuit breaker for each provider, and failures that no provider could handle.

Filled by `engine.recovery.answers`; a session whose runs all succeed never asks. It is independent of plans and
sessions.
"""

from __future__ import annotations

import time

from ort_py.errors import OptionError
from ort_py.fallback.breaker import BreakerState, Circuit, CircuitBreaker, Clock

FAILURES_KEY = "session.fallback_failures"
"""Config entry: failures of a provider in runs until it is left out; those before are answered by running again."""

RETRY_KEY = "session.fallback_retry_seconds"
"""Config entry: seconds until a provider that was left out is tried again; ``"0"`` for never."""

_USUAL_PAUSE = 60.0

_FUTILE = 3
"""Plans that did not help until no more are made for the same failure."""

_HOPELESS = 64
"""Failures remembered that no other provider could help; the one met first goes first."""


class Circuits:
    """Breakers of one session's providers.

    Args:
        failures: Failures until a provider is left out.
        pause: Seconds until it is tried again, 0 for never; doubled with each trial that fails.

    Attributes:
        alone: The last failure could not be answered.
        watching: Whether runs have to look at this: a provider is left out, or `alone` may end.
    """

    def __init__(self, failures: int = 1, pause: float = _USUAL_PAUSE, clock: Clock = time.monotonic) -> None:
        self.alone = False
        self._failures = failures
        self._pause = pause
        self.clock = clock
        self._breakers: dict[str, CircuitBreaker] = {}
        self._hopeless: dict[tuple[str, str], CircuitBreaker] = {}

    @property
    def watching(self) -> bool:
        if not self._pause:
            return self.alone  # a provider that was left out stays left out, so runs have nothing to check
        return self.alone or any(one.state is not BreakerState.CLOSED for one in list(self._breakers.values()))

    def of(self, provider: str) -> CircuitBreaker:
        return self._breakers.setdefault(provider, CircuitBreaker(self._failures, self._pause, self.clock))

    def next_trial(self) -> str:
        """A provider that is to be tried once more by the caller, ``""`` for none."""
        for name, breaker in self._breakers.items():
            if breaker.state is BreakerState.HALF_OPEN and breaker.begin_trial():
                return name
        return ""

    def after_fork(self) -> None:
        """In a forked child: trials that the parent's other threads had begun do not end here."""
        for breaker in self._breakers.values():
            breaker.abandon()

    def is_hopeless(self, provider: str, node: str) -> bool:
        """Return whether other providers recently failed on this node too, so that no new plan is made for it yet."""
        breaker = self._hopeless.get((provider, node))
        return breaker is not None and breaker.state is BreakerState.OPEN

    def give_up(self, provider: str, node: str) -> None:
        """Other providers failed at the same: the model or its inputs are to blame."""
        if len(self._hopeless) >= _HOPELESS and (provider, node) not in self._hopeless:
            del self._hopeless[next(iter(self._hopeless))]
        fresh = CircuitBreaker(_FUTILE, self._pause or _USUAL_PAUSE, self.clock)
        self._hopeless.setdefault((provider, node), fresh).failed()

    def helped(self, provider: str) -> None:
        """Note that a plan without the provider succeeded, so that the failure was the provider's own."""
        for key in [key for key in self._hopeless if key[0] == provider]:
            self._hopeless.pop(key, None)

    def seen(self) -> tuple[Circuit, ...]:
        """The state of each breaker that ever counted a failure."""
        found = [breaker.as_circuit(name) for name, breaker in list(self._breakers.items())]
        return tuple(one for one in found if one.failures or one.state is not BreakerState.CLOSED)


def circuits_of(failures: str, retry_seconds: str) -> Circuits:
    """Breakers with the settings of a session's config entries.

    Args:
        failures: Value of `FAILURES_KEY`, ``""`` for 1.
        retry_seconds: Value of `RETRY_KEY`, ``""`` for a minute.

    Raises:
        OptionError: An entry is not such a number.
    """
    return Circuits(
        int(_number(FAILURES_KEY, failures or "1", "a whole number, 1 or more", whole=True)),
        _number(RETRY_KEY, retry_seconds or str(_USUAL_PAUSE), "a number of seconds, or 0 for never"),
    )


def _number(key: str, text: str, wanted: str, *, whole: bool = False) -> float:
    try:
        found = float(int(text)) if whole else float(text)
    except ValueError:
        found = -1.0
    if not (1 if whole else 0) <= found < float("inf"):
        raise OptionError(
            f"The config entry '{key}' is {text!r}.",
            why=f"it takes {wanted}",
            fix="Correct the value, or leave it out.",
        )
    return found
