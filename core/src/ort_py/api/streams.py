"""Streams of runs: see `InferenceSession.run_stream`.

`ort_py.execution.pipelined` does the streaming and knows no session; each of its items is an ordinary run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ort_py.engine.engine import Engine
from ort_py.engine.run_arguments import check_run_options, name_list
from ort_py.errors import ArgumentTypeError, InvalidArgument
from ort_py.execution.frame import session_closed
from ort_py.execution.pipelined import Pipelined
from ort_py.options import RunOptions, overlay_of


def stream(
    run: Callable[..., list[Any]],
    engine: Engine,
    iterable: Iterable[Mapping[str, Any]],
    output_names: Sequence[str] | None,
    depth: int | None,
    run_options: RunOptions | None,
) -> Pipelined[list[Any]]:
    """Start a stream of runs.

    Args:
        run: Runs the session once.
        engine: Its engine, which says how many runs may be under way.
        iterable, output_names, depth, run_options: As for `InferenceSession.run_stream`.

    Raises:
        ArgumentTypeError: An argument has a wrong type; a builtin TypeError too.
        InvalidArgument: The session is closed, or `depth` is less than 1.
    """
    if isinstance(iterable, Mapping) or not isinstance(iterable, Iterable):
        raise ArgumentTypeError(
            f"run_stream takes an iterable of feeds, not {type(iterable).__name__}.",
            fix="Pass a list of feeds, or a generator: (feed_of(item) for item in items). For one feed use run().",
        )
    check_run_options(run_options)
    names = name_list(output_names)
    if depth is not None and (not isinstance(depth, int) or isinstance(depth, bool)):
        raise ArgumentTypeError(f"depth must be a number of inputs, not {depth!r}.", fix="Pass a whole number.")
    if depth is not None and depth < 1:
        raise InvalidArgument(
            f"depth is {depth}.", why="no input could be read ahead", fix="Pass at least 1, or leave it out."
        )
    if engine.runner is None:
        raise session_closed()
    options = overlay_of(run_options)
    threads = engine.threads.count
    return Pipelined(
        iter(iterable),
        partial(_run, run, names, options),
        partial(setattr, options, "terminate", True),
        threads=threads,
        depth=threads + 2 if depth is None else depth,
    )


def _run(
    run: Callable[..., list[Any]], names: Sequence[str], options: RunOptions, feed: Mapping[str, Any]
) -> list[Any]:
    return run(names, feed, options)
