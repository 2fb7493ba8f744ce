"""The file of cases that a provider is known to fail: one ``case id: reason`` a line, strictly.

A case that passes must leave the list, a name that is not a case is an error, and every line gives a reason. Does not
depend on the way a case is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ort_py.errors import UsageError


def read_expected_failures(path: Path | str | None) -> dict[str, str]:
    """Reasons by case id; empty if the file does not exist. Empty lines and lines that begin with ``#`` are ignored.

    Raises:
        UsageError: The file does not exist, or a line has no reason or a case twice; all such lines are named.
    """
    if path is None:
        return {}
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"There is no file '{file}' of expected failures.", fix="Correct the path, or leave it out.")
    reasons: dict[str, str] = {}
    wrong: list[str] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        case, _, reason = (part.strip() for part in text.partition(":"))
        if not reason:
            wrong.append(f"line {number}: '{case}' has no reason")
        elif case in reasons:
            wrong.append(f"line {number}: '{case}' is there twice")
        else:
            reasons[case] = reason
    if wrong:
        raise UsageError(
            f"The expected failures in '{file}' cannot be used.", why=wrong, fix="Write `case id: reason`, once a case."
        )
    return reasons


def reason_for(reasons: Mapping[str, str], name: str) -> str | None:
    """The reason listed for a name, or for all names that begin like it: a line that ends in ``*``."""
    if name in reasons:
        return reasons[name]
    fitting = (reason for line, reason in reasons.items() if line.endswith("*") and name.startswith(line[:-1]))
    return next(fitting, None)
