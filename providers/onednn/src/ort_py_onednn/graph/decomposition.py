"""Operators that oneDNN has no primitive for, as those it has.

Only what is exact, and in several primitives as fast as elsewhere in one. It is independent of how these are run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ort_py.contracts import ValueSpec
from ort_py.contracts.steps import Steps

__all__ = ["DECOMPOSED", "FIRST"]

FIRST = "@first"
"""Attribute of a RotaryEmbedding whose fourth input is the position of the first row."""


def _softsign(steps: Steps) -> bool:
    value = steps.input(0)
    magnitude = steps.add("Abs", (value,), None)
    steps.add("Div", (value, steps.add("@Linear", (magnitude,), None, {"beta": 1.0})), steps.output(0))
    return True


def _mean(steps: Steps) -> bool:
    count = len(steps.node.inputs)
    total = steps.add("Sum", steps.node.inputs, steps.between(steps.output(0)) if count > 1 else steps.output(0))
    if count > 1:
        steps.add("@Linear", (total,), steps.output(0), {"alpha": 1 / count})
    return True


def _reduction(before: str, after: str) -> Callable[[Steps], bool]:
    """A sum of what a function makes of each element, and what another makes of the sum."""

    def rule(steps: Steps) -> bool:
        value = steps.input(0)
        made = steps.add(before, (value, value) if before == "Mul" else (value,), None)
        others = [place for place in steps.node.inputs[1:] if place is not None]
        result = steps.output(0)
        total = steps.add(
            "ReduceSum",
            (made, *others),
            steps.between(result) if after else result,
            steps.node.attributes,
            steps.node.since_version,
        )
        if after:
            steps.add(after, (total,), result)
        return True

    return rule


def _standardised(steps: Steps) -> bool:
    """MeanVarianceNormalization: (x - mean) / (√(mean of squares of that) + 1e-9)."""
    value = steps.input(0)
    if value is None or value.shape is None:
        return False
    axes = steps.node.attributes.get("axes", (0, 2, 3))
    if any(not -len(value.shape) <= axis < len(value.shape) for axis in axes):
        return False
    centred = steps.add("Sub", (value, steps.reduced("ReduceMean", value, axes)), steps.between(value))
    variance = steps.reduced("ReduceMean", steps.add("Mul", (centred, centred), None), axes)
    deviation = steps.add("@Linear", (steps.add("Sqrt", (variance,), None),), None, {"beta": 1e-9})
    steps.add("Div", (centred, deviation), steps.output(0))
    return True


def _batch_normalization(steps: Steps) -> bool:
    """One whose numbers are computed: a product and a sum of channels, made of them at each run."""
    scale, bias, mean, variance = (steps.input(place) for place in range(1, 5))
    if all(value is not None and value.constant for value in (scale, bias, mean, variance)):
        steps.made.append(steps.node)
        return True
    attributes = steps.node.attributes
    source = steps.input(0)
    if attributes.get("training_mode", 0) or len(steps.node.outputs) > 1 or source is None or source.shape is None:
        return False
    shifted = steps.add("@Linear", (variance,), None, {"beta": attributes.get("epsilon", 1e-5)})
    factor = steps.add("Div", (scale, steps.add("Sqrt", (shifted,), None)), None)
    offset = steps.add("Sub", (bias, steps.add("Mul", (mean, factor), None)), None)
    rank = len(source.shape)
    scaled = steps.add("Mul", (source, _of_channels(steps, factor, rank)), steps.between(source))
    steps.add("Add", (scaled, _of_channels(steps, offset, rank)), steps.output(0))
    return True


def _of_channels(steps: Steps, value: ValueSpec, rank: int) -> ValueSpec:
    """A vector that broadcasts along dimension 1."""
    if rank < 3 or value.shape is None:
        return value
    shape = (*value.shape, *(1,) * (rank - 2))
    return steps.add("Unsqueeze", (value,), steps.between(value, shape), {"axes": tuple(range(1, rank - 1))}, 11)


def _clip(steps: Steps) -> bool:
    """One whose bounds are computed: the larger of two, then the smaller."""
    bounds = steps.input(1), steps.input(2)
    if steps.node.since_version < 11 or all(bound is None or bound.constant for bound in bounds):
        steps.made.append(steps.node)
        return True
    value = steps.input(0)
    for op_type, bound, last in (("Max", bounds[0], bounds[1] is None), ("Min", bounds[1], True)):
        if bound is not None:
            value = steps.add(op_type, (value, bound), steps.output(0) if last else steps.between(steps.output(0)))
    return True


def _dropout(steps: Steps) -> bool:
    """Rewrite the node as its behaviour outside of training."""
    mode = steps.input(2)
    if steps.output(1) is not None or mode is not None:
        return False
    steps.add("Identity", (steps.input(0),), steps.output(0))
    return True


def _contributed_rotary(steps: Steps) -> bool:
    """The one of com.microsoft: a table of cosines and the position of the first row, where it is one number."""
    attributes = {**steps.node.attributes, FIRST: 1}
    if attributes.get("is_packed_batching", 0):
        return False
    positions = steps.input(1)
    if positions is None or positions.shape not in {(), (1,)}:
        return False
    inputs = steps.input(0), steps.input(2), steps.input(3), positions
    steps.add("RotaryEmbedding", inputs, steps.output(0), attributes, 23)
    return True


DECOMPOSED: Mapping[tuple[str, str], Callable[[Steps], bool]] = {
    ("", "BatchNormalization"): _batch_normalization,
    ("", "Clip"): _clip,
    ("", "Dropout"): _dropout,
    ("", "Mean"): _mean,
    ("", "MeanVarianceNormalization"): _standardised,
    ("", "ReduceL1"): _reduction("Abs", ""),
    ("", "ReduceL2"): _reduction("Mul", "Sqrt"),
    ("", "ReduceSumSquare"): _reduction("Mul", ""),
    ("", "Softsign"): _softsign,
    ("com.microsoft", "RotaryEmbedding"): _contributed_rotary,
}
"""By domain and operator: writes the simpler nodes, or returns False where it cannot."""
