"""The states of a session, as `InferenceSession.state` reports them.

::

    READY ──failure──> RECOVERING ──another provider, or device, runs──> DEGRADED
      ^                    │                                                │
      │                    └──no other can run it──> FAILED              │
      └──a later run, or a trial of the provider left out, succeeds─────────┘
    CLOSED is the end of each.
"""

from __future__ import annotations

from enum import StrEnum


class SessionState(StrEnum):
    """The present state of a session. Each member is also the text of its name in lower case.

    READY: runs go where the session placed them when it was made. RECOVERING: a failure is being answered by planning
    again; runs of other threads wait for it only where they fail too. DEGRADED: a provider is left out, or computes on
    another device than at first; results are right. FAILED: the last failure of a provider could not be answered; every
    run tries again. CLOSED: nothing runs any more.
    """

    READY = "ready"
    RECOVERING = "recovering"
    DEGRADED = "degraded"
    FAILED = "failed"
    CLOSED = "closed"
