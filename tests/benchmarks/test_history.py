"""The form of the figures that are kept for a history."""

from __future__ import annotations

import pytest

from benchmarks.history import MODELS, entries
from examples.model_zoo import by_name


def test_figures_have_a_name_a_unit_and_a_value() -> None:
    """The mean is that of the runs of models: neither of sessions nor of single nodes."""
    figures = [("a: a run", 0.5), ("a: a new session", 9.0), ("b: a run", 2.0), ("one node: a run", 7.0)]
    found = entries(figures)
    assert [one["name"] for one in found] == [*(name for name, _ in figures), "geometric mean of the models: a run"]
    assert [one["value"] for one in found] == [0.5, 9.0, 2.0, 7.0, pytest.approx(1.0)]
    assert {one["unit"] for one in found} == {"× onnxruntime"}


def test_no_figures_have_no_mean() -> None:
    """A history of nothing is empty."""
    assert entries([]) == []


def test_its_models_exist() -> None:
    """Each is a name of the catalogue."""
    assert [by_name(name).name for name in MODELS] == list(MODELS)
