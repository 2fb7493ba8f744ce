"""Changes to the scores of the next token: penalties, masks and rules, each a small function that works in place.

Scores are float32 ``(rows, vocabulary)`` on the host, a row for each sequence; sequences are ``(rows, tokens)``, what
has been said so far with the prompt. What is forbidden gets the lowest finite score. `Processors` chains them in the
order in which onnxruntime does. It is independent of loops, beams and graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np  # of scores on the host
from numpy.lib.stride_tricks import sliding_window_view

from ort_py.lazy_dataclass import dataclass

__all__ = [
    "LOWEST",
    "Processor",
    "Processors",
    "Timestamps",
    "divide",
    "forbid_early_end",
    "forbid_masked",
    "forbid_repeated_ngrams",
    "force_tokens",
    "penalise_presence",
    "penalise_repetition",
]

LOWEST = np.finfo(np.float32).min
"""The score of what is forbidden: finite, so that sums and softmax stay numbers."""

Processor = Callable[[Any, Any], None]
"""``f(scores, sequences)``, in place."""


class Processors:
    """The processors of one call, in the order in which they were added."""

    __slots__ = ("_chain",)

    def __init__(self) -> None:
        self._chain: list[tuple[Processor, int | None]] = []

    def add(self, processor: Processor, *, steps: int | None = None) -> None:
        """Append one; with `steps`, it runs in that many first steps only."""
        self._chain.append((processor, steps))

    def __call__(self, scores: Any, sequences: Any, step: int) -> None:
        """Change the scores of a step, counted from 0."""
        # Sums of forbidden scores pass the range of float32; minus infinity is what they should become.
        with np.errstate(over="ignore", invalid="ignore"):
            for processor, steps in self._chain:
                if steps is None or step < steps:
                    processor(scores, sequences)


def penalise_repetition(penalty: float) -> Processor:
    """Tokens that a sequence has: negative scores times the penalty, others divided by it."""
    factor = np.float32(penalty)

    def process(scores: Any, sequences: Any) -> None:
        rows, tokens = _said(sequences, scores.shape[1], np.ones(sequences.shape, np.bool_))
        found = scores[rows, tokens]
        scores[rows, tokens] = np.where(found < 0, found * factor, found / factor)

    return process


def forbid_repeated_ngrams(size: int) -> Processor:
    """Tokens that would complete a group of `size` tokens that the sequence already has."""

    def process(scores: Any, sequences: Any) -> None:
        length = sequences.shape[1]
        if length < size:
            return
        before = sequences[:, length - size + 1 :]
        if size == 1:
            repeated = np.ones(sequences.shape, np.bool_)
        else:
            windows = sliding_window_view(sequences[:, :-1], size - 1, axis=1)
            repeated = np.all(windows == before[:, None, :], axis=2)
        scores[_said(sequences[:, size - 1 :], scores.shape[1], repeated)] = LOWEST

    return process


def forbid_masked(forbidden: Any, repeats: int = 1) -> Processor:
    """Tokens where the mask is True.

    Args:
        forbidden: ``(vocabulary,)``, or ``(batch, vocabulary)``.
        repeats: How many rows of scores an entry of the batch has.
    """
    mask = np.repeat(forbidden, repeats, axis=0) if forbidden.ndim == 2 and repeats > 1 else forbidden

    def process(scores: Any, _: Any) -> None:
        np.copyto(scores, LOWEST, where=mask)

    return process


def forbid_early_end(least: int, end: int) -> Processor:
    """The token that ends a sequence, while it has less than `least` tokens."""

    def process(scores: Any, sequences: Any) -> None:
        if sequences.shape[1] < least:
            scores[:, end] = LOWEST

    return process


def divide(temperature: float) -> Processor:
    """All scores by the temperature."""
    divisor = np.float32(temperature)

    def process(scores: Any, _: Any) -> None:
        scores /= divisor

    return process


def penalise_presence(present: Any, penalty: float) -> Processor:
    """Subtract the penalty where the mask ``(rows, vocabulary)`` is 1 (and its multiple where it is more).

    The mask is read at every step: who draws tokens may mark them in it.
    """
    factor = np.float32(penalty)

    def process(scores: Any, _: Any) -> None:
        scores -= present * factor

    return process


def force_tokens(wanted: Any, prompt: int, repeats: int) -> Processor:
    """At step i, only the token ``wanted[:, i]`` of each batch entry, at no cost, up to its first negative one.

    Args:
        wanted: ``(batch, steps)``.
        prompt: Tokens of the sequences at step 0.
        repeats: How many rows of scores an entry of the batch has.
    """
    tokens = np.repeat(wanted, repeats, axis=0)
    wished = np.logical_and.accumulate(tokens >= 0, axis=1)

    def process(scores: Any, sequences: Any) -> None:
        step = sequences.shape[1] - prompt
        if step >= tokens.shape[1]:
            return
        rows = np.flatnonzero(wished[:, step] & (tokens[:, step] < scores.shape[1]))
        scores[rows] = LOWEST
        scores[rows, tokens[rows, step]] = 0

    return process


@dataclass(frozen=True, slots=True)
class Timestamps:
    """Whisper's rules for marks of time: they come in pairs, do not go back, and win where time is likelier than text.

    Attributes:
        end: Token that ends a sequence.
        start: Token that starts a transcript.
        translate: Token of the task "translate".
        transcribe: Token of the task "transcribe".
        language_model: Token that starts a prompt for the language model.
        none: Token that says that there are no marks.
        begin: First mark; all later tokens are marks too.
        latest: How many marks after the first one the first mark of a text may be.
    """

    end: int
    start: int
    translate: int
    transcribe: int
    language_model: int
    none: int
    begin: int
    latest: int = 50

    def __call__(self, scores: Any, sequences: Any) -> None:
        """Apply the rules to log-probabilities, in place."""
        rows, length = sequences.shape
        marks = sequences >= self.begin
        any_mark = marks.any(axis=1)
        sampled = np.where(any_mark, marks.argmax(axis=1) + 1, length)  # tokens up to the first mark
        begun = length > sampled
        forbidden = np.zeros(scores.shape, np.bool_)
        self._forbid(forbidden, (self.none, self.language_model), np.ones(rows, np.bool_))
        self._forbid(forbidden, (self.start, self.translate, self.transcribe), begun)
        last = marks[:, -1]
        paired = ~begun | (marks[:, -2] if length > 1 else False)
        forbidden[:, self.begin :] |= (last & paired)[:, None]
        forbidden[:, : self.end] |= (last & ~paired)[:, None]
        # Marks do not go back: after a pair the next is later, within one it may be the same.
        latest = np.where(marks, np.arange(length), -1).max(axis=1)
        mark = np.take_along_axis(sequences, np.maximum(latest, 0)[:, None], 1)[:, 0]
        border = np.where(any_mark, mark + ~(last & ~paired), self.begin)
        tokens = np.arange(scores.shape[1])
        forbidden |= (tokens >= self.begin) & (tokens < border[:, None])
        forbidden[:, self.begin + self.latest + 1 :] |= ~begun[:, None]
        np.copyto(scores, LOWEST, where=forbidden)
        self._prefer_time(scores)

    def _prefer_time(self, scores: Any) -> None:
        """Forbid text where all marks together are likelier than the likeliest text."""
        time = scores[:, self.begin :]
        top = time.max(axis=1, keepdims=True)
        total = np.sum(np.exp(time - top), axis=1, where=time > LOWEST)
        with np.errstate(divide="ignore"):
            together = np.where(total > 0, np.log(total) + top[:, 0], LOWEST)
        likelier = together > scores[:, : self.begin].max(axis=1)
        np.copyto(scores[:, : self.begin], LOWEST, where=likelier[:, None])

    @staticmethod
    def _forbid(forbidden: Any, tokens: tuple[int, ...], rows: Any) -> None:
        known = [token for token in tokens if 0 <= token < forbidden.shape[1]]
        forbidden[:, known] |= rows[:, None]


def _said(sequences: Any, vocabulary: int, where: Any) -> tuple[Any, Any]:
    """Rows and tokens of the places in `where`; tokens that have no score (beyond the vocabulary) are left out."""
    rows, columns = np.nonzero(where & (sequences >= 0) & (sequences < vocabulary))
    return rows, sequences[rows, columns]
