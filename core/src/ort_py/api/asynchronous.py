"""Asynchronous runs: `run_async` with a callback, and `run_asyncio` to be awaited.

Both put an ordinary run on a thread of the session's queue. To stop one, the run options' `terminate` is set, which the
executor checks between steps, as for any other run. Does not depend on frames or plans.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ort_py.engine.run_arguments import check_run_options, name_list
from ort_py.errors import ArgumentTypeError, RunTimeoutError, UsageError
from ort_py.execution.run_queue import Job, RunQueue
from ort_py.logs import lazy_logger
from ort_py.options import RunOptions, overlay_of

_logger = lazy_logger("ort_py.session")

Callback = Callable[[list[Any], Any, str], Any]
"""Called with (results, user_data, error): ``""`` for success, else the message, and no results."""

GRACE_SECONDS = 0.25
"""Seconds to wait for a stopped run. A step that is under way cannot be stopped, and the caller wants to continue."""


def submit(
    run: Callable[..., list[Any]],
    queue: RunQueue,
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    callback: Callback,
    user_data: Any,
    run_options: RunOptions | None,
) -> None:
    """See `InferenceSession.run_async`; `feed` was looked at already."""
    if not callable(callback):
        raise ArgumentTypeError(
            f"run_async's callback is a {type(callback).__name__}, which cannot be called.",
            fix="Pass a function of (results, user_data, error).",
        )
    output_names = name_list(output_names)
    check_run_options(run_options, UsageError)
    options = overlay_of(run_options)
    call = partial(_run_and_call_back, run, output_names, feed, options, callback, user_data)
    queue.submit(Job(partial(contextvars.copy_context().run, call), partial(setattr, options, "terminate", True)))


def _run_and_call_back(
    run: Callable[..., list[Any]],
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    options: RunOptions,
    callback: Callback,
    user_data: Any,
) -> None:
    results: list[Any] = []
    message = ""
    try:
        results = run(output_names, feed, options)
    except Exception as error:  # no caller could catch it, so it is passed to the callback
        message = str(error) or type(error).__name__
    try:
        callback(results, user_data, message)
    except Exception:  # the caller's code, on a thread that must go on
        _logger.exception("the callback given to run_async raised; the run itself %s", "failed" if message else "ended")


async def run_asyncio(
    run: Callable[..., list[Any]],
    queue: RunQueue,
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    run_options: RunOptions | None,
    timeout: float | None,
) -> list[Any]:
    """See `InferenceSession.run_asyncio`."""
    check_run_options(run_options)
    options = overlay_of(run_options)
    call = partial(contextvars.copy_context().run, run, output_names, dict(feed), options)
    job = Job(call, partial(setattr, options, "terminate", True))
    queue.submit(job)
    waiting = asyncio.wrap_future(job.future)
    try:
        done, _ = await asyncio.wait((waiting,), timeout=timeout)
    except asyncio.CancelledError:
        await _stop(job, waiting)
        raise
    if done:
        results: list[Any] = waiting.result()
        return results
    await _stop(job, waiting)
    raise RunTimeoutError(
        f"The run took longer than {timeout} s.",
        why="the timeout given to run_asyncio; the time until a thread was free counts",
        fix="Allow more time, or await fewer runs of this session at once.",
    )


async def _stop(job: Job, waiting: asyncio.Future[Any]) -> None:
    """Make a run end and wait a little for it, so that it has usually ended when the await returns."""
    job.stop()
    waiting.add_done_callback(_forget)
    try:
        if not job.future.cancel():  # under way
            await asyncio.wait((waiting,), timeout=GRACE_SECONDS)
    finally:
        # Does nothing if it has ended; otherwise its loop may already be closed and must not be called.
        waiting.cancel()


def _forget(waiting: asyncio.Future[Any]) -> None:
    """Retrieve the outcome of a stopped run, so that asyncio does not report it as never retrieved."""
    if not waiting.cancelled():
        waiting.exception()
