"""Warnings that point at the user's line, not at one inside ort-py."""

from __future__ import annotations

import sys
import warnings


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the nearest caller outside this package, so that the default filter shows it once for each such line."""
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "ort_py" or module.startswith("ort_py.")
