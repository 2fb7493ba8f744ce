"""Runs in parts along the axis that the caller names: after memory was short, and for a while from then on.

`ort_py.fallback.batches` does the splitting, and `answers` decides when a failed run is split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ort_py.contracts import FailureKind
from ort_py.engine.engine import Engine
from ort_py.engine.metadata import NodeArg
from ort_py.engine.runner import Runner
from ort_py.fallback.batches import Batch, CannotSplit, Declared, batch_of, run_in_parts
from ort_py.fallback.failure import failure_of, forget_arrays

FITTING_SECONDS = 60.0
"""Seconds for which runs are split at once into parts that fitted: afterwards there may be more memory."""


def in_parts(
    engine: Engine,
    runner: Runner,
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    axis: int,
    run: Callable[[Mapping[str, Any]], list[Any]],
) -> tuple[list[Any], int]:
    """Run in parts after memory was short; returns the results and the size of the parts that fitted.

    Raises:
        CannotSplit: Nothing can be split along this axis.
        Exception: The error that a part raised.
    """
    names = _wanted(engine, output_names)
    batch = _batch(engine, runner, axis, names, feed)
    results, size = run_in_parts(batch, names, run, partial(_may_shrink, engine))
    state = engine.recovery
    state.fitting[axis] = (size, state.circuits.clock() + FITTING_SECONDS)
    return results, size


def in_fitting_parts(
    engine: Engine,
    runner: Runner,
    output_names: Sequence[str] | None,
    feed: Mapping[str, Any],
    axis: int | None,
    run: Callable[[Mapping[str, Any]], list[Any]],
) -> list[Any] | None:
    """Run in parts at once, where a short time ago only parts fitted into memory; returns None to run it whole.

    Args:
        axis: The axis along which the caller allows it, None for none.

    Raises:
        Exception: The error that a part raised.
    """
    state = engine.recovery
    size, until = (0, 0.0) if axis is None else state.fitting.get(axis, (0, 0.0))
    if axis is None or not size:
        return None
    if state.circuits.clock() >= until:
        state.fitting.pop(axis, None)
        return None
    names = _wanted(engine, output_names)
    try:
        batch = _batch(engine, runner, axis, names, feed)
        if batch.size <= size:
            return None
        results, size = run_in_parts(batch, names, run, partial(_may_shrink, engine), size)
    except CannotSplit:  # always, because its shapes have changed
        return None
    state.fitting[axis] = (size, until)
    return results


def _wanted(engine: Engine, names: Sequence[str] | None) -> list[str]:
    return list(names or (one.name for one in engine.description.outputs))


def _batch(engine: Engine, runner: Runner, axis: int, names: Sequence[str], feed: Mapping[str, Any]) -> Batch:
    """The batch that is split.

    Raises:
        CannotSplit: Nothing can be, along this axis.
    """
    inputs, outputs = engine.description.inputs, {one.name: one for one in engine.description.outputs}
    wanted = [_declared(outputs[name]) for name in names if name in outputs]
    return batch_of(axis, [_declared(one) for one in inputs], wanted, runner.prepare(feed))


def _may_shrink(engine: Engine, error: Exception) -> bool:
    if failure_of(error, engine.providers.in_use).kind is not FailureKind.OUT_OF_MEMORY:
        return False
    forget_arrays(error)
    engine.trim()
    return True


def _declared(argument: NodeArg) -> Declared:
    tensor = argument.type.startswith("tensor(")
    return Declared(argument.name, argument.shape if argument.rank_known else None, tensor)
