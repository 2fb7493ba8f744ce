"""Beams of a search: which continuations stay, which are finished, and which are best in the end.

All batch entries and beams are handled at once, as arrays ``(batch, beams, …)`` on the host. Of equal scores the one
found first wins. It does not depend on graphs or rules about scores: it gets scores and says what to do next.
"""

from __future__ import annotations

from typing import Any

import numpy as np  # of scores and tokens on the host

from ort_py.lazy_dataclass import dataclass

__all__ = ["BeamRules", "Beams", "best"]

_UNLIKELY = np.float32(-1e9)
"""Score of all beams but the first at the start, so that they do not all take the same tokens."""

_MANY = 256
"""From this many scores on, the best are found without sorting the others."""

_PASSES = 16
"""Up to this many are found one by one: passes over the scores that cost less than partitioning them."""


@dataclass(frozen=True, slots=True)
class BeamRules:
    """The rules by which beams are kept.

    Attributes:
        beams: Beams of a batch entry.
        returned: Sequences returned for a batch entry.
        length_penalty: Scores of finished sequences are divided by their length to this power.
        early_stopping: A batch entry is done as soon as it has as many finished sequences as beams.
        end: Token that ends a sequence.
        pad: Token that fills what is left of it.
    """

    beams: int
    returned: int
    length_penalty: float
    early_stopping: bool
    end: int
    pad: int


def best(scores: Any, count: int) -> tuple[Any, Any]:
    """The `count` best of each row, best first, and their places; of equal ones the first."""
    size = scores.shape[1]
    if size >= _MANY and count <= _PASSES:
        work, rows = scores.copy(), np.arange(scores.shape[0])
        places = np.empty((scores.shape[0], count), np.intp)
        for rank in range(count):
            places[:, rank] = work.argmax(axis=1)
            work[rows, places[:, rank]] = -np.inf
        found = np.take_along_axis(scores, places, 1)
        if np.all(found > -np.inf):  # otherwise a place may have been found twice
            return found, places
    elif size >= _MANY and count <= size // 8:
        border = np.partition(scores, size - count, axis=1)[:, size - count, None]
        inside = scores >= border
        if np.all(np.count_nonzero(inside, axis=1) == count):  # otherwise there are ties, or NaN
            places = np.nonzero(inside)[1].reshape((-1, count))
            order = np.argsort(-np.take_along_axis(scores, places, 1), axis=1, kind="stable")
            places = np.take_along_axis(places, order, 1)
            return np.take_along_axis(scores, places, 1), places
    places = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(scores, places, 1), places


class Beams:
    """The beams of one call.

    Attributes:
        sequences: Tokens so far ``(batch × beams, length)``.
        scores: Sum of the log-probabilities of each beam ``(batch × beams,)``.
        tokens: The token that each beam got last ``(batch × beams,)``.
        parents: The row that each row continues ``(batch × beams,)``.
        done: Batch entries that nothing can improve ``(batch,)``.
    """

    def __init__(self, prompt: Any, most: int, rules: BeamRules) -> None:
        """Start from a prompt ``(batch, tokens)`` that becomes `most` tokens long at most."""
        batch, self.length = prompt.shape
        count = rules.beams
        self._rules = rules
        self._space = np.zeros((batch * count, most), np.int32)
        self._space[:, : self.length] = np.repeat(prompt, count, axis=0)
        scores = np.zeros((batch, count), np.float32)
        scores[:, 1:] = _UNLIKELY
        self.scores = scores.reshape(-1)
        self.tokens = self._space[:, self.length - 1]
        self.parents = np.arange(batch * count)
        self.done = np.zeros(batch, np.bool_)
        self._kept = np.full((batch, count), -np.inf, np.float32)
        self._full = np.zeros((batch, count), np.bool_)
        self._finished = np.full((batch, count, most), rules.pad, np.int32)

    @property
    def sequences(self) -> Any:
        return self._space[:, : self.length]

    def advance(self, scores: Any) -> None:
        """Continue every beam by one token.

        Args:
            scores: Of each token after each beam, those of the beams added: ``(batch × beams, vocabulary)``.
        """
        rules, count = self._rules, self._rules.beams
        batch, vocabulary = self.done.size, scores.shape[1]
        # Twice as many as there are beams: at most one of a beam's continuations ends it.
        found, places = best(scores.reshape(batch, count * vocabulary), 2 * count)
        origins = places // vocabulary + np.arange(batch)[:, None] * count
        tokens = (places % vocabulary).astype(np.int32)
        ends = tokens == rules.end
        finished = ends[:, :count] & ~self.done[:, None]
        if finished.any():
            self._finish(found[:, :count], origins[:, :count], finished)
        going = np.argsort(ends, axis=1, kind="stable")[:, :count]
        over = self.done[:, None]
        self.scores = np.where(over, np.float32(0), np.take_along_axis(found, going, 1)).reshape(-1)
        self.tokens = np.where(over, np.int32(rules.pad), np.take_along_axis(tokens, going, 1)).reshape(-1)
        self.parents = np.where(over, 0, np.take_along_axis(origins, going, 1)).reshape(-1)
        self._decide(found[:, 0])
        self._space[:, : self.length] = self._space[self.parents, : self.length]
        self._space[:, self.length] = self.tokens
        self.length += 1

    def result(self) -> tuple[Any, Any]:
        """The best sequences ``(batch, returned, most)``, padded, and their scores ``(batch, returned)``."""
        count, returned = self._rules.beams, self._rules.returned
        rows = np.arange(self.done.size * count).reshape((-1, count))
        still = np.broadcast_to(~self.done[:, None], rows.shape)
        if still.any():
            self._finish(self.scores.reshape((-1, count)), rows, still)
        return self._finished[:, :returned].copy(), self._kept[:, :returned].copy()

    def _weight(self) -> Any:
        """The divisor for scores of sequences of the present length."""
        return np.power(np.float32(self.length), np.float32(self._rules.length_penalty))

    def _finish(self, scores: Any, rows: Any, which: Any) -> None:
        """Add sequences ``(batch, n)`` to those finished, where `which`, and keep the best."""
        count = self._rules.beams
        padded = np.full((*rows.shape, self._space.shape[1]), self._rules.pad, np.int32)
        padded[:, :, : self.length] = self._space[rows, : self.length]
        kept = np.concatenate((self._kept, scores / self._weight()), axis=1)
        there = np.concatenate((self._full, which), axis=1)
        order = np.lexsort((-kept, ~there), axis=1)[:, :count]  # those there first, then by score, then by age
        self._kept = np.take_along_axis(kept, order, 1)
        self._full = np.take_along_axis(there, order, 1)
        sequences = np.concatenate((self._finished, padded), axis=1)
        self._finished = np.take_along_axis(sequences, order[:, :, None], 1)

    def _decide(self, top: Any) -> None:
        """Find the batch entries that are done; `top` is the best score of a continuation of each."""
        full = self._full.all(axis=1)
        if not self._rules.early_stopping:
            full &= self._kept[:, -1] >= top / self._weight()
        self.done |= full
