"""Beams against a search that keeps lists of hypotheses, one entry at a time, and `best` against sorting."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py_array.contrib.generation.beams import BeamRules, Beams, best

END, PAD = 2, 1
_SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)


@_SETTINGS
@given(
    rows=st.integers(0, 3),
    size=st.sampled_from([30, 300, 1000]),
    count=st.sampled_from([1, 3, 16, 20]),
    most=st.sampled_from([5, 50, 10**6]),
    seed=st.integers(0, 99),
)
def test_the_best_in_order(rows: int, size: int, count: int, most: int, seed: int) -> None:
    """By score, and of equal scores the first, whether there are few or many, and however many are asked for."""
    scores = np.random.default_rng(seed).integers(0, most, (rows, size)).astype(np.float32)
    found, places = best(scores, count)
    for row in range(rows):
        wanted = sorted(range(size), key=lambda place: (-scores[row, place], place))[:count]
        assert places[row].tolist() == wanted
        assert found[row].tolist() == scores[row, wanted].tolist()


def test_impossible_scores_are_found_once_each() -> None:
    """Where too few are possible, minus infinity fills up; what is not a number comes last."""
    scores = np.full((1, 300), -np.inf, np.float32)
    scores[0, 7], scores[0, 3] = 1, np.nan
    assert best(scores, 3)[1].tolist() == [[7, 0, 1]]


class _Lists:
    """A beam search of one batch entry in lists: the textbook's, with scores in float32."""

    def __init__(self, prompt: list[int], rules: BeamRules) -> None:
        self.rules = rules
        self.live = [(0.0 if beam == 0 else -1e9, list(prompt)) for beam in range(rules.beams)]
        self.finished: list[tuple[float, list[int]]] = []
        self.done = False

    def _finish(self, score: float, tokens: list[int]) -> None:
        weight = np.power(np.float32(len(tokens)), np.float32(self.rules.length_penalty))
        self.finished.append((float(np.float32(score) / weight), tokens))
        self.finished.sort(key=lambda one: -one[0])
        del self.finished[self.rules.beams :]

    def advance(self, scores: Any) -> None:
        if self.done:
            return
        choices = [
            (float(scores[beam, token]), beam, token)
            for beam in range(self.rules.beams)
            for token in range(scores.shape[1])
        ]
        choices.sort(key=lambda one: -one[0])
        live: list[tuple[float, list[int]]] = []
        for rank, (score, beam, token) in enumerate(choices[: 2 * self.rules.beams]):
            if token != END:
                live.append((score, [*self.live[beam][1], token]))
            elif rank < self.rules.beams:
                self._finish(score, self.live[beam][1])
            if len(live) == self.rules.beams:
                break
        length = len(self.live[0][1])
        self.live = live
        if len(self.finished) == self.rules.beams:
            weight = np.power(np.float32(length), np.float32(self.rules.length_penalty))
            top = float(np.float32(choices[0][0]) / weight)
            self.done = self.rules.early_stopping or self.finished[-1][0] >= top

    def result(self, most: int) -> tuple[list[list[int]], list[float]]:
        if not self.done:
            for score, tokens in self.live:
                self._finish(score, tokens)
        kept = self.finished[: self.rules.returned]
        return [tokens + [PAD] * (most - len(tokens)) for _, tokens in kept], [score for score, _ in kept]


@_SETTINGS
@given(
    batch=st.integers(1, 3),
    beams=st.integers(1, 4),
    penalty=st.sampled_from([0.0, 1.0, 2.0, -1.0]),
    early=st.booleans(),
    seed=st.integers(0, 999),
)
def test_beams_are_those_of_the_textbook(batch: int, beams: int, penalty: float, early: bool, seed: int) -> None:
    """All entries at once give what each gives alone, whenever it is done."""
    random = np.random.default_rng(seed)
    rules = BeamRules(beams, int(random.integers(1, beams + 1)), penalty, early, END, PAD)
    prompt = random.integers(0, 9, (batch, 2), np.int32)
    most = 8
    ours, theirs = Beams(prompt, most, rules), [_Lists(row.tolist(), rules) for row in prompt]
    for _ in range(most - 2):
        steps = -random.exponential(3, (batch * beams, 6)).astype(np.float32)
        for entry, lists in enumerate(theirs):
            rows = slice(entry * beams, (entry + 1) * beams)
            if not lists.done:
                sums = np.array([score for score, _ in lists.live], np.float32)
                np.testing.assert_array_equal(ours.scores[rows], sums)
                np.testing.assert_array_equal(ours.sequences[rows], [tokens for _, tokens in lists.live])
        scores = steps + ours.scores[:, None]
        for entry, lists in enumerate(theirs):
            lists.advance(scores[entry * beams : (entry + 1) * beams])
        ours.advance(scores)
        assert ours.done.tolist() == [lists.done for lists in theirs]
        if ours.done.all():
            break
    sequences, totals = ours.result()
    for entry, lists in enumerate(theirs):
        wanted, scored = lists.result(most)
        assert sequences[entry].tolist() == wanted
        np.testing.assert_array_equal(totals[entry], np.array(scored, np.float32))


def test_an_entry_that_is_done_is_padded() -> None:
    """Its beams get the padding token and score 0, and no state moves for them."""
    beams = Beams(np.zeros((1, 1), np.int32), 4, BeamRules(1, 1, 1.0, True, END, PAD))
    beams.advance(np.array([[-5, -4, 0]], np.float32))
    assert beams.done.tolist() == [True]
    beams.advance(np.zeros((1, 3), np.float32))
    assert (beams.tokens.tolist(), beams.parents.tolist(), beams.scores.tolist()) == ([PAD], [0], [0])
    assert beams.result()[0].tolist() == [[[0, PAD, PAD, PAD]]]
