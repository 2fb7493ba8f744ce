"""Routing of tokens to the experts of a mixture, with weights: the router's few numbers, read on the host.

Selection has a size that only the data knows, so it is done where sizes are known, with NumPy. `experts` asks here and
then multiplies. It is independent of operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np  # of host inputs only

__all__ = ["assignments", "chosen_experts", "sparse_mixer"]

_JITTER = 0.01
"""How far below the greatest score, relatively, a score still takes part in a sparse mixer (half the distance)."""


def chosen_experts(scores: Any, k: int, weights: Any | None, *, normalized: bool) -> tuple[Any, Any]:
    """The `k` experts of each token and their weights, ``(tokens, k)`` each, best first.

    Args:
        scores: Router scores, ``(tokens, experts)``.
        k: How many experts a token has.
        weights: Weights of all experts, of the same shape; those from a softmax of the scores where None.
        normalized: Make the weights of a token's experts add up to 1.
    """
    probabilities = _softmax(scores.astype(np.float32))
    # Among equal elements, the last comes first, as in onnxruntime.
    order = np.argsort(probabilities, axis=1, kind="stable")[:, ::-1][:, :k]
    shares = np.take_along_axis(probabilities if weights is None else weights.astype(np.float32), order, 1)
    if normalized:
        total = shares.sum(axis=1, keepdims=True)
        shares = np.divide(shares, total, out=np.zeros_like(shares), where=total != 0)
    return order, shares


def sparse_mixer(scores: Any) -> tuple[Any, Any]:
    """The two experts of each token as SparseMixer-v2 (of Phi-3.5-MoE) chooses and weighs them at inference.

    An expert's weight is its share in a softmax over the scores that are not far below its own; the second expert is
    weighed as if the first were not there.
    """
    left = scores.astype(np.float32).copy()
    scale = np.absolute(left)
    experts, shares = [], []
    for _ in range(2):
        best = left.argmax(axis=1)[:, None]
        top = np.take_along_axis(left, best, 1)
        far = (top - left) / np.maximum(scale, top) > 2 * _JITTER
        experts.append(best)
        shares.append(np.take_along_axis(_softmax(np.where(far, -np.inf, left)), best, 1))
        np.put_along_axis(left, best, -np.inf, 1)
    return np.concatenate(experts, 1), np.concatenate(shares, 1)


def assignments(experts: Any, shares: Any, count: int) -> Iterator[tuple[int, Any, Any]]:
    """(expert, its tokens, their weights as a column) for each expert that has any.

    Args:
        experts: Experts of each token, ``(tokens, k)``.
        shares: Their weights.
        count: Number of experts.
    """
    order = np.argsort(experts.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(experts.reshape(-1), minlength=count))
    tokens, weights = order // experts.shape[1], shares.reshape(-1)[order].reshape(-1, 1)
    for expert in range(count):
        start = int(ends[expert - 1]) if expert else 0
        if start < ends[expert]:
            yield expert, tokens[start : ends[expert]], weights[start : ends[expert]]


def _softmax(scores: Any) -> Any:
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)
