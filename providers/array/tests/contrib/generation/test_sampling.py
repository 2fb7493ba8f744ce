"""Sampling: what is filtered, how often tokens are drawn, and what a seed decides.

No specification says which tokens a seed gives, so onnxruntime is asked only where one token can be drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_array.contrib.generation.sampling import drawn, filter_unlikely
from ort_py_kit.tolerances import assert_close

from .graphs import VOCABULARY, decoder, encoder, gpt
from .sessions import agree_with_runtime, generate, run_graph

PAD, END = 3, 7
MARKS: dict[str, Any] = {"eos_token_id": END, "pad_token_id": PAD}
_RANDOM = np.random.default_rng(3)
PROMPT = _RANDOM.integers(4, VOCABULARY, (3, 5))
MANY = np.repeat(PROMPT[:1], 4000, axis=0)
_SETTINGS = settings(max_examples=25, deadline=None, derandomize=True)
_FILTERED = -1e20
"""Default of `filter_value`."""


def _chances(logits: Any) -> Any:
    exponents = np.exp(np.asarray(logits, np.float64))
    return exponents / exponents.sum(axis=-1, keepdims=True)


def _first_logits() -> Any:
    """The logits of the first token after the first prompt."""
    said = PROMPT[:1].astype(np.int32)
    places = np.arange(5, dtype=np.int32)[None]
    states = [np.zeros((2, 1, 2, 0, 4), np.float32)] * 2
    return run_graph(gpt(3), [said, places, np.ones_like(said), *states])[0][0, -1]


@_SETTINGS
@given(top_p=st.floats(0, 1), least=st.integers(0, 9), seed=st.integers(0, 99))
def test_the_fewest_tokens_that_have_the_share(top_p: float, least: int, seed: int) -> None:
    """Best first until their probabilities add up to `top_p`; some are kept in any case."""
    scores = np.random.default_rng(seed).standard_normal((3, 8)).astype(np.float32) * 2
    filtered = scores.copy()
    filter_unlikely(filtered, top_p, least, _FILTERED, custom=False)
    for row, result in zip(scores, filtered, strict=True):
        chances = _chances(row)
        order = np.argsort(-row)
        kept = {int(token) for token in np.flatnonzero(result == row)}
        assert kept == {int(token) for token in order[: len(kept)]}
        share = chances[order[: len(kept)]].sum()
        assert len(kept) >= max(1, min(least, 8))
        assert share >= top_p - 1e-5
        if len(kept) > max(1, least):  # one less would not do
            assert share - chances[order[len(kept) - 1]] <= top_p + 1e-5
        assert np.all(result[order[len(kept) :]] == np.float32(_FILTERED))


@_SETTINGS
@given(top_p=st.floats(0, 1), seed=st.integers(0, 99))
def test_the_custom_form(top_p: float, seed: int) -> None:
    """A token stays while those before it add up to no more than `top_p`."""
    scores = np.random.default_rng(seed).standard_normal((3, 8)).astype(np.float32) * 2
    filtered = scores.copy()
    filter_unlikely(filtered, top_p, 0, _FILTERED, custom=True)
    for row, result in zip(scores, filtered, strict=True):
        order = np.argsort(-row)
        before = np.concatenate(([0.0], np.cumsum(_chances(row)[order])[:-1]))
        sure = np.abs(before - top_p) > 1e-5
        np.testing.assert_array_equal((result == row)[order][sure], (before <= top_p)[sure])


@pytest.mark.parametrize("custom", [False, True])
def test_of_equal_scores_the_first_are_kept(custom: bool) -> None:
    scores = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 9.0, 0.0, 0.0]], np.float32)
    filter_unlikely(scores, 0.4, 0, _FILTERED, custom=custom)
    kept = scores > np.float32(_FILTERED)
    np.testing.assert_array_equal(kept, [[True, True, False, False], [False, True, False, False]])


@_SETTINGS
@given(seed=st.integers(0, 99))
def test_draws_follow_the_probabilities(seed: int) -> None:
    """Numbers spread evenly hit each token as often as its share says; what is filtered is never drawn."""
    scores = np.random.default_rng(seed).standard_normal(6).astype(np.float32)
    scores[2] = _FILTERED
    count = 20_000
    numbers = (np.arange(count) + 0.5) / count
    tokens = drawn(np.broadcast_to(scores, (count, 6)), numbers)
    np.testing.assert_allclose(np.bincount(tokens, minlength=6) / count, _chances(scores), atol=2 / count)


@pytest.mark.parametrize("number", [0.0, np.nextafter(1.0, 0.0)])
def test_the_ends_of_the_range(number: float) -> None:
    """The least and the greatest number draw tokens that can be drawn."""
    scores = np.array([[-1e20, 1.0, 2.0, -1e20]], np.float32)
    assert drawn(scores, np.array([number])).tolist() == [1 if number == 0 else 2]


def test_the_share_of_each_token() -> None:
    """Thousands of equal prompts get each token as often as temperature and filter say."""
    inputs = {"input_ids": MANY, "max_length": 6, "seed": 17}
    attributes = {"top_p": 0.9, "temperature": 1.6, "min_tokens_to_keep": 1, "eos_token_id": VOCABULARY}
    found, filtered = generate(
        "Sampling", inputs, {"decoder": gpt(3)}, ("sequences", "logits"), **{**MARKS, **attributes}
    )
    logits = _first_logits() / 1.6
    order = np.argsort(-logits)
    kept = order[: int(np.searchsorted(np.cumsum(_chances(logits)[order]), 0.9)) + 1]
    wanted = np.full(VOCABULARY, np.float32(_FILTERED))
    wanted[kept] = logits[kept]
    assert_close(filtered[0], wanted)
    shares = np.bincount(found[:, 5], minlength=VOCABULARY) / len(MANY)
    chances = _chances(wanted)
    assert not shares[chances == 0].any()
    spread = np.sqrt(chances * (1 - chances) / len(MANY))
    assert np.all(np.abs(shares - chances) <= 4 * spread)  # the seed is fixed: this does not come and go


def test_a_seed_decides() -> None:
    """The same seed gives the same tokens, another one others."""
    attributes = {"top_p": 1.0, "temperature": 3.0, **MARKS}
    runs = [
        generate("Sampling", {"input_ids": PROMPT, "max_length": 30, "seed": seed}, {"decoder": gpt(3)}, **attributes)[
            0
        ]
        for seed in (5, 5, 6)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("attributes", [{"top_p": 0.0, "min_tokens_to_keep": 1}, {"top_p": 0.0, "custom": 1}])
@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"repetition_penalty": 2.0, "min_length": 9},
        {"vocab_mask": np.arange(VOCABULARY) % 2},
        {"prefix_vocab_mask": np.arange(VOCABULARY) % 2 * np.ones((3, 1), int)},
        {"attention_mask": np.array([[0, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1, 1, 1, 1, 1]])},
    ],
    ids=lambda inputs: "-".join(inputs) or "none",
)
def test_one_token_to_draw(inputs: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Processed as onnxruntime does, the likeliest token is the same."""
    given = {"input_ids": PROMPT, "max_length": 12, "seed": 1, **inputs}
    agree_with_runtime(
        "Sampling",
        given,
        {"decoder": gpt(3)},
        temperature=1.5,
        eos_token_id=VOCABULARY + 1,
        pad_token_id=PAD,
        **attributes,
    )


