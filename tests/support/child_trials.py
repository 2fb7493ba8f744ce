"""Trials in processes that may die: each runs under limits of memory and time, and its outcome is recorded.

A child process takes trials one after the other and says when one begins and how it ended. Where it dies or does not
end in time, the trial that it had begun is the one to blame, and another child goes on behind it. Knows nothing of
models; a trial is anything that can be pickled, and a function tries it.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["Outcome", "failures", "run_trials"]

_ADDRESSES = 6 << 30
"""Bytes of address space of a child; libraries reserve about two of them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial.

    Attributes:
        trial: Its index.
        kind: ``ended``, ``raised`` (something that the trial should not raise), ``died`` or ``hung``.
        text: The exception or the signal.
        seconds: How long it took.
    """

    trial: int
    kind: str
    text: str
    seconds: float


def run_trials(
    attempt: Callable[[Any], str],
    trials: Sequence[Any],
    *,
    seconds: float,
    address_space: int = _ADDRESSES,
    deadline: float | None = None,
) -> list[Outcome]:
    """Try everything once.

    Args:
        attempt: Tries one thing in a child; returns a text, or raises an exception that must not occur.
        trials: The things.
        seconds: How long one may take.
        address_space: Bytes of address space of a child.
        deadline: On the clock of `time.monotonic`, when no further trial is begun.

    Returns:
        An outcome for each trial that was begun.
    """
    context = multiprocessing.get_context("spawn")
    outcomes: list[Outcome] = []
    while len(outcomes) < len(trials) and (deadline is None or time.monotonic() < deadline):
        ours, theirs = context.Pipe()
        child = context.Process(target=_child, args=(theirs, attempt, address_space))
        child.start()
        theirs.close()
        try:
            _lead(ours, trials, outcomes, seconds, deadline)
        finally:
            ours.close()
            child.kill()
            child.join()
        if outcomes and outcomes[-1].kind == "died":
            outcomes[-1] = Outcome(outcomes[-1].trial, "died", f"exit code {child.exitcode}", outcomes[-1].seconds)
    return outcomes


def failures(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those that did not end well."""
    return [one for one in outcomes if one.kind != "ended"]


def _lead(
    ours: Connection, trials: Sequence[Any], outcomes: list[Outcome], seconds: float, deadline: float | None
) -> None:
    """Note the outcomes of one child until it is done, dies or hangs."""
    if not ours.poll(60) or ours.recv() != "ready":
        raise RuntimeError("a child process for trials did not start")
    while len(outcomes) < len(trials) and (deadline is None or time.monotonic() < deadline):
        number, start = len(outcomes), time.monotonic()
        try:
            ours.send(trials[number])
            if not ours.poll(seconds):
                outcomes.append(Outcome(number, "hung", f"more than {seconds} s", seconds))
                return
            kind, text = ours.recv()
        except (EOFError, OSError):
            outcomes.append(Outcome(number, "died", "", time.monotonic() - start))
            return
        outcomes.append(Outcome(number, kind, text, time.monotonic() - start))


def _child(theirs: Connection, attempt: Callable[[Any], str], address_space: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    theirs.send("ready")
    while True:
        try:
            trial = theirs.recv()
        except EOFError:
            return
        try:
            answer = ("ended", attempt(trial))
        except BaseException as error:  # the test reports the error, whatever it is
            answer = ("raised", f"{type(error).__name__}: {error}")
        theirs.send(answer)
