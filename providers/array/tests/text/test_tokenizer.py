"""com.microsoft.Tokenizer against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

import ort_py as ort
from ort_py.errors import InvalidArgument, InvalidGraph

from ..oracle import run
from ..runtime_oracle import agree_with_runtime

MS = "com.microsoft"
FEW = settings(max_examples=25, deadline=None, derandomize=True)
BASIC: dict[str, Any] = {"mark": 0, "pad_value": "#", "mincharnum": 1}
TEXTS = st.lists(st.text(alphabet="abc ,Äß€", max_size=10), min_size=1, max_size=4)


def words(texts: list[str]) -> Any:
    """A tensor of strings."""
    x = np.empty(len(texts), object)
    x[:] = texts
    return x


def compare(x: Any, **attributes: Any) -> None:
    """Against onnxruntime."""
    agree_with_runtime("Tokenizer", [x], opset=1, domain=MS, **{**BASIC, **attributes})


@FEW
@given(TEXTS, st.sampled_from([0, 1]), st.sampled_from([{"separators": [""]}, {"tokenexp": "."}]))
def test_characters(texts: list[str], mark: int, how: dict[str, Any]) -> None:
    """Each character is a token, however many bytes it has."""
    compare(words(texts), mark=mark, **how)


@FEW
@given(
    TEXTS, st.sampled_from([0, 1]), st.integers(1, 3), st.sampled_from([[" "], [",", " "], ["a|ab", "Ä+"], ["[ ,]+"]])
)
def test_separators(texts: list[str], mark: int, least: int, separators: list[str]) -> None:
    """One expression after the other; the longest match separates; short pieces are left out."""
    compare(words(texts).reshape(1, -1), mark=mark, mincharnum=least, separators=separators)


@FEW
@given(TEXTS, st.sampled_from([0, 1]), st.integers(1, 3), st.sampled_from(["a+", "[a-c]+", "a|ab", "[^ ]+", "Ä."]))
def test_token_expressions(texts: list[str], mark: int, least: int, expression: str) -> None:
    """A match is a token if it has enough characters."""
    compare(words(texts), mark=mark, mincharnum=least, tokenexp=expression)


def test_empty_matches_move_on_by_a_character() -> None:
    """An expression that matches nothing ends, in texts of several bytes a character too."""
    x = words(["Äab", "bb"])
    (y,) = run("Tokenizer", [x], opset=1, domain=MS, tokenexp="a*", **BASIC)
    assert y.tolist() == [["a"], ["#"]]
    (y,) = run("Tokenizer", [x], opset=1, domain=MS, separators=["x*"], **BASIC)
    assert y.shape == (2, 0)


@pytest.mark.parametrize(("shape", "expected"), [((0,), (0,)), ((2, 0), (2, 0)), ((0, 2), (0, 0))])
def test_nothing_to_cut(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    x = np.empty(shape, object)
    (y,) = run("Tokenizer", [x], opset=1, domain=MS, separators=[" "], **BASIC)
    assert y.shape == expected


def test_a_model_runs() -> None:
    """The schema is known: the engine types the output and finds the kernel."""
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain=MS, separators=[" "], **BASIC)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [2])],
        [helper.make_empty_tensor_value_info("y")],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    blob = helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()
    with ort.InferenceSession(blob, providers=["CPUExecutionProvider"]) as session:
        (y,) = session.run(None, {"x": words(["a b", "c"])})
    assert y.tolist() == [["a", "b"], ["c", "#"]]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "There are neither separators nor a token expression"),
        ({"tokenexp": "a", "mincharnum": 0}, "mincharnum is 0"),
        ({"tokenexp": ".", "mincharnum": 2}, "mincharnum is 2, and each character is a token"),
        ({"tokenexp": "("}, "is not a regular expression of RE2"),
        ({"separators": ["a", "("]}, "is not a regular expression of RE2"),
        ({"tokenexp": "a", "mark": None}, "The attribute mark is missing"),
        ({"tokenexp": "a", "pad_value": None}, "The attribute pad_value is missing"),
    ],
)
def test_damaged_attributes_are_refused(changes: dict[str, Any], text: str) -> None:
    attributes = {name: value for name, value in {**BASIC, **changes}.items() if value is not None}
    with pytest.raises(InvalidGraph, match=re.escape(text)) as caught:
        run("Tokenizer", [words(["a"])], opset=1, domain=MS, **attributes)
    assert caught.value.fix


def test_other_ranks_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("The input has shape [1, 1, 1]")) as caught:
        run("Tokenizer", [words(["a"]).reshape(1, 1, 1)], opset=1, domain=MS, tokenexp="a", **BASIC)
    assert caught.value.fix
