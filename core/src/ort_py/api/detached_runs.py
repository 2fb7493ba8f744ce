"""Runs that are not waited for in place, and runs with PyTorch's tensors: a base of `InferenceSession`.

Signatures and documentation only. What they do is in `asynchronous` and `torch_tensors`, which are imported when they
are first used: asyncio and PyTorch cost more than all of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ort_py.execution.frame import session_closed
from ort_py.options import RunOptions

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession

__all__ = ["DetachedRuns"]


class DetachedRuns:
    """`InferenceSession.run` on another thread, awaited, and with tensors."""

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run on a thread of the session and tell `callback`; returns at once.

        Args:
            output_names: Names of the outputs wanted, in order; None or empty for all.
            input_feed: A value for each input, as in `run`. Arrays must not be written to before the run has ended.
            callback: Called on that thread with (results, user_data, error): the error is ``""``, or the message of
                the exception, and then there are no results. What it raises is logged.
            user_data: Handed to `callback`.
            run_options: Options of this run.

        Raises:
            MissingInputError: A required input was not fed.
            InvalidArgument: A feed that is no array cannot be made one. All later failures are told to `callback`.
        """
        from ort_py.api.asynchronous import submit

        session = _session(self)
        runner = session._runner
        if runner is None:
            raise session_closed()
        submit(session, session._queue, output_names, runner.prepare(input_feed), callback, user_data, run_options)

    async def run_asyncio(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
        timeout: float | None = None,
    ) -> list[Any]:
        """Run on a thread of the session, awaited. Cancelling the task stops the run before its next step.

        Args:
            output_names: Names of the outputs wanted, in order; None or empty for all.
            input_feed: A value for each input, as in `run`. Arrays must not be written to before the run has ended.
            run_options: Options of this run.
            timeout: Seconds, None for no limit. Waiting for a free thread counts.

        Returns:
            As `run`.

        Raises:
            RunTimeoutError: It took longer than `timeout`; a TimeoutError too.
            OrtPyError: As `run`.
        """
        from ort_py.api.asynchronous import run_asyncio

        session = _session(self)
        return await run_asyncio(session, session._queue, output_names, input_feed, run_options, timeout)

    def run_torch(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """`run` with tensors of PyTorch in and out: they share memory with the arrays where they are on the host.

        Args:
            output_names: Names of the outputs wanted, in order; None or empty for all.
            input_feed: A tensor for each input, or anything `run` takes.
            run_options: Options of this run.

        Returns:
            As `run`, with tensors for arrays; what PyTorch has no element type for stays an array.

        Raises:
            NotFound: PyTorch is not installed.
            OrtPyError: As `run`.
        """
        from ort_py.api.torch_tensors import from_torch, to_torch

        tensors: list[Any] = to_torch(_session(self).run(output_names, from_torch(input_feed), run_options))
        return tensors


def _session(runs: DetachedRuns) -> InferenceSession:
    return cast("InferenceSession", runs)  # the only class that has this base
