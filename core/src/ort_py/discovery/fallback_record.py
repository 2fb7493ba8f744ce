"""One entry of a session's fallback report. A leaf of this room: later stages make such records too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FallbackKind", "FallbackRecord"]

FallbackKind = Literal["selection", "assignment", "initialisation", "run"]
"""When a fallback happened: choosing providers, assigning or compiling nodes, creating a provider, or in a run."""


@dataclass(frozen=True, slots=True)
class FallbackRecord:
    """Something does not run where it was asked to run.

    Attributes:
        kind: When it happened.
        provider: Provider that was asked for.
        reason: Why it does not run there, as the provider or its exception says.
        node: The node concerned, ``""`` where the whole provider is.
        replacement: Provider that takes over, ``""`` where it is not known yet.
    """

    kind: FallbackKind
    provider: str
    reason: str
    node: str = ""
    replacement: str = ""

    def __str__(self) -> str:
        where = f" (node '{self.node}')" if self.node else ""
        after = f" {self.replacement} takes over." if self.replacement else ""
        return f"{self.provider}{where} is not used, {self.kind}: {self.reason.rstrip('.')}.{after}"
