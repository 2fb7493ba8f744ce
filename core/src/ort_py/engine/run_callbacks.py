"""Notification of providers about runs: `on_run_start` and `on_run_end`, each in its own guard. Does not depend on
sessions.
"""

from __future__ import annotations

from collections.abc import Iterable

from ort_py.contracts import IExecutionProvider
from ort_py.errors import EPFail, Location
from ort_py.hooks.guard import describe
from ort_py.logs import lazy_logger

_logger = lazy_logger("ort_py.session")


def wants_runs(provider: IExecutionProvider) -> bool:
    base, own = IExecutionProvider, type(provider)
    return own.on_run_start is not base.on_run_start or own.on_run_end is not base.on_run_end


def begin_run(providers: Iterable[IExecutionProvider]) -> None:
    """Tell providers that a run begins."""
    for provider in providers:
        try:
            provider.on_run_start()
        except Exception as error:  # a plug-in's code; with its provider's name, run fallback can answer it
            raise EPFail(
                f"{provider.name} failed when a run started: {type(error).__name__}: {error}",
                where=Location(provider=provider.name),
                why=describe(error),
                fix="Report this to the provider's author, or leave the provider out.",
            ) from error


def end_run(providers: Iterable[IExecutionProvider]) -> None:
    """Tell providers that a run ended; what they raise is logged."""
    for provider in providers:
        try:
            provider.on_run_end()
        except Exception:  # a plug-in's code, and the run itself has ended: its result counts
            _logger.exception("%s: on_run_end failed", provider.name)
