"""Values in a few numbers, and saving them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.cli.output import plain, shape_text, table, time_text
from ort_py.cli.summaries import save_values, summarise, summary_text


def test_numbers() -> None:
    """Type, shape, range and the first values."""
    summary = summarise("y", np.arange(6, dtype=np.int64).reshape(2, 3))
    assert summary == {
        "name": "y",
        "kind": "tensor",
        "dtype": "int64",
        "shape": [2, 3],
        "first": [0, 1, 2, 3, 4],
        "min": 0.0,
        "mean": 2.5,
        "max": 5.0,
    }


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, np.float16])
def test_types_numpy_lacks(dtype: Any) -> None:
    """Every element type has a range."""
    summary = summarise("y", np.array([1, 2, 3], dtype))
    assert (summary["min"], summary["max"], summary["first"]) == (1.0, 3.0, [1.0, 2.0, 3.0])


def test_scores_have_a_best_five() -> None:
    """One row of floats is shown best first; equal ones in their order."""
    summary = summarise("y", np.array([[0.1, 0.5, 0.0, 0.5, 0.2, 0.3]], np.float32))
    assert [index for index, _ in summary["top"]] == [1, 3, 5, 4, 0]


@pytest.mark.parametrize("value", [np.zeros((2, 5), np.float32), np.zeros(5, np.int64), np.zeros((), np.float32)])
def test_what_is_no_row_of_scores(value: np.ndarray[Any, Any]) -> None:
    """Several rows, integers and scalars have no best."""
    assert "top" not in summarise("y", value)


def test_nan_is_valid_json() -> None:
    assert summarise("y", np.array([np.nan], np.float32))["min"] == "nan"


def test_empty_tensor() -> None:
    summary = summarise("y", np.zeros((0, 3), np.float32))
    assert (summary["shape"], summary["first"]) == ([0, 3], [])
    assert summary_text(summary) == "  y: float[0, 3]"


def test_strings_are_quoted() -> None:
    assert "values: 'a', 'b'" in summary_text(summarise("y", np.array(["a", "b"], object)))


def test_sequences_show_their_elements() -> None:
    """A sequence says how many, and what the first are."""
    text = summary_text(summarise("y", [np.zeros(2, np.float32)] * 7))
    assert text.startswith("  y: sequence of 7\n    y[0]: float[2]")
    assert "y[5]" not in text


def test_maps_show_their_entries() -> None:
    """A map says how many, and what the first are."""
    assert summary_text(summarise("y", {"a": 0.5})) == "  y: map of 1 {'a': 0.5}"


def test_empty_optional() -> None:
    """None is said to be empty."""
    assert summary_text(summarise("y", None)) == "  y: empty"


def test_names_from_the_model_stay_in_the_folder(tmp_path: Path) -> None:
    """A name that looks like a path is made a file name."""
    (path,) = save_values(tmp_path / "out", [("../../x/y:0", np.zeros(1))])
    assert path.parent == tmp_path / "out"
    assert path.name == "_.._x_y_0.npy"


def test_two_names_never_share_a_file(tmp_path: Path) -> None:
    """Names that become equal get numbers."""
    paths = save_values(tmp_path, [("a/b", np.zeros(1)), ("a:b", np.ones(1))])
    assert [path.name for path in paths] == ["a_b.npy", "a_b.2.npy"]
    assert np.load(paths[1]).tolist() == [1]


def test_maps_are_not_saved(tmp_path: Path) -> None:
    assert save_values(tmp_path, [("y", {"a": 1}), ("z", None)]) == []


def test_table_is_aligned() -> None:
    """Columns start at the same place; the last one is not cut."""
    assert table(("a", "b"), [("long", "x"), ("s", "y" * 100)], indent="") == f"a     b\nlong  x\ns     {'y' * 100}"


def test_long_cells_are_cut() -> None:
    """A long name does not push the others away."""
    assert table(("a", "b"), [("x" * 100, "y")], indent="", width=5).splitlines()[1] == "xxxx…  y"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("inf"), "inf"),
        (np.float32(1.5), 1.5),
        (b"\xff", "\\xff"),
        (1 + 2j, [1.0, 2.0]),
        ({1: (2, None)}, {"1": [2, None]}),
    ],
)
def test_plain_values(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_times_and_shapes_are_readable() -> None:
    assert [time_text(seconds) for seconds in (2, 0.0123, 0.000012)] == ["2.00 s", "12.30 ms", "12 µs"]
    assert [shape_text(shape) for shape in (None, [], ["N", None, 3])] == ["[…]", "[]", "[N, ?, 3]"]
