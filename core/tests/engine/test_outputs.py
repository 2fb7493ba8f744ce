"""Outputs belong to the caller: fresh, writable, contiguous, aliasing no feed, no weight and no other output."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from core.tests.small_models import TWO_OUTPUTS, open_model, typed_identity
from ort_py.engine.runner import finish_result
from ort_py.limits import checking_time

X = np.arange(6, dtype=np.float32).reshape(2, 3)

GRAPHS = {
    "computed": "g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }",
    "Identity": typed_identity("float[2, 3]"),
    "Reshape": "g (float[2, 3] x) => (float[3, 2] y) <int64[2] s = {3, 2}> { y = Reshape(x, s) }",
    "Transpose": "g (float[2, 3] x) => (float[3, 2] y) { y = Transpose <perm = [1, 0]> (x) }",
    "Squeeze": "g (float[1, 6] x) => (float[6] y) <int64[1] a = {0}> { y = Squeeze(x, a) }",
    "Slice": "g (float[2, 3] x) => (float[2, 2] y) <int64[1] s = {0}, int64[1] e = {2}, int64[1] a = {1}>"
    " { y = Slice(x, s, e, a) }",
    "chain of views": "g (float[2, 3] x) => (float[6] y) <int64[1] s = {-1}>"
    " { t = Transpose <perm = [0, 1]> (x) i = Identity(t) y = Reshape(i, s) }",
    "Dropout": "g (float[2, 3] x) => (float[2, 3] y) { y = Dropout(x) }",
    "Expand": "g (float[2, 3] x) => (float[4, 2, 3] y) <int64[3] s = {4, 2, 3}> { y = Expand(x, s) }",
    "input is output": "g (float[2, 3] x) => (float[2, 3] x) { }",
}


@pytest.mark.parametrize("name", GRAPHS)
def test_output_aliases_no_feed(name: str) -> None:
    """Writing to the result cannot change what the caller fed."""
    session = open_model(GRAPHS[name])
    feed = X.reshape(1, 6).copy() if name == "Squeeze" else X.copy()
    (result,) = session.run(None, {"x": feed})
    assert not np.shares_memory(result, feed)


def test_finishing_a_long_sequence_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its tensors may be copied."""
    monkeypatch.setattr("ort_py.engine.runner._STRETCH", 2)
    looks: list[float] = []
    with checking_time(lambda ahead=0.0: looks.append(ahead)):
        found = finish_result([X] * 5, copy=True)
    assert len(looks) == 3
    assert len(found) == 5
    assert not np.shares_memory(found[4], X)


@pytest.mark.parametrize("name", GRAPHS)
def test_output_is_writable_and_contiguous(name: str) -> None:
    """Results can be written to and handed to C code."""
    (result,) = open_model(GRAPHS[name]).run(None, {"x": X.reshape(1, 6) if name == "Squeeze" else X})
    assert result.flags.writeable
    assert result.flags.c_contiguous
    assert result.flags.aligned


@pytest.mark.parametrize("name", GRAPHS)
def test_outputs_of_two_runs_are_apart(name: str) -> None:
    """A second run leaves the first one's results alone."""
    session = open_model(GRAPHS[name])
    feed = X.reshape(1, 6) if name == "Squeeze" else X
    (first,) = session.run(None, {"x": feed})
    before = first.copy()
    (second,) = session.run(None, {"x": feed + 1})
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, before)


WEIGHTS = {
    "constant": "g (float[1] x) => (float[2] y, float[1] z) <float[2] w = {1, 2}> { y = Identity(w) z = Relu(x) }",
    "initializer": "g (float[1] x) => (float[2] w, float[1] z) <float[2] w = {1, 2}> { z = Relu(x) }",
    "reshaped": "g (float[1] x) => (float[2, 1] y, float[1] z) <float[2] w = {1, 2}, int64[2] s = {2, 1}>"
    " { y = Reshape(w, s) z = Relu(x) }",
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_output_aliases_no_weight(name: str) -> None:
    """Writing to a result that is a weight does not change the model."""
    session = open_model(WEIGHTS[name])
    feed = {"x": np.ones(1, np.float32)}
    first, _ = session.run(None, feed)
    first[...] = 99
    assert session.run(None, feed)[0].ravel().tolist() == [1, 2]


ALIASES = {
    "two Identities": "g (float[N] x) => (float[N] a, float[N] b) { t = Relu(x) a = Identity(t) b = Identity(t) }",
    "value and view": "g (float[2, 3] x) => (float[2, 3] a, float[6] b) <int64[1] s = {-1}>"
    " { a = Relu(x) b = Reshape(a, s) }",
    "parts": "g (float[2, 3] x) => (float[1, 3] a, float[1, 3] b) { a, b = Split <axis = 0, num_outputs = 2> (x) }",
}


@pytest.mark.parametrize("name", ALIASES)
def test_outputs_alias_no_other_output(name: str) -> None:
    """Each result has memory of its own."""
    feed = X.ravel() if name == "two Identities" else X
    for left, right in itertools.combinations(open_model(ALIASES[name]).run(None, {"x": feed}), 2):
        assert not np.shares_memory(left, right)


def test_one_output_twice() -> None:
    """An output named twice is returned twice, in memory of its own."""
    first, second = open_model(TWO_OUTPUTS).run(["up", "up"], {"x": X.ravel()})
    np.testing.assert_array_equal(first, second)
    assert not np.shares_memory(first, second)


def test_outputs_in_the_order_asked_for() -> None:
    """Names decide what is returned, and in which order."""
    down, up = open_model(TWO_OUTPUTS).run(["down", "up"], {"x": np.array([-2.0], np.float32)})
    assert (down.tolist(), up.tolist()) == ([2.0], [2.0])
    (down,) = open_model(TWO_OUTPUTS).run(("down",), {"x": np.array([3.0], np.float32)})
    assert down.tolist() == [-3.0]


@pytest.mark.parametrize("names", [None, [], ()])
def test_no_names_mean_all_outputs(names: list[str] | None) -> None:
    """None and an empty list both ask for everything."""
    assert len(open_model(TWO_OUTPUTS).run(names, {"x": X.ravel()})) == 2


def test_zero_dimensional_output_is_an_array() -> None:
    """A scalar output is a 0-d array, not a NumPy scalar."""
    (result,) = open_model("g (float[N] x) => (float y) { y = ReduceSum <keepdims = 0> (x) }").run(
        None, {"x": X.ravel()}
    )
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    result[...] = 1  # and it can be written to


def test_elements_of_a_sequence_alias_no_feed() -> None:
    """Sequences are returned in new lists of new arrays."""
    feed = [X.copy()]
    (result,) = open_model(typed_identity("seq(float[N, M])")).run(None, {"x": feed})
    assert result is not feed
    assert not np.shares_memory(result[0], feed[0])


def test_outputs_outlive_the_session() -> None:
    """A result is the caller's after the session was closed."""
    with open_model(GRAPHS["computed"]) as session:
        (result,) = session.run(None, {"x": X})
    np.testing.assert_array_equal(result, X)
