"""The failures that another provider may handle, the switches that control this, and the states of a session.

A caller's own mistake never falls back, because it would fail with any provider, or, worse, not fail.
The states, as `InferenceSession.state` reports them::

    READY ──failure──> RECOVERING ──another provider, or device, runs──> DEGRADED
      ^                    │                                                │
      │                    └──no other can run it──> FAILED              │
      └──a later run, or a trial of the provider left out, succeeds─────────┘
    CLOSED is the end of each.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from ort_py.errors import (
    DeviceReset,
    EPFail,
    ExecutionError,
    InvalidArgument,
    InvalidGraph,
    KernelNotFoundError,
    LimitError,
    NotImplemented,  # noqa: A004 - onnxruntime's name of the class
    OrtPyError,
)


class Strictness(Enum):
    """The extent to which work may run elsewhere than requested.

    OFF lets every fallback happen and reports it. PROVIDER forbids going on without a requested provider. NODE also
    forbids that a node of an accelerator's session ends on the completing CPU provider.
    """

    OFF = ""
    PROVIDER = "provider"
    NODE = "node"


class FallbackPolicy:
    """Rules of one session.

    Args:
        strictness: From the session's option, else the environment.
        enabled: `disable_fallback()` sets it to False.
    """

    def __init__(self, strictness: Strictness = Strictness.OFF, *, enabled: bool = True) -> None:
        self.strictness = strictness
        self.enabled = enabled

    def may_replace(self, error: Exception) -> bool:
        """Return whether a region or a run that failed with `error` may be given to other providers."""
        if not self.enabled or self.strictness is not Strictness.OFF:
            return False
        if isinstance(error, InvalidArgument | InvalidGraph | LimitError | KernelNotFoundError):
            return False
        if isinstance(error, ExecutionError | EPFail | DeviceReset | NotImplemented):
            return True
        return not isinstance(error, OrtPyError)


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
