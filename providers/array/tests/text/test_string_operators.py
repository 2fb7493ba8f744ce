"""StringConcat, StringSplit and StringNormalizer against `onnx.reference`, onnxruntime and Python's own strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from ..oracle import DEFINITIONS, run
from ..runtime_oracle import agree_with_runtime

FEW = settings(max_examples=25, deadline=None, derandomize=True)
TEXT = st.text(alphabet="ab ,\tÄß\0", max_size=8)


def words(*texts: str) -> Any:
    """A tensor of strings."""
    return np.array(texts, object)


@FEW
@given(st.data(), st.sampled_from([((2, 3), (3,)), ((1, 3), (2, 1)), ((), (2,)), ((), ()), ((0, 2), (1, 2))]))
def test_concat(data: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Element by element, broadcast; also of nothing and of scalars."""
    given_texts = [np.empty(shape, object) for shape in shapes]
    for array in given_texts:
        array.reshape(-1)[:] = data.draw(st.lists(TEXT, min_size=array.size, max_size=array.size))
    left, right = given_texts
    (y,) = run("StringConcat", [left, right], opset=20)
    wide = np.broadcast_arrays(left, right)
    assert y.shape == wide[0].shape
    assert y.reshape(-1).tolist() == [a + b for a, b in zip(*(one.reshape(-1).tolist() for one in wide), strict=True)]


@FEW
@given(st.lists(TEXT, max_size=5), st.sampled_from(["", ",", "ab", " "]), st.sampled_from([None, 0, 1, 2, 1 << 62]))
def test_split(texts: list[str], delimiter: str, maxsplit: int | None) -> None:
    """The parts that Python finds, filled with empty strings, and their numbers."""
    attributes: dict[str, Any] = {} if maxsplit is None else {"maxsplit": maxsplit}
    x = np.empty((len(texts), 1), object)
    x[:, 0] = texts
    y, counts = run("StringSplit", [x], opset=20, outputs=2, delimiter=delimiter, **attributes)
    parts = [text.split(delimiter or None, -1 if maxsplit is None else min(maxsplit, 99)) for text in texts]
    assert counts.reshape(-1).tolist() == [len(some) for some in parts]
    assert counts.dtype == np.int64
    most = max(map(len, parts), default=0)
    assert y.shape == (len(texts), 1, most)
    assert y.reshape(len(texts), most).tolist() == [some + [""] * (most - len(some)) for some in parts]


@pytest.mark.parametrize("delimiter", ["", "-"])
def test_split_as_onnxruntime(delimiter: str) -> None:
    """Runs of blanks, delimiters next to each other."""
    x = words("  a b ", "a--b-", "c", "-").reshape(2, 2)
    agree_with_runtime("StringSplit", [x], opset=20, outputs=2, delimiter=delimiter)


def test_an_empty_string_between_delimiters_is_a_part() -> None:
    """So one without delimiters is one part, as in the reference; onnxruntime counts none."""
    y, counts = run("StringSplit", [words("", "a")], opset=20, outputs=2, delimiter="-")
    assert (y.tolist(), counts.tolist()) == ([[""], ["a"]], [1, 1])


def test_a_negative_maxsplit_is_refused() -> None:
    """The number of splits has no end to count from."""
    with pytest.raises(InvalidArgument, match="maxsplit is -1") as caught:
        run("StringSplit", [words("a")], opset=20, outputs=2, maxsplit=-1)
    assert "Leave it out" in caught.value.fix


class Capped(LocalKernelContext):
    """Refuses arrays above a million elements."""

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        if np.prod([float(size) for size in shape]) > 1e6:
            raise LimitError("too large")


def test_one_long_row_among_many_is_announced() -> None:
    """The padding of 2,000 short rows to one of 2,000 parts is the result's size, not the input's."""
    x = words(*["a"] * 2000, "b " * 2000)
    node = make_node_spec("StringSplit", [x], opset=20, outputs=2)
    definition = next(one for one in DEFINITIONS if one.op_type == "StringSplit")
    with pytest.raises(LimitError, match="too large"):
        definition.factory(Capped(node))(x)


@FEW
@given(
    st.lists(st.sampled_from(["Monday", "tuesday", "FRIDAY", "ÄÖ"]), min_size=1, max_size=5),
    st.sampled_from(["NONE", "LOWER", "UPPER"]),
    st.sampled_from([0, 1]),
    st.lists(st.sampled_from(["monday", "FRIDAY", "äö"]), max_size=2, unique=True),
    st.booleans(),
)
def test_normalizer(texts: list[str], action: str, sensitive: int, stop: list[str], matrix: bool) -> None:
    """Stop words first, then case; what is left keeps its order, and one empty string stands for nothing."""
    x = words(*texts).reshape((1, -1) if matrix else (-1,))
    attributes: dict[str, Any] = {"case_change_action": action, "is_case_sensitive": sensitive, "stopwords": stop}
    (y,) = run("StringNormalizer", [x], opset=10, **attributes)
    fold = str if sensitive else str.lower
    kept = [text for text in texts if fold(text) not in {fold(word) for word in stop}]
    changes: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}
    change = changes[action]
    expected = [change(text) for text in kept] or [""]
    assert y.tolist() == ([expected] if matrix else expected)


@pytest.mark.parametrize("locale", ["en_US", "tr_TR", "no such locale"])
def test_the_locale_does_not_matter(locale: str) -> None:
    """Case is Unicode's everywhere: "i" is "I" in Turkish, too, and "ß" becomes two letters."""
    (y,) = run("StringNormalizer", [words("i", "straße")], opset=10, case_change_action="UPPER", locale=locale)
    assert y.tolist() == ["I", "STRASSE"]


@pytest.mark.parametrize(
    ("x", "attributes", "text"),
    [
        (words("a", "b").reshape(2, 1), {}, "The input has shape [2, 1]"),
        (words("a").reshape(1, 1, 1), {}, "The input has shape [1, 1, 1]"),
        (words("a"), {"case_change_action": "TITLE"}, "case_change_action is 'TITLE'"),
    ],
)
def test_what_does_not_fit_is_refused(x: Any, attributes: dict[str, Any], text: str) -> None:
    """With the numbers, and what to do."""
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        run("StringNormalizer", [x], opset=10, **attributes)
    assert caught.value.fix
