"""`docs/operators.md` says what the installed schemas and the providers' kernels say."""

from __future__ import annotations

from importlib.metadata import version

import operator_table
import pytest


def test_the_page_is_current() -> None:
    """Written again it is the same; on another onnx than the one it names, whose schemas differ, it cannot be."""
    text = operator_table.TARGET.read_text(encoding="utf-8")
    named = text.partition("schemas of onnx ")[2].split(" ")[0]
    if named != version("onnx"):
        pytest.skip(f"the page is of onnx {named}, installed is {version('onnx')}")
    assert text == operator_table.page(), "run `python -m scripts.operator_table`"


def test_every_operator_has_a_row_that_names_a_runner() -> None:
    """No operator of ONNX is without a kernel in a provider of this repository, or a step of the engine."""
    rows = [line for line in operator_table.page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(operator_table.operators())
    assert not [row for row in rows if row.endswith("| – |")]
