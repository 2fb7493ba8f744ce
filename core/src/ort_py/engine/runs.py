"""Runs of an engine: plain ones, those of a binding, and observed ones where limits, profiles or plug-ins watch a run.

A plain run is a call of the runner. A binding's run also offers memory for the outputs. An observed run adds limits,
cancellation, providers' callbacks, the profile and hooks. `recovery` handles the failures of all three.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from ort_py.engine.engine import Engine
from ort_py.engine.recovery.answers import before_run, recover, succeeded
from ort_py.engine.recovery.split_runs import in_fitting_parts
from ort_py.engine.run_arguments import check_run_options
from ort_py.engine.run_callbacks import begin_run
from ort_py.engine.runner import BoundMemory, Runner
from ort_py.execution.frame import session_closed
from ort_py.execution.watch import RunWatch
from ort_py.hooks import RunEvent
from ort_py.limits import checking_time
from ort_py.options import RunOptions, shrinks_memory, with_adapters


def run(
    engine: Engine,
    output_names: Sequence[str] | None,
    input_feed: Mapping[str, Any],
    run_options: RunOptions | None = None,
) -> list[Any]:
    """Run an engine once; see `InferenceSession.run`.

    Args:
        output_names: Names of the outputs wanted, in order; None or empty for all.

    Raises:
        OrtPyError: The arguments are wrong, or a node failed and nothing helped.
    """
    runner = engine.runner
    if runner is None:
        if engine.successor is None:
            raise session_closed()
        return run(engine.successor, output_names, input_feed, run_options)
    try:
        if engine.observed or run_options is not None:
            return run_observed(engine, runner, output_names, input_feed, run_options)
        return runner.run(output_names, input_feed)
    except Exception as error:  # `answer` handles some failures, and raises all others again
        return answer(engine, runner, error, output_names, input_feed, run_options)


def answer(
    engine: Engine,
    runner: Runner,
    error: Exception,
    output_names: Sequence[str] | None,
    input_feed: Mapping[str, Any],
    run_options: RunOptions | None,
) -> list[Any]:
    """Answer a failed run of a runner, where that is possible; else raise its error again."""
    again = partial(execute, output_names=output_names, run_options=run_options)
    try:
        return recover(engine, runner, error, output_names, input_feed, run_options, again)
    finally:
        del error  # a traceback that refers to this frame would keep the arrays alive


def run_bound(
    engine: Engine, output_names: Sequence[str], input_feed: Mapping[str, Any], memory: BoundMemory
) -> list[Any]:
    """Run once, and let steps write outputs to bound memory where they can. Observed runs do not use that memory.

    An output that no step could write there is returned as another array, which the binding copies.

    Args:
        output_names: Outputs wanted, empty for all.
    """
    runner = engine.runner
    if runner is None or engine.observed:
        return run(engine, output_names, input_feed)
    writing = memory.writing(runner)
    try:
        return runner.run(output_names, input_feed, writing)
    except Exception as error:  # as in `run`
        if writing is not None and writing.over_inputs:
            error.add_note("The run is not repeated: it may have written to memory bound to an input and an output.")
            raise
        return answer(engine, runner, error, output_names, input_feed, None)


def execute(
    engine: Engine,
    runner: Runner,
    input_feed: Mapping[str, Any],
    output_names: Sequence[str] | None,
    run_options: RunOptions | None,
) -> list[Any]:
    """Run a runner once, observed if anything watches it, and raise its failures."""
    if engine.observed or run_options is not None:
        return run_observed(engine, runner, output_names, input_feed, run_options)
    return runner.run(output_names, input_feed)


def run_observed(
    engine: Engine,
    runner: Runner,
    output_names: Sequence[str] | None,
    input_feed: Mapping[str, Any],
    run_options: RunOptions | None,
) -> list[Any]:
    """Run a runner once with limits, cancellation, providers' callbacks, the profile and hooks.

    Raises:
        ArgumentTypeError: The options are of another type.
        OrtPyError: As for `run`; nothing is answered here.
    """
    check_run_options(run_options)
    watched = engine.recovery.watching
    if watched:
        runner = before_run(engine, runner)
    if run_options is not None and engine.recovery.fitting:
        part = partial(run_observed, engine, runner, output_names, run_options=run_options)
        parts = in_fitting_parts(engine, runner, output_names, input_feed, run_options.batch_axis, part)
        if parts is not None:
            return parts
    shrinks = run_options is not None and shrinks_memory(run_options)
    watch = RunWatch(
        terminate=None if run_options is None else lambda: bool(run_options.terminate),
        seconds=engine.options.limits.run_seconds,
        memory_bytes=engine.options.limits.total_memory_bytes,
        held_bytes=engine.packed_bytes,
        recorder=engine.recorder,
        threads=engine.threads.count,
    )
    start, started_ns = time.perf_counter(), time.perf_counter_ns()
    failure: BaseException | None = None
    try:
        begin_run(engine.providers.in_use)
        if run_options is not None:
            input_feed = with_adapters(run_options, input_feed)
        with checking_time(watch.check_kernel) if watch.checks else nullcontext():  # feeds may take long, and outputs
            results = runner.run(output_names, input_feed, None if watch.idle else lambda frame: frame.begin(watch))
        if shrinks:
            runner.pool.trim()
        if watched:
            succeeded(engine, runner)
        return results
    except BaseException as error:
        failure = error
        raise
    finally:
        engine.end_run(started_ns)
        if engine.run_hooked:
            engine.hooks.observe("ort_py_run_finished", RunEvent(engine.id, time.perf_counter() - start, failure))
        failure = None  # it refers to this call, and would keep the run's arrays until cycles are collected
