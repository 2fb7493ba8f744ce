"""Runs of a session in parts along the axis that the caller names: after memory was short, and for a while from then.

The splitting itself is `ort_py.fallback.batches`, which knows no session. When a failed run is split is decided by
`recovery`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_py.contracts import FailureKind
from ort_py.fallback.batches import Batch, CannotSplit, Declared, batch_of, run_in_parts
from ort_py.fallback.failure import failure_of, forget_arrays

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession
    from ort_py.engine.metadata import NodeArg
    from ort_py.engine.runner import Runner
    from ort_py.options import RunOptions

__all__ = ["in_fitting_parts", "in_parts"]

FITTING_SECONDS = 60.0
"""How long runs are split at once into parts that fitted: afterwards there may be more memory."""


def in_parts(
    session: InferenceSession,
    runner: Runner,
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    axis: int,
    run: Callable[[Mapping[str, Any]], list[Any]],
) -> tuple[list[Any], int]:
    """Results of a run that found memory short, and the size of the parts that fitted.

    Args:
        session: The session.
        runner: What runs.
        output_names, feed: As given to `run`.
        axis: The axis.
        run: Runs a feed.

    Raises:
        CannotSplit: Nothing can be split along this axis.
        Exception: What a part raised.
    """
    names = _wanted(session, output_names)
    batch = _batch(session, runner, axis, names, feed)
    results, size = run_in_parts(batch, names, run, partial(_may_shrink, session))
    state = session._built.recovery
    state.fitting[axis] = (size, state.circuits.clock() + FITTING_SECONDS)
    return results, size


def in_fitting_parts(
    session: InferenceSession,
    runner: Runner,
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    options: RunOptions,
) -> list[Any] | None:
    """Results of a run whose caller allows it to be split, where a short time ago only parts of it fitted into memory;
    None where it is to be run whole.

    Args:
        session: The session.
        runner: What runs.
        output_names, feed, options: As given to `run`.

    Raises:
        Exception: What a part raised.
    """
    state = session._built.recovery
    axis = options.batch_axis
    size, until = state.fitting.get(axis, (0, 0.0))
    if not size:
        return None
    if state.circuits.clock() >= until:
        state.fitting.pop(axis, None)
        return None
    names = _wanted(session, output_names)
    try:
        batch = _batch(session, runner, axis, names, feed)
        if batch.size <= size:
            return None
        run = partial(_run_part, session, runner, output_names, options)
        results, size = run_in_parts(batch, names, run, partial(_may_shrink, session), size)
    except CannotSplit:  # whatever it was before: its shapes are others
        return None
    state.fitting[axis] = (size, until)
    return results


def _run_part(
    session: InferenceSession,
    runner: Runner,
    names: Sequence[str] | None,
    options: RunOptions,
    feed: Mapping[str, Any],
) -> list[Any]:
    return session._run_observed(runner, names, feed, options)


def _wanted(session: InferenceSession, names: Sequence[str] | None) -> list[str]:
    return list(names or (one.name for one in session._built.outputs))


def _batch(
    session: InferenceSession, runner: Runner, axis: int, names: Sequence[str], feed: Mapping[str, Any]
) -> Batch:
    """What is split.

    Raises:
        CannotSplit: Nothing can be, along this axis.
    """
    inputs, outputs = session._built.inputs, {one.name: one for one in session._built.outputs}
    wanted = [_declared(outputs[name]) for name in names if name in outputs]
    return batch_of(axis, [_declared(one) for one in inputs], wanted, runner.prepare(feed))


def _may_shrink(session: InferenceSession, error: Exception) -> bool:
    if failure_of(error, session._built.providers).kind is not FailureKind.OUT_OF_MEMORY:
        return False
    forget_arrays(error)
    session.trim()
    return True


def _declared(argument: NodeArg) -> Declared:
    tensor = argument.type.startswith("tensor(")
    return Declared(argument.name, argument.shape if argument.rank_known else None, tensor)
