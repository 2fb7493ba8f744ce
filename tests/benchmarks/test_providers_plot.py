"""The picture of `benchmarks.providers` shows the tables of its page."""

from __future__ import annotations

from pathlib import Path

from benchmarks.providers_plot import drawn, main, series_of

DOCS = Path(__file__).resolve().parents[2] / "docs/benchmarks"

PAGE = """# Page

## Here

| model | one thread | by onnxruntime | by the faster | two threads | by onnxruntime | by the faster |
|---|--:|--:|--:|--:|--:|--:|
| first | 1.000 | 0.50 | 0.80 | 2.000 | 0.25 | – |

| model | before |
|---|--:|
| other | 3.0 |

## There

| model | ort-py | by onnxruntime | by the faster |
|---|--:|--:|--:|
| second | 1.000 | 1.25 | 1.25 |
"""


def test_tables_are_read_with_their_headings_and_threads() -> None:
    found = [(one.place, one.threads, one.ratios) for one in series_of(PAGE)]
    assert found == [
        ("Here", 1, {"by onnxruntime": {"first": 0.5}, "by the faster": {"first": 0.8}}),
        ("Here", 2, {"by onnxruntime": {"first": 0.25}, "by the faster": {}}),
        ("There", 1, {"by onnxruntime": {"second": 1.25}, "by the faster": {"second": 1.25}}),
    ]


def test_marks_tell_the_speed() -> None:
    """The speed is the inverse of the ratio of times."""
    picture = drawn(series_of(PAGE))
    for told in (
        "first, Here, 1 thread(s): 2.00",
        "first, Here, 2 thread(s): 4.00",
        "second, There, 1 thread(s): 0.80",
    ):
        assert f"<title>{told}</title>" in picture
    assert "other" not in picture


def test_the_picture_of_the_documentation_is_that_of_its_page(tmp_path: Path) -> None:
    made = tmp_path / "made.svg"
    assert main([str(DOCS / "onednn.md"), str(made)]) == 0
    assert made.read_text("utf-8") == (DOCS / "onednn.svg").read_text("utf-8")
