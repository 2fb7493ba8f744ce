"""Problems of a model and the class they are raised by."""

from __future__ import annotations

import pytest

from ort_py.errors import DanglingInputError, Fail, InconsistentGraph, InvalidArgument, InvalidGraph
from ort_py.graph.checking.problems import Problem, raise_problems


def raised(*problems: str) -> InvalidGraph:
    """The error that some problems give."""
    with pytest.raises(InvalidGraph) as caught:
        raise_problems(problems, "It is wrong.", "model.onnx", "Export it again.")
    return caught.value


def test_without_a_problem_nothing_is_raised() -> None:
    raise_problems([], "It is wrong.", "", "")


def test_the_first_problem_names_the_class() -> None:
    """Plain texts are InvalidGraph; all problems are listed."""
    cycle = Problem("a cycle", InconsistentGraph)
    assert type(raised("a text", cycle)) is InvalidGraph
    error = raised(cycle, "a text")
    assert (type(error), error.why, error.location.file) == (InconsistentGraph, ("a cycle", "a text"), "model.onnx")


@pytest.mark.parametrize(("kind", "caught"), [(InconsistentGraph, Fail), (DanglingInputError, InvalidArgument)])
def test_classes_are_caught_as_onnxruntimes(kind: type[InvalidGraph], caught: type[Exception]) -> None:
    """Both by what the specification calls them and by what onnxruntime raises."""
    assert isinstance(raised(Problem("wrong", kind)), caught)


def test_many_problems_are_counted() -> None:
    why = raised(*(f"problem {number}" for number in range(25))).why
    assert (len(why), why[-1]) == (21, "and 5 more")