def test_presence_is_penalised() -> None:
    """The penalty covers tokens in the mask and tokens drawn since."""
    present = np.arange(VOCABULARY) % 3 * np.ones((3, 1), np.int32)
    inputs = {"input_ids": PROMPT, "max_length": 12, "presence_mask": present.astype(np.int32)}
    attributes: dict[str, Any] = {"presence_penalty": 0.8, "eos_token_id": VOCABULARY, "pad_token_id": PAD}
    (found,) = generate("Sampling", inputs, {"decoder": gpt(3)}, **attributes)
    said = PROMPT.astype(np.int32)
    for _ in range(7):
        places = np.broadcast_to(np.arange(said.shape[1], dtype=np.int32), said.shape)
        states = [np.zeros((2, 3, 2, 0, 4), np.float32)] * 2
        logits = run_graph(gpt(3), [said, places, np.ones_like(said), *states])[0][:, -1]
        tokens = (logits - present * np.float32(0.8)).argmax(axis=1)
        present[np.arange(3), tokens] = 1
        said = np.concatenate((said, tokens[:, None].astype(np.int32)), axis=1)
    np.testing.assert_array_equal(found, said)


def test_defaults_draw_the_likeliest() -> None:
    """With no share and no number of tokens to keep, one is kept, as GreedySearch has it."""
    inputs = {"input_ids": PROMPT, "max_length": 12}
    graphs = {"decoder": gpt(3)}
    np.testing.assert_array_equal(
        generate("Sampling", inputs, graphs, **MARKS)[0], generate("GreedySearch", inputs, graphs, **MARKS)[0]
    )


def test_a_model_with_an_encoder() -> None:
    """Is sampled too, and begins with its first token."""
    graphs = {"encoder": encoder(1), "decoder": decoder(1)}
    (found,) = generate(
        "Sampling", {"input_ids": PROMPT, "max_length": 9}, graphs, model_type=1, decoder_start_token_id=2, **MARKS
    )
    (wanted,) = generate(
        "GreedySearch", {"input_ids": PROMPT, "max_length": 9}, graphs, model_type=1, decoder_start_token_id=2, **MARKS
    )
    np.testing.assert_array_equal(found, wanted)


def test_nothing_to_draw() -> None:
    """A batch without entries gives none, and no logits."""
    inputs = {"input_ids": PROMPT[:0], "max_length": 9}
    found = generate("Sampling", inputs, {"decoder": gpt(3)}, ("sequences", "logits"), **MARKS)
    assert [value.shape for value in found] == [(0, 9), (0, 0)]


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_a_wrong_temperature(temperature: float) -> None:
    """Is refused when the session is made."""
    with pytest.raises(InvalidArgument, match=f"(?s)'temperature' is {temperature:g}.*greater than 0"):
        generate(
            "Sampling", {"input_ids": PROMPT, "max_length": 9}, {"decoder": gpt(3)}, temperature=temperature, **MARKS
        )


def test_a_wrong_presence_mask() -> None:
    """Its shape is named, and the right one."""
    inputs = {"input_ids": PROMPT, "max_length": 9, "presence_mask": np.ones((2, 2), int)}
    with pytest.raises(InvalidArgument, match=r"(?s)'presence_mask' has the shape \[2, 2\].*\[3, 24\]"):
        generate("Sampling", inputs, {"decoder": gpt(3)}, presence_penalty=1.0, **MARKS)
