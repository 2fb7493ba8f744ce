"""The share of runs that a session verifies: the value of an option, else of the environment, checked.

Comes before `session_options`, which documents the option, and `verification`, which acts on it. It depends on
neither.
"""

from __future__ import annotations

import math
import os

from ort_py.errors import OptionError

VARIABLE = "ORT_PY_VERIFY"
"""Environment variable that gives the share where the option does not."""


def check_share(share: float, source: str) -> float:
    """Raise if the value is not a share."""
    if not (math.isfinite(share) and 0 <= share <= 1):
        raise _refusal(source, repr(share))
    return float(share)


def share_of(option: float | None) -> float:
    """The share of runs to verify, from 0 to 1: the option, else the environment variable ``ORT_PY_VERIFY``, else 0."""
    if option is not None:
        return float(option)
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return 0.0
    source = f"The environment variable {VARIABLE}"
    try:
        share = float(text)
    except ValueError:
        raise _refusal(source, repr(text)) from None
    return check_share(share, source)


def _refusal(source: str, text: str) -> OptionError:
    return OptionError(
        f"{source} is {text}.",
        why="the value is the share of runs that are verified",
        fix="Use a number from 0 to 1, e.g. 0.001 for one run in a thousand.",
    )
