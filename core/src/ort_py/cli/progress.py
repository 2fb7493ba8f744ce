"""Progress of long jobs: an occasional line on standard error. Short jobs print nothing."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from ort_py.cli.console import tell


class Progress:
    """Says on standard error what is being done once that has taken `patience` seconds, and again as often.

    Args:
        what: The activity, e.g. ``"loading model.onnx"``.
        patience: Seconds between lines.
    """

    def __init__(self, what: str, patience: float = 2.0) -> None:
        self._what = what
        self._patience = patience
        self._detail = ""
        self._done = threading.Event()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def detail(self, text: str) -> None:
        """Set the progress text, shown with the next line."""
        self._detail = text

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(self._patience):
            detail = f", {self._detail}" if self._detail else ""
            tell(f"{self._what} … {time.monotonic() - self._started:.0f} s{detail}")
