"""Scan of opset 8 as an instruction: a batch of sequences, each up to its own length. Specification: ONNX Scan-8.

The body sees one element of one sequence, so it runs once for each. A backward scan begins at the sequence's own end.
What lies behind the end of a sequence in a scan output is undefined in the specification; here it is zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ort_py.errors import InvalidArgument
from ort_py.execution.bodies import enter, leave, run_slices, store
from ort_py.execution.stacking import check_stackable, padding, slice_form
from ort_py.planning.plan import NONE_SLOT, BatchedScanStep

if TYPE_CHECKING:
    from ort_py.execution.instructions import Instruction, Slots


def compile_batched_scan(step: BatchedScanStep) -> Instruction:
    """Run the body over the elements of each sequence of the batch."""

    def instruction(s: Slots) -> None:
        initial = [s[slot] for slot in step.states]
        scans = [s[slot] for slot in step.scans]
        batch, longest = _extent(step, initial, scans)
        lengths = _lengths(step, s, batch, longest)
        final: list[list[Any]] = [[] for _ in initial]
        collected: list[list[list[Any]]] = [[] for _ in step.scan_types]
        frame = enter(s, step.body)
        for entry, length in enumerate(lengths):
            states = [state[entry, ...] for state in initial]
            states, rows = run_slices(step, frame, states, [array[entry] for array in scans], length)
            if frame.watch is not None:
                frame.watch.hold(step, states)
            for states_of, state in zip(final, states, strict=True):
                states_of.append(state)
            for rows_of, row in zip(collected, rows, strict=True):
                rows_of.append(row)
        leave(frame, step.body)
        results = [
            _final(step, states, before, module)
            for states, before, module in zip(final, initial, step.state_modules, strict=True)
        ]
        results += [_joined(step, index, rows, longest) for index, rows in enumerate(collected)]
        store(s, step.outputs, results, step.release)

    return instruction


def _extent(step: BatchedScanStep, states: list[Any], scans: list[Any]) -> tuple[int, int]:
    """Sequences, and elements of the longest."""
    if any(array.ndim < 2 for array in scans) or any(array.ndim < 1 for array in states):
        raise InvalidArgument(
            "Scan of opset 8 needs a batch axis in every state and a batch and a time axis in every scan input.",
            where=step.location,
            why=f"the inputs have the shapes {[tuple(array.shape) for array in (*states, *scans)]}",
            fix="Add the axes, or convert the model to opset 9 or later, which has no batch axis.",
        )
    batches = [array.shape[0] for array in (*states, *scans)]
    times = [array.shape[1] for array in scans]
    if len(set(batches)) > 1 or len(set(times)) > 1:
        raise InvalidArgument(
            "The inputs of Scan do not agree.",
            where=step.location,
            why=f"batch sizes {batches}, lengths of the scan inputs {times}",
            fix="All of them must agree along axis 0, and the scan inputs also along axis 1.",
        )
    return batches[0], times[0]


def _lengths(step: BatchedScanStep, s: Slots, batch: int, longest: int) -> list[int]:
    given = None if step.lengths == NONE_SLOT else s[step.lengths]
    if given is None:
        return [longest] * batch
    lengths: list[int] = given.tolist() if tuple(given.shape) == (batch,) else []
    if len(lengths) != batch or not all(0 <= length <= longest for length in lengths):
        raise InvalidArgument(
            f"The sequence lengths do not fit a batch of {batch} sequences of at most {longest}.",
            where=step.location,
            why=f"shape {tuple(given.shape)}, values {given.reshape(-1)[:20].tolist()}",
            fix=f"Give {batch} lengths in [0, {longest}].",
        )
    return lengths


def _final(step: BatchedScanStep, states: list[Any], initial: Any, module: Any) -> Any:
    if not states:
        return initial  # an empty batch stays what it was
    step.check_allocation((len(states), *states[0].shape), states[0].dtype)
    return module.stack(states, axis=0)


def _joined(step: BatchedScanStep, index: int, rows: list[list[Any]], longest: int) -> Any:
    """The scan output: batch, time, then the axes of what the body left."""
    module, items = step.scan_modules[index], [item for row in rows for item in row]
    if items:
        check_stackable(items, f"Scan output {index}", step.location)
        shape, dtype = list(items[0].shape), items[0].dtype
    else:
        shape, dtype = slice_form(step.scan_types[index])
    whole = (len(rows), longest, *shape)
    step.check_allocation(whole, dtype)
    if not items:
        return padding(module, whole, dtype)
    if len(items) == len(rows) * longest:
        return module.stack(items, axis=0).reshape(whole)
    parts: list[Any] = []
    for row in rows:
        if row:
            parts.append(module.stack(row, axis=0))
        if len(row) < longest:
            parts.append(padding(module, (longest - len(row), *shape), dtype))
    return module.concatenate(parts, axis=0).reshape(whole)
