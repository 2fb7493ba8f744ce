"""Rows of losses and determinants: the formulas, sample by sample, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..test_losses import log_softmax, sample_by_sample
from .row import Draw, Given, Row, as_type, wide

__all__ = ["ROWS"]


def _loss(d: Draw) -> Given:
    """Weights, a label that does not count (in the range or outside), every reduction."""
    batch, classes, rest = d.integer(1, 3), d.integer(2, 4), d.shape(0, 2, least=1, most=3)
    x = d.array((batch, classes, *rest), special=False)
    target = d.array((batch, *rest), d.other("Tind"), low=0, high=classes - 1, special=False)
    target.reshape(-1)[0] = 0  # one that counts
    attributes: dict[str, Any] = {"reduction": d.pick(("mean", "sum", "none"))}
    ignored = None
    if d.flag():
        ignored = attributes["ignore_index"] = d.pick((1, -1, 9))
        if d.flag():
            target.reshape(-1)[1:] = ignored
    weight = d.array((classes,), low=0.5, high=2, special=False) if d.flag() else None
    inputs = [x, target] if weight is None else [x, target, weight]
    factors = None if weight is None else wide(weight)
    if d.op_type == "NegativeLogLikelihoodLoss":
        made = sample_by_sample(wide(x), target, factors, ignored, attributes["reduction"])
        return Given(inputs, attributes, [as_type(made, x.dtype)])
    logs = log_softmax(wide(x))
    made = sample_by_sample(logs, target, factors, ignored, attributes["reduction"])
    if d.flag():
        return Given(inputs, attributes, [as_type(made, x.dtype)])
    return Given(inputs, attributes, [as_type(made, x.dtype), as_type(logs, x.dtype)], outputs=2)


def _det(d: Draw) -> Given:
    size = d.integer(0, 4)
    x = np.asarray(np.rint(d.array((*d.shape(0, 2), size, size), special=False)))
    return Given([x], {}, [as_type(np.linalg.det(wide(x)), d.dtype)])


ROWS = [
    Row("NegativeLogLikelihoodLoss", _loss),
    Row("SoftmaxCrossEntropyLoss", _loss),
    Row("Det", _det),
]
