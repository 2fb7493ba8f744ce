"""The user's arguments in all their shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.discovery import ProviderRequest, parse_request
from ort_py.errors import ArgumentTypeError, OptionError


@pytest.mark.parametrize("providers", [None, [], ()])
def test_nothing_asked(providers: Any) -> None:
    """None and an empty list leave the choice to ort-py."""
    assert parse_request(providers) is None
    assert parse_request(providers, [{}]) is None


def test_environment_counts_where_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ORT_PY_PROVIDERS`` replaces the automatic choice and never an explicit one."""
    monkeypatch.setenv("ORT_PY_PROVIDERS", "B,A")
    assert parse_request(None) == [ProviderRequest("B"), ProviderRequest("A")]
    assert parse_request(["C"]) == [ProviderRequest("C")]


def test_names_and_pairs() -> None:
    """The two forms mix; order is kept."""
    assert parse_request(["B", ("A", {"x": 1})]) == [ProviderRequest("B"), ProviderRequest("A", {"x": 1})]


def test_options_beside_names() -> None:
    assert parse_request(("A", "B"), [{"x": 1}, {}]) == [ProviderRequest("A", {"x": 1}), ProviderRequest("B")]


def test_duplicates_are_named_once() -> None:
    """The first counts; a warning says so."""
    with pytest.warns(UserWarning, match="The provider A is named twice") as caught:
        assert parse_request([("A", {"x": 1}), "B", "A"]) == [ProviderRequest("A", {"x": 1}), ProviderRequest("B")]
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("providers", "options", "text"),
    [
        ("CPUExecutionProvider", None, "Pass a list: providers=['CPUExecutionProvider']"),
        ({"A", "B"}, None, "providers is a set"),
        ({"A": {}}, None, "providers is a dict"),
        ([3], None, "providers contains 3"),
        ([("A",)], None, "providers contains ('A',)"),
        ([("A", 1)], None, "providers contains ('A', 1)"),
        ([("A", {}, 1)], None, "providers contains ('A', {}, 1)"),
        (["A"], {"x": 1}, "provider_options is a dict"),
        (["A"], [1], "provider_options contains 1"),
        (["A"], [{}, {}], "provider_options has 2 entries and providers has 1"),
        ([("A", {"x": 1})], [{"y": 1}], "Options are given twice"),
        (None, [{"x": 1}], "provider_options is given without providers"),
    ],
)
def test_shapes_that_cannot_be_meant(providers: Any, options: Any, text: str) -> None:
    """Refused with what to write instead."""
    with pytest.raises(OptionError) as caught:
        parse_request(providers, options)
    assert text in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize("providers", [3, 1.5, True, object()])
def test_nothing_to_go_through(providers: Any) -> None:
    """An argument that is not a list is a TypeError, as in onnxruntime."""
    with pytest.raises(ArgumentTypeError, match=r"(?s)providers is .*Pass a list of names or of") as caught:
        parse_request(providers)
    assert isinstance(caught.value, TypeError)


def test_options_that_are_no_list() -> None:
    options: Any = 3
    with pytest.raises(OptionError, match="provider_options is a int"):
        parse_request(["A"], options)


def test_names_from_numpy_are_plain_texts() -> None:
    """An array of names gives plain texts, which is what `get_providers` returns then."""
    found = parse_request(np.array(["A", "B"]))
    assert found is not None
    assert [type(request.name) for request in found] == [str, str]
