"""Text of strangers inside of text of ours: names of a model cannot steer a terminal, nor pose as lines of a report.

A leaf. Everything that makes text for people out of a model's names uses it: errors, log records, and what the command
line prints.
"""

from __future__ import annotations


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
