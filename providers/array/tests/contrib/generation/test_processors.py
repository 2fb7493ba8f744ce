"""Processors of scores, each against a loop over rows and tokens that says the same in the plainest way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py_array.contrib.generation.processors import (
    LOWEST,
    Processor,
    Processors,
    Timestamps,
    divide,
    forbid_early_end,
    forbid_masked,
    forbid_repeated_ngrams,
    force_tokens,
    penalise_presence,
    penalise_repetition,
)

VOCABULARY = 12
END = 3
_SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)
_SHAPES = {"rows": st.integers(1, 4), "length": st.integers(1, 9), "seed": st.integers(0, 99)}


def _case(rows: int, length: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    scores = random.standard_normal((rows, VOCABULARY)).astype(np.float32)
    return scores, random.integers(0, VOCABULARY, (rows, length), np.int32)


def _processed(processor: Processor, scores: Any, sequences: Any) -> Any:
    result = scores.copy()
    processor(result, sequences)
    return result


@_SETTINGS
@given(**_SHAPES)
def test_repetition_is_penalised_once_a_token(rows: int, length: int, seed: int) -> None:
    """Negative scores grow, others shrink, however often a token was said; the prompt counts."""
    scores, sequences = _case(rows, length, seed)
    wanted = scores.copy()
    for row in range(rows):
        for token in set(sequences[row].tolist()):
            wanted[row, token] *= np.float32(1.5) if wanted[row, token] < 0 else np.float32(1) / np.float32(1.5)
    np.testing.assert_allclose(_processed(penalise_repetition(1.5), scores, sequences), wanted, rtol=1e-6)


@_SETTINGS
@given(size=st.integers(1, 4), **_SHAPES)
def test_no_group_of_tokens_is_repeated(size: int, rows: int, length: int, seed: int) -> None:
    """A token that would complete a group that was said is forbidden; nothing is before a group can be complete."""
    scores, sequences = _case(rows, length, seed)
    sequences %= 3  # so that groups come again
    wanted = scores.copy()
    for row in range(rows):
        said = sequences[row].tolist()
        groups = {tuple(said[i : i + size]) for i in range(length - size + 1)}
        for token in range(VOCABULARY):
            if length >= size and (*said[length - size + 1 :], token)[-size:] in groups:
                wanted[row, token] = LOWEST
    np.testing.assert_array_equal(_processed(forbid_repeated_ngrams(size), scores, sequences), wanted)


@pytest.mark.parametrize("make", [penalise_repetition, forbid_repeated_ngrams])
def test_tokens_beyond_the_vocabulary_are_left_alone(make: Any) -> None:
    """A prompt may have tokens that the decoder never gives: they have no score to change."""
    scores = np.ones((1, 4), np.float32)
    result = _processed(make(1), scores, np.array([[9, -1]], np.int32))
    np.testing.assert_array_equal(result, scores)


def test_masked_tokens_are_forbidden() -> None:
    """One mask for all rows, or one for each batch entry that its beams share."""
    scores = np.zeros((4, 2), np.float32)
    one = _processed(forbid_masked(np.array([True, False])), scores, None)
    np.testing.assert_array_equal(one, [[LOWEST, 0]] * 4)
    each = _processed(forbid_masked(np.array([[True, False], [False, True]]), 2), scores, None)
    np.testing.assert_array_equal(each, [[LOWEST, 0], [LOWEST, 0], [0, LOWEST], [0, LOWEST]])


def test_a_sequence_does_not_end_early() -> None:
    """The last token is forbidden while the sequence is shorter than asked for."""
    scores = np.zeros((1, 4), np.float32)
    processor = forbid_early_end(3, END)
    np.testing.assert_array_equal(_processed(processor, scores, np.zeros((1, 2), np.int32)), [[0, 0, 0, LOWEST]])
    np.testing.assert_array_equal(_processed(processor, scores, np.zeros((1, 3), np.int32)), scores)


def test_temperature_divides() -> None:
    np.testing.assert_array_equal(_processed(divide(2.0), np.array([[4, -1]], np.float32), None), [[2, -0.5]])


def test_presence_is_penalised() -> None:
    """By as much as the mask says, times the penalty."""
    present = np.array([[0, 1, 2]], np.int32)
    result = _processed(penalise_presence(present, 0.5), np.ones((1, 3), np.float32), None)
    np.testing.assert_array_equal(result, [[1, 0.5, 0]])


def test_forced_tokens_are_the_only_ones() -> None:
    """Each entry's tokens one after the other, until its first negative one; later steps are free."""
    processor = force_tokens(np.array([[2, -1, 1], [0, 1, 99]], np.int32), 4, 2)
    free = np.full(3, -1.0)
    only = [np.where(np.arange(3) == token, 0.0, LOWEST) for token in range(3)]
    wanted = [(only[2], only[0]), (free, only[1]), (free, free), (free, free)]
    for step, (first, second) in enumerate(wanted):
        result = _processed(processor, np.full((4, 3), -1, np.float32), np.zeros((4, 4 + step), np.int32))
        np.testing.assert_array_equal(result, np.array([first, first, second, second], np.float32))


