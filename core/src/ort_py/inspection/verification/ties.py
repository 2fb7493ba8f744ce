"""Ties: differences that nodes which decide make of values that agree within the table of tolerances.

ArgMax, TopK, rounding, comparisons, quantisation: where the numbers in front of such a node are about as near to its
border as rounding errors are large, both results are right. Whether that is so is found by trying: the NumPy provider
computes the value again, with the numbers on the way to it moved at random by no more than the table allows. A
difference is excused where each element that differs also changes in one of these trials, and by about as much. The
same trials tell errors that add up among the nodes of a region, where no value in between can be compared.

It uses only the reference, never the session that is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.dtypes import DataType, TensorType, data_type_of
from ort_py.engine.engine import Engine
from ort_py.errors import OrtPyError
from ort_py.graph.ir import Node, Value
from ort_py.inspection.comparison.measuring import Tolerances
from ort_py.inspection.comparison.report import Difference
from ort_py.inspection.comparison.stepping import SteppedRun
from ort_py.inspection.verification.outcome import Outcome
from ort_py.tolerances import TOLERANCES

TRIALS = 16
"""A tie of two is missed by one in 2^16: each trial decides it either way."""

_SPREAD = 4.0
"""Times as large as in the trials that a difference may be: they do not find the largest one."""

_JUMPS = frozenset(
    {
        "Ceil", "DequantizeLinear", "Floor", "GridSample", "Hardmax", "If", "Loop", "Mod", "Round", "Scan", "Shrink",
        "Sign", "ThresholdedRelu", "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
    }
)  # fmt: skip
"""Operators from floating numbers to floating numbers that are not continuous, or may hold one that is not."""

_ROUNDS_TO_STEPS = ("Quantize", "QLinear")
"""In names of operators whose results are whole numbers of steps, where one step more or less is rounding."""


def excuse(
    reference: Engine,
    feed: Mapping[str, Any],
    difference: Difference,
    tolerances: Tolerances,
    check: Callable[..., None],
) -> Outcome | None:
    """The excuse for a difference: TIE for decisions about values that agree, DRIFT for errors that add up in a region.

    Args:
        difference: A value, and the nodes that compute it from values that were the same on both sides.
        tolerances: (relative, absolute) by element type.
        check: Called between steps; an error that it raises ends the search.

    Returns:
        None where a result is wrong.
    """
    nodes = _nodes(reference, difference)
    if not nodes or difference.deviation.reason in ("type", "kind"):
        return None
    deciding = any(_decides(node) for node in nodes)
    if deciding and _is_one_step(nodes[-1], difference):
        return Outcome.TIE
    made = {value for node in nodes for value in node.outputs if value is not None}
    moved = {value.name for node in nodes for value in _floats_read(node) if value in made}
    if not moved:
        return None
    try:
        expected = _computed(reference, feed, difference.value, check)
        trials = [
            _computed(reference, feed, difference.value, check, moved, tolerances, np.random.default_rng(seed))
            for seed in range(TRIALS)
        ]
    except OrtPyError:  # a moved number may be one that a node refuses
        return None
    if not _explained(expected, trials, difference):
        return None
    return Outcome.TIE if deciding else Outcome.DRIFT


def decides(reference: Engine, outputs: Collection[str]) -> bool:
    """Return whether a node that decides is among those that outputs of the model depend on."""
    model = reference.model
    if model is None:
        return False
    pending = [value for value in model.graph.outputs if value.name in outputs]
    seen: set[Node] = set()
    while pending:
        node = pending.pop().producer
        if node is None or node in seen:
            continue
        if _decides(node):
            return True
        seen.add(node)
        pending += [value for value in node.inputs if value is not None]
    return False


def _nodes(reference: Engine, difference: Difference) -> list[Node]:
    model = reference.model
    names = {node.name for node in difference.reference_nodes}
    return [] if model is None else [node for node in model.graph.nodes if node.name in names]


def _decides(node: Node) -> bool:
    """Return whether a small change of what a node reads may change its result by much."""
    if node.op_type in _JUMPS or any(part in node.op_type for part in _ROUNDS_TO_STEPS):
        return True
    reads = any(True for _ in _floats_read(node))
    return reads and any(value is not None and not _is_float(value) for value in node.outputs)


def _is_one_step(node: Node, difference: Difference) -> bool:
    """Return whether whole numbers of steps are at most one step apart: the rounding of a quotient, or of a scale."""
    apart = difference.deviation
    rounds = any(part in node.op_type for part in _ROUNDS_TO_STEPS)
    return rounds and apart.reason == "values" and apart.ulp is None and apart.absolute <= 1


def _floats_read(node: Node) -> Sequence[Value]:
    return [value for value in node.inputs if value is not None and _is_float(value)]


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.data_type in TOLERANCES


def _computed(
    reference: Engine,
    feed: Mapping[str, Any],
    wanted: str,
    check: Callable[..., None],
    moved: Collection[str] = (),
    tolerances: Tolerances = TOLERANCES,
    rng: np.random.Generator | None = None,
) -> Any:
    """A value of the model, with others moved at random within the tolerance before they are read."""
    with SteppedRun(reference, feed) as run:
        found: Any = None
        while not run.done:
            executed = run.step()
            check()
            for slot, value in run.outputs(executed):
                if value.name == wanted:
                    found = run.read(slot, executed.step)
                if rng is not None and value.name in moved:
                    run.replace(slot, _moved(run.read(slot, executed.step), tolerances, rng), executed.step)
            if found is not None:
                return found
    return found


def _moved(array: Any, tolerances: Tolerances, rng: np.random.Generator) -> Any:
    if not isinstance(array, np.ndarray | np.generic):
        return array
    array = np.asarray(array)
    relative, absolute = tolerances.get(data_type_of(array.dtype), (0.0, 0.0))
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    finite = np.isfinite(wide)
    sizes = np.where(finite, np.abs(wide), 0.0)
    allowed = relative * sizes + absolute * max(float(sizes.max(initial=0.0)), absolute)
    return np.where(finite, wide + rng.uniform(-1.0, 1.0, wide.shape) * allowed, wide).astype(array.dtype)


def _explained(expected: Any, trials: Sequence[Any], difference: Difference) -> bool:
    """Return whether what was found lies among what the trials gave, element by element where shapes allow."""
    if not isinstance(expected, np.ndarray | np.generic):
        return any(str(trial) != str(expected) for trial in trials)
    expected = np.asarray(expected)
    arrays = [np.asarray(trial) for trial in trials]
    found = difference.deviation
    if any(array.shape != expected.shape for array in arrays):
        return True  # how much there is depends on it, as with NonMaxSuppression
    if found.other_shape != found.shape:
        return False
    if data_type_of(expected.dtype) is DataType.STRING:
        return found.beyond <= sum(len({str(array.flat[at]) for array in arrays}) > 1 for at in range(expected.size))
    wide = expected.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.max([np.abs(array.astype(np.float64) - wide) for array in arrays], axis=0)
    # The worst element is one that changes, and no more differ than change: who compares keeps no others.
    here = float(apart[found.index]) if apart.ndim == len(found.index) else 0.0
    unstable = int((apart > 0).sum())
    return here > 0 and found.beyond <= unstable and found.absolute <= _SPREAD * float(apart.max(initial=0.0))
