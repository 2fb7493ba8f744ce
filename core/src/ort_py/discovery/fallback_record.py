"""One entry of a session's fallback report. A leaf of this room: later stages make such records too."""

from __future__ import annotations

import time
from dataclasses import field
from typing import Any, Literal

from ort_py.lazy_dataclass import dataclass

FallbackKind = Literal["selection", "assignment", "initialisation", "run"]
"""When a fallback happened: choosing providers, assigning or compiling nodes, creating a provider, or in a run."""

FallbackAction = Literal[
    "left out", "run again", "memory freed", "batch split", "device reset", "device changed", "tried again", "raised"
]
"""Action taken: the provider left out, for good or until it is tried again; the run repeated as it was, with memory
given back, or in parts; the device reset or exchanged; the provider taken in again; nothing, and the error raised."""

_SENTENCES: dict[FallbackAction, str] = {
    "left out": "is not used",
    "run again": "ran once more",
    "memory freed": "succeeded when repeated after memory was released",
    "batch split": "ran in parts",
    "device reset": "continues after its device was reset",
    "device changed": "continues on another device",
    "tried again": "is used again",
    "raised": "failed, and no other provider could take over",
}


@dataclass(frozen=True, slots=True)
class FallbackRecord:
    """A node or provider that does not run where, or as, it was requested.

    Attributes:
        kind: Stage at which it happened.
        provider: Requested provider; ``""`` for the core itself.
        reason: Reason given by the provider or its exception.
        node: The node concerned; ``""`` for the whole provider.
        replacement: The provider or device that runs it instead; ``""`` if it is not known yet.
        time: Seconds since 1970, of the last time.
        count: Number of such events.
    """

    kind: FallbackKind
    provider: str
    reason: str
    node: str = ""
    replacement: str = ""
    action: FallbackAction = "left out"
    time: float = field(default_factory=time.time, compare=False)
    count: int = 1

    def is_like(self, other: FallbackRecord) -> bool:
        """Return whether both records describe the same event at two times."""
        return self._key() == other._key()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def _key(self) -> tuple[str, ...]:
        return (self.kind, self.provider, self.node, self.replacement, self.action)

    def __str__(self) -> str:
        where = f" (node '{self.node}')" if self.node else ""
        after = f" {self.replacement} takes over." if self.replacement and self.action == "left out" else ""
        if self.replacement and self.action == "device changed":
            after = f" Now: {self.replacement}."
        times = f" ({self.count} times)" if self.count > 1 else ""
        who = self.provider or "The session"
        done = _SENTENCES[self.action]
        return f"{who}{where} {done}, {self.kind}: {self.reason.rstrip('.')}.{after}{times}"
