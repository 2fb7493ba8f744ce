"""The short forms in which a side of a comparison is written."""

from __future__ import annotations

from typing import Any

import pytest

import ort_py
from ort_py.dtypes import DataType
from ort_py.inspection.comparison.configuration import SessionConfiguration, configuration_of, feeds_of, tolerances_of

LEVEL = ort_py.GraphOptimizationLevel


def options(level: LEVEL = LEVEL.ORT_ENABLE_ALL) -> ort_py.SessionOptions:
    """Options of a level."""
    made = ort_py.SessionOptions()
    made.graph_optimization_level = level
    return made


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("basic", "all usable providers at ORT_ENABLE_BASIC"),
        (LEVEL.ORT_DISABLE_ALL, "all usable providers at ORT_DISABLE_ALL"),
        ("XExecutionProvider", "XExecutionProvider at ORT_ENABLE_ALL"),
        (["AExecutionProvider", ("B", {"k": "v"})], "AExecutionProvider, B at ORT_ENABLE_ALL"),
        (options(LEVEL.ORT_ENABLE_EXTENDED), "all usable providers at ORT_ENABLE_EXTENDED"),
        (SessionConfiguration(options(LEVEL.ORT_ENABLE_BASIC), ["A"]), "A at ORT_ENABLE_BASIC"),
    ],
)
def test_forms(given: Any, text: str) -> None:
    """Levels, names, lists, options, and both."""
    assert str(configuration_of(given, "a")) == text


def test_a_misspelt_level() -> None:
    with pytest.raises(ort_py.InvalidArgument, match=r"b='extendet' is neither.*\n.*\n.*Did you mean 'extended'"):
        configuration_of("extendet", "b")


def test_a_word_that_is_no_name() -> None:
    """The error lists the providers' names and shows how to name one with a different name."""
    with pytest.raises(ort_py.InvalidArgument, match="names of providers end in ExecutionProvider") as caught:
        configuration_of("gpu", "a")
    assert "a=['gpu']" in caught.value.fix


def test_another_object() -> None:
    with pytest.raises(TypeError, match="a cannot be a int"):
        configuration_of(3, "a")  # type: ignore[arg-type]  # what is tested


def test_sessions_for_examining_leave_no_trace() -> None:
    """They write no model and no profile and do not use the cache; the caller's options stay as they are."""
    given = options()
    given.optimized_model_filepath, given.enable_profiling = "out.onnx", True
    used = SessionConfiguration(given).settings()
    assert (used.optimized_model_filepath, used.enable_profiling, used.cache_dir) == ("", False, "off")
    assert (given.optimized_model_filepath, given.enable_profiling) == ("out.onnx", True)


def test_transforms_are_switched_off_besides() -> None:
    """Those that the options switch off stay off."""
    given = options()
    given.disabled_transforms = ["A"]
    used = SessionConfiguration(given).at(LEVEL.ORT_ENABLE_BASIC, ["B"]).settings()
    assert (tuple(used.disabled_transforms), used.graph_optimization_level) == (("A", "B"), LEVEL.ORT_ENABLE_BASIC)


def test_no_feeds() -> None:
    """An empty list is a mistake."""
    with pytest.raises(ort_py.InvalidArgument, match="There are no feeds to compare with"):
        feeds_of([], [], 0)


@pytest.mark.parametrize("given", ["x", 3, [1]])
def test_feeds_that_are_none(given: Any) -> None:
    with pytest.raises(TypeError, match="a feed must be a mapping of input names to values"):
        feeds_of(given, [], 0)


def test_tolerances_replace_entries() -> None:
    """Others stay as in the table."""
    table = tolerances_of({"uint8": (0, 1), "float": (1e-2, 1e-3)})
    assert table[DataType.UINT8] == (0.0, 1.0)
    assert table[DataType.FLOAT] == (1e-2, 1e-3)
    assert table[DataType.DOUBLE] == (1e-9, 1e-11)


def test_a_tolerance_of_no_type() -> None:
    """With the one that is meant."""
    with pytest.raises(ort_py.InvalidArgument, match=r"element type 'float61'(.|\n)*Did you mean 'float16'"):
        tolerances_of({"float61": (0, 0)})


@pytest.mark.parametrize("pair", [1e-3, (1, 2, 3), (-1, 0), ("a", "b"), (float("nan"), 0)])
def test_a_tolerance_that_is_none(pair: Any) -> None:
    with pytest.raises(ort_py.InvalidArgument, match="a tolerance is a pair of a relative and an absolute error"):
        tolerances_of({"float": pair})
