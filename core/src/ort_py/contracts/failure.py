"""The classification of a provider's failures, for exceptions whose class does not say what they mean.

The core reads `MemoryError` as memory that is short and `DeviceReset` as a device that is gone; everything else is a
failure. A provider whose library raises other classes answers `IExecutionProvider.failure_kind`.
"""

from __future__ import annotations

from enum import Enum


class FailureKind(Enum):
    """The way in which the engine reacts to an exception of a run.

    FAILED: other providers take over. OUT_OF_MEMORY: memory is given back first, and the run repeated. DEVICE_LOST: the
    device is reset, exchanged or left. CALLER: the caller's own mistake, which is raised as it is.
    """

    FAILED = "failed"
    OUT_OF_MEMORY = "out of memory"
    DEVICE_LOST = "device lost"
    CALLER = "caller"
