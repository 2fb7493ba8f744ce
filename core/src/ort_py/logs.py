"""The project's loggers. They are made when they have something to say, because importing `logging` takes 4 ms.

As long as nothing in a process has imported `logging`, nothing can have asked for debugging and information, so these
are dropped; warnings and errors import it. Every text that a message is filled with is escaped: it may be a name out of
a model of a stranger. A leaf that knows nothing but `printable`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from ort_py.printable import one_line

if TYPE_CHECKING:
    import logging

DEBUG, INFO, WARNING = 10, 20, 30
"""The levels of `logging`."""


def lazy_logger(name: str) -> logging.Logger:
    """Return a stand-in for the logger of a name, which has the same methods."""
    return cast("logging.Logger", _LazyLogger(name))


def escape_arguments(record: logging.LogRecord) -> bool:
    """A filter for loggers: texts that a message is filled with are one line. Lets every record pass."""
    if isinstance(record.args, tuple):
        record.args = tuple(one_line(value) if isinstance(value, str) else value for value in record.args)
    return True


class _LazyLogger:
    """Stands in for a logger. What it hands out are the logger's own methods, so that records name the right caller."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if "logging" not in sys.modules and attribute in _UNHEARD:
            return _UNHEARD[attribute]
        import logging

        logger = logging.getLogger(self._name)
        logger.addFilter(escape_arguments)  # adding it again does nothing
        return getattr(logger, attribute)


def _drop(*_: object, **__: object) -> None:
    """Do what a logger does with a record that no handler asks for."""


_UNHEARD: dict[str, Any] = {"debug": _drop, "info": _drop, "isEnabledFor": WARNING.__le__}
