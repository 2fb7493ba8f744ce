"""Suggestions for unknown names."""

from __future__ import annotations

from ort_py.suggestions import close_names, did_you_mean, question


def test_the_closest_comes_first() -> None:
    """At most as many as asked for."""
    assert close_names("inptu", ["output", "input", "inputs"], most=2) == ["input", "inputs"]


def test_case_does_not_count() -> None:
    """Names that differ in nothing else are the closest."""
    assert did_you_mean("RELU", ["Relu", "Elu"]) == "Did you mean 'Relu'?"


def test_what_does_not_count_is_the_callers_to_say() -> None:
    """Names are compared in the form that `fold` gives them."""
    assert close_names("b", ["x.b", "y.c"], fold=lambda name: name[-1]) == ["x.b"]


def test_nothing_close_is_no_question() -> None:
    """The message then says something else."""
    assert did_you_mean("something", ["x"]) == question([]) == ""


def test_several_names_are_one_question() -> None:
    assert question(["a", "b"]) == "Did you mean 'a' or 'b'?"
