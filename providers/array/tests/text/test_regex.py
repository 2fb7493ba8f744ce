"""RegexFullMatch: RE2's language in linear time, or an error that says what to install."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument, InvalidGraph
from ort_py.errors import NotImplemented as NotSupported

from ..oracle import run
from ..runtime_oracle import agree_with_runtime


def words(*texts: str) -> Any:
    """A tensor of strings."""
    return np.array(texts, object)


@pytest.mark.parametrize(
    "pattern", ["a+b*", "(a|b)+", "", r"\w+@\w+\.(com|org)", "ä.", "(?i)ab", r"\pL+", "a$", "(?s)a.b"]
)
def test_as_onnxruntime(pattern: str) -> None:
    x = words("aab", "", "ab", "ä!", "ABAB", "me@here.org", "a\nb", "a\n", "a\0b").reshape(3, 3)
    agree_with_runtime("RegexFullMatch", [x], opset=20, pattern=pattern)


def test_shapes() -> None:
    """The input's, scalars and empty ones too."""
    for shape in ((), (0, 2), (1, 1)):
        x = np.full(shape, "a", object)
        (y,) = run("RegexFullMatch", [x], opset=20, pattern="a")
        assert (y.dtype, y.shape, bool(y.all())) == (np.bool_, shape, True)


def test_patterns_that_keep_others_busy_take_no_time() -> None:
    """Nested repetitions make an engine that backtracks try every division of the text."""
    start = time.perf_counter()
    (y,) = run("RegexFullMatch", [words("a" * 100_000 + "!")], opset=20, pattern="(a|a)*(a*)*b")
    assert not y[0]
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)", "a{100000}", "\ud800"])
def test_what_is_not_re2_is_refused(pattern: str) -> None:
    """When the node is bound; Python's extensions too."""
    with pytest.raises(InvalidGraph, match="is not a regular expression of RE2") as caught:
        run("RegexFullMatch", [words("a")], opset=20, pattern=pattern)
    assert "github.com/google/re2" in caught.value.fix


def test_a_pattern_is_needed() -> None:
    with pytest.raises(InvalidGraph, match="The attribute pattern is missing") as caught:
        run("RegexFullMatch", [words("a")], opset=20)
    assert caught.value.fix


def test_half_a_character_is_refused() -> None:
    """A lone surrogate has no UTF-8 form."""
    with pytest.raises(InvalidArgument, match="A string has no UTF-8 form") as caught:
        run("RegexFullMatch", [words("\udc80")], opset=20, pattern="a")
    assert caught.value.fix


def test_without_re2_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(NotSupported, match="need RE2, which is not installed") as caught:
        run("RegexFullMatch", [words("a")], opset=20, pattern="a")
    assert caught.value.fix == 'Install it: pip install "ort-py-cpu[regex]".'


def test_a_broken_re2_is_no_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared library that cannot be loaded is an OSError, whose words are in the message."""

    def fail(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(importlib.import_module("ort_py_array.text.regex"), "import_module", fail)
    with pytest.raises(NotSupported, match="cannot open shared object file"):
        run("RegexFullMatch", [words("a")], opset=20, pattern="a")
