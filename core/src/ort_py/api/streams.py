"""Runs over several threads: a stream of inputs, and what there is to run on. A base of `InferenceSession`.

The stream itself is `ort_py.execution.pipelined`, which knows no session; each of its items is an ordinary run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ort_py.api.stoppable_options import StoppableOptions
from ort_py.engine.run_arguments import check_run_options, name_list
from ort_py.errors import ArgumentTypeError, InvalidArgument
from ort_py.execution.frame import session_closed
from ort_py.execution.native_threads import active_runs
from ort_py.execution.pipelined import Pipelined
from ort_py.execution.thread_count import ThreadCount
from ort_py.options import RunOptions

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession

__all__ = ["ThreadedRuns"]


class ThreadedRuns:
    """What `InferenceSession` does with its threads beside `run`."""

    def run_stream(
        self,
        iterable: Iterable[Mapping[str, Any]],
        output_names: Sequence[str] | None = None,
        *,
        depth: int | None = None,
        run_options: RunOptions | None = None,
    ) -> Pipelined[list[Any]]:
        """Run a stream of inputs and give the results in their order, while others are loaded and run already.

        What overlaps: feeds are pulled from `iterable` on a thread of its own, so loading goes on while the model runs;
        as many inputs as the session has threads are converted and run at a time, each in a frame of its own, so what
        one has on a device overlaps with what another has on the host; and the caller works on a result while the next
        ones are made. Of k runs at a time each has a k-th of the threads.

        ``for outputs in session.run_stream(feeds): ...`` ends by itself, also when it is left early. The iterator is a
        context manager and has `close()`: nothing more is pulled then, and runs under way stop before their next step.

        Args:
            iterable: A feed for each run, as in `run`; pulled lazily, by one thread. Arrays must not be written to
                before their results are there.
            output_names: Names of the outputs wanted, in order; None or empty for all.
            depth: Inputs that are pulled and whose results are not taken yet, at most; by default two more than the
                session has threads. It bounds the memory: 1 overlaps nothing but loading with the caller's own work.
            run_options: Options of each run.

        Returns:
            An iterator over what `run` returns. What an input's run raises is raised where its result would have been,
            what `iterable` raises after the results of all that it gave before; either ends the stream.

        Raises:
            ArgumentTypeError: An argument has a wrong type; a builtin TypeError too.
            InvalidArgument: The session is closed, or `depth` is less than 1.
        """
        session = cast("InferenceSession", self)  # the only class that has this base
        if isinstance(iterable, Mapping) or not isinstance(iterable, Iterable):
            raise ArgumentTypeError(
                f"run_stream takes feeds one after another, not {type(iterable).__name__}.",
                fix="Pass a list of feeds, or a generator: (feed_of(item) for item in items). For one feed use run().",
            )
        check_run_options(run_options)
        names = name_list(output_names)
        if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool)):
            raise ArgumentTypeError(f"depth is a number of inputs, not {depth!r}.", fix="Pass a whole number.")
        if depth is not None and depth < 1:
            raise InvalidArgument(
                f"depth is {depth}.", why="nothing could be pulled", fix="Pass at least 1, or leave it out."
            )
        if session._runner is None:
            raise session_closed()
        options = StoppableOptions(run_options)
        threads = session._built.threads.count
        return Pipelined(
            iter(iterable),
            partial(_run, session, names, options),
            options.stop,
            threads=threads,
            depth=threads + 2 if depth is None else depth,
        )

    @property
    def threads(self) -> ThreadCount:
        """Threads one run may use, the reason for it, what native libraries are told, and how steps are executed."""
        session = cast("InferenceSession", self)
        executor = "" if session._runner is None else session._runner.executor()
        return replace(session._built.threads, native=active_runs.describe(), executor=executor)


def _run(session: InferenceSession, names: Sequence[str], options: RunOptions, feed: Mapping[str, Any]) -> list[Any]:
    return session.run(names, feed, options)
