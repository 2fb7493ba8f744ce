"""TfIdfVectorizer against onnxruntime, and a naive count by the words of the specification."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, InvalidGraph, LimitError
from ort_py_array.text import tfidf
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from ..oracle import DEFINITIONS, i64, run
from ..runtime_oracle import agree_with_runtime

FEW = settings(max_examples=25, deadline=None, derandomize=True)


def pool_of(seed: int, texts: bool) -> dict[str, Any]:
    """A random pool of 1-, 2- and 3-grams of few items, without repetition."""
    rng = np.random.default_rng(seed)
    grams: list[tuple[int, ...]] = []
    counts, size = [], 0
    for length in (1, 2, 3):
        counts.append(size)
        found = {tuple(int(item) for item in rng.integers(0, 5, length)) for _ in range(int(rng.integers(1, 5)))}
        grams += sorted(found)
        size += length * len(found)
    flat = [item for gram in grams for item in gram]
    pool = {"pool_strings": [f"w{item}" for item in flat]} if texts else {"pool_int64s": flat}
    return {**pool, "ngram_counts": counts, "ngram_indexes": [int(i) for i in rng.permutation(len(grams))]}


def naive(row: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """Counts of every window, one by one; weights belong to n-grams."""
    pool = attributes.get("pool_strings") or attributes["pool_int64s"]
    starts = [*attributes["ngram_counts"], len(pool)]
    grams = [
        tuple(pool[at : at + length])
        for length in range(1, len(starts))
        for at in range(starts[length - 1], starts[length], length)
    ]
    windows: Counter[tuple[Any, ...]] = Counter()
    for length in range(attributes["min_gram_length"], attributes["max_gram_length"] + 1):
        for distance in range(1, 2 if length == 1 else attributes["max_skip_count"] + 2):
            for first in range(len(row) - (length - 1) * distance):
                windows[tuple(row[first + k * distance] for k in range(length))] += 1
    y = np.zeros(max(attributes["ngram_indexes"]) + 1, np.float32)
    weights = attributes.get("weights") or [1.0] * len(grams)
    for gram, place, weight in zip(grams, attributes["ngram_indexes"], weights, strict=True):
        count = min(windows[gram], 1) if attributes["mode"] == "IDF" else windows[gram]
        y[place] += count * (1 if attributes["mode"] == "TF" else weight)
    return y


@FEW
@given(
    st.integers(0, 9999),
    st.sampled_from(["TF", "IDF", "TFIDF"]),
    st.sampled_from([(1, 1), (1, 3), (2, 2), (2, 3), (3, 3)]),
    st.integers(0, 4),
    st.sampled_from([np.int32, np.int64, object]),
    st.booleans(),
)
def test_every_mode(seed: int, mode: str, lengths: tuple[int, int], skips: int, dtype: Any, weighted: bool) -> None:
    """Integers and strings, sequences and rows of them, with and without weights."""
    rng = np.random.default_rng(seed)
    attributes = pool_of(seed, texts=dtype is object)
    attributes |= {"mode": mode, "min_gram_length": lengths[0], "max_gram_length": lengths[1], "max_skip_count": skips}
    if weighted:
        attributes["weights"] = [float(value) for value in rng.integers(1, 9, len(attributes["ngram_indexes"])) / 4]
    x = rng.integers(-1, 6, (int(rng.integers(0, 4)), int(rng.integers(0, 9))))
    if dtype is object:
        texts = np.empty(x.shape, object)
        texts[...] = [[f"w{item}" for item in row] for row in x.tolist()] if x.size else texts
        x = texts
    else:
        x = x.astype(dtype)
    (y,) = run("TfIdfVectorizer", [x], opset=9, **attributes)
    expected = [naive(row, attributes) for row in x.tolist()]
    assert (y.dtype, y.shape) == (np.float32, (len(x), max(attributes["ngram_indexes"]) + 1))
    np.testing.assert_allclose(y, np.array(expected, np.float32).reshape(y.shape), rtol=1e-6)
    if len(x):
        (first,) = run("TfIdfVectorizer", [x[0]], opset=9, **attributes)
        np.testing.assert_array_equal(first, y[0])


@FEW
@given(st.integers(0, 9999), st.sampled_from(["TF", "IDF", "TFIDF"]), st.integers(0, 3), st.booleans())
def test_as_onnxruntime(seed: int, mode: str, skips: int, texts: bool) -> None:
    """Weights at the n-gram's own index, where onnxruntime's reading of them is the specification's."""
    rng = np.random.default_rng(seed)
    attributes = pool_of(seed, texts)
    count = len(attributes["ngram_indexes"])
    attributes |= {"ngram_indexes": list(range(count)), "weights": [float(w) for w in rng.integers(1, 9, count)]}
    attributes |= {"mode": mode, "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": skips}
    x = rng.integers(0, 6, (3, 8))
    if texts:
        x = np.array([[f"w{item}" for item in row] for row in x.tolist()], object)
    agree_with_runtime("TfIdfVectorizer", [x], opset=9, **attributes)


