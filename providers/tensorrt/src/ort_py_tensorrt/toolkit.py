"""The door to TensorRT or TensorRT-RTX: imported when the first session asks for it, never by discovery.

Everything that needs the library takes a `Toolkit`. There is one for each library and process, because the library
keeps its logger. Comes after `installed`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from ort_py.errors import EPFail
from ort_py.platform.forks import ProcessLock
from ort_py_tensorrt.installed import Missing, find
from ort_py_tensorrt.variants import Variant

__all__ = ["Toolkit", "open_toolkit"]

_logger = logging.getLogger("ort_py_tensorrt.library")
_lock = ProcessLock()
_open: dict[str, Toolkit] = {}

_MOST_ERRORS = 8
"""Messages that one exception shows."""


class Toolkit:
    """One of the libraries, with the logger that all of its objects are made with.

    Args:
        variant: The library.
        module: Its module.

    Attributes:
        detailed: Whether messages below warnings are logged.
    """

    def __init__(self, variant: Variant, module: Any) -> None:
        self.variant = variant
        self.module = module
        self.detailed = False
        self._collecting = threading.local()
        self._lock = ProcessLock()
        self.logger = self._make_logger()

    @property
    def version(self) -> str:
        """The library's version."""
        return str(self.module.__version__)

    @contextlib.contextmanager
    def compiling(self) -> Iterator[list[str]]:
        """Parse or build, while no other thread does: the library's parser is not documented as safe for threads.

        Collects errors, as `errors` does.
        """
        with self._lock.held(), self.errors() as found:
            yield found

    @contextlib.contextmanager
    def errors(self) -> Iterator[list[str]]:
        """Collect the errors that the library reports on this thread; they are the only explanation of a failure."""
        before = getattr(self._collecting, "found", None)
        found: list[str] = []
        self._collecting.found = found
        try:
            yield found
        finally:
            self._collecting.found = before

    def report(self, severity: int, text: str) -> None:
        """Pass a message of the library on to `logging`.

        Args:
            severity: From 0, an internal error, to 4, which is verbose.
            text: The message.
        """
        found: list[str] | None = getattr(self._collecting, "found", None)
        if severity <= 1 and found is not None:
            if len(found) < _MOST_ERRORS:
                found.append(" ".join(text.split()))
            _logger.debug("%s", text)  # whoever collects it says it in an exception
        elif severity <= 1:
            _logger.error("%s", text)
        elif severity == 2 or self.detailed:
            _logger.info("%s", text)  # warnings too: they repeat with each question, and ask for nothing of users

    def _make_logger(self) -> Any:
        base: Any = self.module.ILogger

        class Logger(base):  # type: ignore[misc]  # the library has no types
            def __init__(self, report: Any) -> None:
                base.__init__(self)
                self._report = report

            def log(self, severity: Any, text: str) -> None:
                self._report(int(severity), text)

        return Logger(self.report)


def open_toolkit(variant: Variant) -> Toolkit:
    """Import a library.

    Raises:
        EPFail: It is not installed, too old, or does not import; with the command that mends it.
    """
    with _lock.held():
        if variant.module not in _open:
            _open[variant.module] = Toolkit(variant, _imported(variant))
        return _open[variant.module]


def _imported(variant: Variant) -> Any:
    found = find(variant)
    if isinstance(found, Missing):
        raise EPFail(f"{variant.title} cannot be used: {found.reason}.", fix=found.fix)
    try:
        return import_module(variant.module)
    except Exception as error:  # a library that is missing behind it raises whatever its loader raises
        raise EPFail(
            f"{found} is installed and does not import: {error}.",
            fix=f"pip install --force-reinstall {found.distribution}",
        ) from error
