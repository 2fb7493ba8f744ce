"""Run options that the engine may set `terminate` of: for runs that somebody else starts and stops.

Used by `asynchronous` and `streams`. Apart from them, so that a session that only runs needs no asyncio.
"""

from __future__ import annotations

from typing import Any

from ort_py.options import RunOptions

__all__ = ["StoppableOptions"]


class StoppableOptions(RunOptions):
    """The caller's run options and a second way to set `terminate`, which leaves theirs as they are."""

    __slots__ = ("_original", "_stopped")

    def __init__(self, original: RunOptions | None = None) -> None:
        # The base is not initialised: its attributes are absent here, so all of them are looked up in the original.
        object.__setattr__(self, "_original", RunOptions() if original is None else original)
        object.__setattr__(self, "_stopped", False)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_original"), name)

    @property
    def terminate(self) -> bool:
        """Whether the run is to stop."""
        return bool(self._stopped or self._original.terminate)

    def stop(self) -> None:
        """Make the run end before its next step."""
        object.__setattr__(self, "_stopped", True)