SMALL: dict[str, Any] = {
    "mode": "TF",
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 0,
    "pool_int64s": [1, 2, 3, 4],
    "ngram_counts": [0, 2],
    "ngram_indexes": [0, 1, 2],
}


def test_a_scalar_is_a_sequence_of_one() -> None:
    (y,) = run("TfIdfVectorizer", [np.array(2, np.int64)], opset=9, **SMALL)
    np.testing.assert_array_equal(y, [0, 1, 0])


def test_enormous_skips_end() -> None:
    """No window is longer than the sequence, however many items it may skip."""
    (y,) = run("TfIdfVectorizer", [i64(3, 0, 0, 4)], opset=9, **{**SMALL, "max_skip_count": 1 << 60})
    np.testing.assert_array_equal(y, [0, 0, 1])


class Late(LocalKernelContext):
    """A run whose time is over at the tenth look at the clock."""

    looks = 0

    def check_time(self, ahead: float = 0.0) -> None:
        self.looks += 1
        if self.looks == 10:
            raise LimitError("too late")


def test_each_skip_looks_at_the_clock() -> None:
    """A sequence has as many kinds of windows as items."""
    items = i64(*[3, 0] * 50)
    node = make_node_spec("TfIdfVectorizer", [items], opset=9, attributes={**SMALL, "max_skip_count": 1 << 60})
    definition = next(one for one in DEFINITIONS if one.op_type == "TfIdfVectorizer")
    with pytest.raises(LimitError, match="too late"):
        definition.factory(Late(node))(items)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_occurrences_are_counted_in_batches(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is in two batches is counted twice, and for IDF once."""
    attributes = {**pool_of(3, texts=False), "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 4}
    attributes |= {"mode": mode, "weights": [0.5 + place for place in range(len(attributes["ngram_indexes"]))]}
    items = np.random.default_rng(3).integers(0, 5, (3, 40))
    monkeypatch.setattr(tfidf, "_TOGETHER", 7)
    (y,) = run("TfIdfVectorizer", [items], opset=9, **attributes)
    np.testing.assert_allclose(y, [naive(row.tolist(), attributes) for row in items])


class Capped(LocalKernelContext):
    """Refuses arrays above a million elements."""

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        if np.prod([float(size) for size in shape]) > 1e6:
            raise LimitError("too large")


def test_an_enormous_output_is_announced() -> None:
    """An index decides the size of the result."""
    attributes = {**SMALL, "ngram_indexes": [0, 1, 1 << 40]}
    node = make_node_spec("TfIdfVectorizer", [i64(1)], opset=9, attributes=attributes)
    definition = next(one for one in DEFINITIONS if one.op_type == "TfIdfVectorizer")
    with pytest.raises(LimitError, match="too large"):
        definition.factory(Capped(node))(i64(1))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"mode": "DF"}, "mode is 'DF'"),
        ({"mode": None}, "mode is None"),
        ({"min_gram_length": 0}, "min_gram_length is 0"),
        ({"max_gram_length": None}, "max_gram_length is None"),
        ({"max_skip_count": -1}, "max_skip_count is -1"),
        ({"min_gram_length": 3}, "max_gram_length is 2, and min_gram_length is 3"),
        ({"max_gram_length": 1 << 60}, "and ngram_counts ends at length 2"),
        ({"pool_int64s": None}, "There are 0 pool_strings and 0 pool_int64s"),
        ({"pool_strings": ["a"]}, "There are 1 pool_strings and 4 pool_int64s"),
        ({"ngram_counts": [0, 1]}, "The 3 items from 1 to 4 of the pool do not make 2-grams"),
        ({"ngram_counts": [0, 9]}, "ngram_counts is [0, 9], and the pool has 4 items"),
        ({"ngram_counts": [2, 0]}, "ngram_counts is [2, 0]"),
        ({"ngram_indexes": [0, 1]}, "The pool has 3 n-grams, and ngram_indexes 2 entries"),
        ({"ngram_indexes": [0, 1, -1]}, "ngram_indexes has 3 entries, one of them negative"),
        ({"weights": [1.0]}, "There are 1 weights for 3 n-grams"),
    ],
)
def test_damaged_attributes_are_refused(changes: dict[str, Any], text: str) -> None:
    """When the node is bound, with the attribute's name."""
    attributes = {name: value for name, value in {**SMALL, **changes}.items() if value is not None}
    with pytest.raises(InvalidGraph, match=re.escape(text)) as caught:
        run("TfIdfVectorizer", [i64(1)], opset=9, **attributes)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.zeros((1, 1, 1), np.int64), "The input has shape [1, 1, 1]"),
        (np.array(["a"], object), "The input is object, and the pool holds integers"),
    ],
)
def test_what_does_not_fit_is_refused(x: Any, text: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        run("TfIdfVectorizer", [x], opset=9, **SMALL)
    assert caught.value.fix
