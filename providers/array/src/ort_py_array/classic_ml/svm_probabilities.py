"""Class probabilities from pairwise decisions: Platt's sigmoid, and the coupling that libsvm uses.

The method is the second of Wu, Lin and Weng, "Probability Estimates for Multi-class Classification by Pairwise
Coupling": one coordinate after the other is set to its best value until nothing changes. All rows are done at once;
those that have come to rest are left out of further rounds. It does not depend on operators.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py_array.classic_ml.post_transforms import logistic

__all__ = ["coupled", "pairwise_probabilities"]

_ROUNDS = 100
_CLEARANCE = 1e-7  # pairwise probabilities are kept this far from 0 and 1


def pairwise_probabilities(xp: Any, scores: Array, a: Array, b: Array) -> Array:
    """Probability of the first class of each pair, ``(rows, pairs)``, by the sigmoids 1 / (1 + exp(a·score + b))."""
    return xp.clip(logistic(xp, -(scores * a + b)), _CLEARANCE, 1 - _CLEARANCE)


def coupled(xp: Any, pairwise: Array, first: Array, second: Array, classes: int) -> Array:
    """Probabilities of the classes ``(rows, classes)`` that agree best with those of the pairs.

    Args:
        xp: Array module.
        pairwise: ``(rows, pairs)``, strictly between 0 and 1.
        first, second: The classes of each pair.
        classes: How many classes there are.
    """
    rows = pairwise.shape[0]
    r = xp.zeros((rows, classes, classes), pairwise.dtype)  # r[:, i, j]: i rather than j
    r[:, first, second] = pairwise
    r[:, second, first] = 1 - pairwise
    other = xp.swapaxes(r, 1, 2)
    q = -other * r
    diagonal = xp.arange(classes)
    q[:, diagonal, diagonal] = xp.sum(other * other, axis=2)
    p = xp.full((rows, classes), 1 / classes, pairwise.dtype)
    active = xp.arange(rows)
    for _ in range(_ROUNDS):
        p_now, q_now = p[active], q[active]
        qp = xp.matmul(q_now, xp.expand_dims(p_now, 2))[:, :, 0]
        pqp = xp.sum(p_now * qp, axis=1)
        restless = xp.flatnonzero(xp.max(xp.abs(qp - xp.expand_dims(pqp, 1)), axis=1) >= 0.005 / classes)
        if restless.size == 0:
            break
        active, p_now, q_now = active[restless], p_now[restless], q_now[restless]
        qp, pqp = qp[restless], pqp[restless]
        for i in range(classes):  # each step uses the one before: the method's own recurrence
            own = q_now[:, i, i]
            change = (pqp - qp[:, i]) / own
            p_now[:, i] += change
            shrink = 1 + change
            pqp = (pqp + change * (change * own + 2 * qp[:, i])) / (shrink * shrink)
            shrink = xp.expand_dims(shrink, 1)
            qp = (qp + xp.expand_dims(change, 1) * q_now[:, i]) / shrink
            p_now /= shrink
        p[active] = p_now
    return p
