"""The regions that a session waits for: providers are making them, and others run their nodes until then.

Filled where a provider raises `RegionNotReady`; a run looks here before it begins. It is independent of plans and
sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ort_py.lazy_dataclass import dataclass
from ort_py.platform.forks import ProcessLock

if TYPE_CHECKING:
    from ort_py.contracts import RegionNotReady


_MOST_UNREADY = 8
"""Times in a row that a provider may say that its regions are ready when they are not. Each costs a plan; one whose
regions change while others are left out may need some.
"""

Question = Callable[[], bool]
"""Returns whether a region is ready; raises if it never will be."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A provider none of whose regions is being made any longer.

    Attributes:
        provider: Its name.
        failure: The reason why one of them will never be ready; ``""`` if all are ready.
    """

    provider: str
    failure: str = ""


class AwaitedRegions:
    """The questions to ask before the next runs: whether a region is ready, by provider."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._waiting: dict[str, list[Question]] = {}
        self._unready: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def providers(self) -> frozenset[str]:
        """The providers that are making regions."""
        return frozenset(self._waiting)

    def add(self, provider: str, answer: RegionNotReady) -> None:
        """Wait for a region of a provider."""
        with self._lock.held():
            self._waiting.setdefault(provider, []).append(answer.ready)  # the error itself would keep frames alive

    def settled(self) -> Settled | None:
        """Return a provider whose regions are all ready, or of which one never will be; None while there is none."""
        if not self._waiting:
            return None
        with self._lock.held():
            waiting = [(name, list(questions)) for name, questions in self._waiting.items()]
        for name, questions in waiting:
            try:
                answers = [ready() for ready in questions]  # each is asked, because any may give up
                if all(answers):
                    return Settled(name)
            except Exception as error:  # a plug-in's code, which says with it that it gives up
                return Settled(name, f"{type(error).__name__}: {getattr(error, 'what', None) or error}")
        return None

    def forget(self, provider: str) -> list[Question]:
        """Wait for none of a provider's regions any longer.

        Returns:
            Its questions, which may keep what it made.
        """
        with self._lock.held():
            return self._waiting.pop(provider, [])

    def reset_unready(self, provider: str) -> None:
        """Note that a provider's regions could be had when it reported them as ready."""
        self._unready.pop(provider, None)

    def count_unready(self, provider: str) -> str:
        """Count that none of a provider's regions could be had when it reported them as ready.

        Returns:
            The reason to wait no longer; ``""`` while it is awaited again, or has given another reason.
        """
        count = self._unready[provider] = self._unready.get(provider, 0) + 1
        if count < _MOST_UNREADY or not self.forget(provider):
            return ""
        return f"it said {count} times in a row that its regions are ready, and they were not"

    def clear(self) -> None:
        """Wait for nothing any longer."""
        with self._lock.held():
            self._waiting.clear()
