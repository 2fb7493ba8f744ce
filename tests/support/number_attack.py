"""Loads and runs one mutant of `extreme_numbers`: the trial of `child_trials` that the test and the command share."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import ort_py as ort

__all__ = ["SECONDS", "attempt", "attempt_trusted"]

SECONDS = 3.0
"""Limit of loading, and of a run."""


def attempt(mutant: tuple[bytes, dict[str, Any]]) -> str:
    """Load and run under strict limits; only exceptions of ort_py may come out."""
    return _attempt(mutant, dataclasses.replace(ort.Limits.untrusted(), load_seconds=SECONDS, run_seconds=SECONDS))


def attempt_trusted(mutant: tuple[bytes, dict[str, Any]]) -> str:
    """The same under the default limits, shorter in time."""
    return _attempt(mutant, dataclasses.replace(ort.Limits(), load_seconds=SECONDS, run_seconds=SECONDS))


def _attempt(mutant: tuple[bytes, dict[str, Any]], limits: ort.Limits) -> str:
    model, feeds = mutant
    logging.getLogger("ort_py").setLevel(logging.CRITICAL)
    options = ort.SessionOptions()
    options.limits = limits
    stage = "load"
    try:
        with ort.InferenceSession(model, options) as session:
            stage = "run"
            session.run(None, feeds)
    except ort.OrtPyError as error:
        return f"{stage}: {type(error).__name__}"
    return "ran"