def test_processors_run_in_their_order_and_for_their_steps() -> None:
    """One that is for first steps only is left out later."""
    process = Processors()
    process.add(divide(2.0))
    process.add(penalise_presence(np.ones((1, 1)), 1.0), steps=1)
    found = []
    for step in range(2):
        scores = np.full((1, 1), 6, np.float32)
        process(scores, np.zeros((1, 1), np.int32), step)
        found.append(scores.item())
    assert found == [2, 3]


def test_what_passes_the_range_becomes_infinite_in_silence() -> None:
    """A penalty on a forbidden token causes no warning."""
    process = Processors()
    process.add(penalise_repetition(2.0))
    scores = np.full((1, 1), LOWEST, np.float32)
    process(scores, np.zeros((1, 1), np.int32), 0)
    assert scores.item() == -np.inf


RULES = Timestamps(end=END, start=0, translate=1, transcribe=2, language_model=4, none=5, begin=6, latest=3)


def _mark_rules(scores: Any, sequence: list[int]) -> Any:
    """Whisper's rules for one row, as OpenAI's description of them has it, with the end of a first mark included."""
    scores = scores.copy()
    marks = [token for token in sequence if token >= RULES.begin]
    first = next((i + 1 for i, token in enumerate(sequence) if token >= RULES.begin), len(sequence))
    begun = len(sequence) > first
    forbidden = {RULES.none, RULES.language_model}
    if begun:
        forbidden |= {RULES.start, RULES.translate, RULES.transcribe}
    all_marks = set(range(RULES.begin, VOCABULARY))
    last = sequence[-1] >= RULES.begin
    paired = not begun or sequence[-2] >= RULES.begin
    if last:
        forbidden |= all_marks if paired else set(range(RULES.end))
    if marks:
        least = marks[-1] if last and not paired else marks[-1] + 1
        forbidden |= {token for token in all_marks if token < least}
    if not begun:
        forbidden |= {token for token in all_marks if token > RULES.begin + RULES.latest}
    scores[sorted(forbidden)] = LOWEST
    open_marks = [scores[token] for token in all_marks if scores[token] > LOWEST]
    together = np.log(np.sum(np.exp(open_marks))) if open_marks else LOWEST
    if together > scores[: RULES.begin].max():
        scores[: RULES.begin] = LOWEST
    return scores


@_SETTINGS
@given(**_SHAPES)
def test_marks_of_time(rows: int, length: int, seed: int) -> None:
    """In pairs, never back, the first one early, and preferred to text where they are likelier together."""
    scores, sequences = _case(rows, length, seed)
    wanted = np.stack([_mark_rules(row, said.tolist()) for row, said in zip(scores, sequences, strict=True)])
    np.testing.assert_array_equal(_processed(RULES, scores, sequences), wanted)


def test_marks_of_time_in_a_smaller_vocabulary() -> None:
    """Tokens of tasks that the decoder does not know are not looked for."""
    rules = Timestamps(end=1, start=0, translate=-1, transcribe=50, language_model=51, none=52, begin=2)
    result = _processed(rules, np.zeros((1, 4), np.float32), np.array([[0]], np.int32))
    np.testing.assert_array_equal(result, [[LOWEST, LOWEST, 0, 0]])  # two marks are likelier than either token
