"""Text of strangers inside of text of ours: names of a model cannot steer a terminal, nor pose as lines of a report.

A leaf. Everything that makes text for people out of a model's names uses it: errors, log records, and what the command
line prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

__all__ = ["escape_arguments", "escape_in_logs", "one_line", "printable"]

_LOGGERS = [
    "ort_py.cache",
    "ort_py.environment",
    "ort_py.execution",
    "ort_py.memory",
    "ort_py.planning",
    "ort_py.session",
    "ort_py.graph.editing.retyping",
    "ort_py.graph.typing.inference",
    "ort_py.graph.typing.shapes",
    "ort_py.transforms.pipeline",
    "ort_py.transforms.gradient.request",
]
"""Loggers whose messages have names of models in them. A filter counts for records of its own logger alone."""


def printable(text: str) -> str:
    """The text with control and formatting characters as escapes, but for its line ends.

    They could move the cursor, recolour what is shown, or reverse its order.
    """
    if all(line.isprintable() for line in text.split("\n")):
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def one_line(text: str) -> str:
    """The text on one line: line ends are escapes too, so that a name cannot pose as a line of its own."""
    return text if text.isprintable() else printable(text).replace("\n", "\\n")


def escape_arguments(record: logging.LogRecord) -> bool:
    """A filter for loggers: texts that a message is filled with are one line. Lets every record pass."""
    if isinstance(record.args, tuple):
        record.args = tuple(one_line(value) if isinstance(value, str) else value for value in record.args)
    return True


def escape_in_logs() -> None:
    """Let the project's loggers escape what their messages are filled with."""
    import logging  # errors are made of this module, and some programs want nothing else

    for name in _LOGGERS:
        logging.getLogger(name).addFilter(escape_arguments)  # adding it again does nothing
