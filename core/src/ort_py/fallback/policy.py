"""The failures that another provider may handle, and the switches that control this.

A caller's own mistake never falls back: it would fail anywhere, or worse, not.
"""

from __future__ import annotations

from enum import Enum

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
