"""Random graphs compute at every level what they compute unoptimised."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import onnx
import pytest

from tests.property.graphs import models
from tests.property.levels import FOUND, difference, read


@hypothesis.given(models())
@hypothesis.settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_levels_agree(model: onnx.ModelProto) -> None:
    """ORT_ENABLE_ALL equals ORT_DISABLE_ALL; `scripts/search_differences.py` searches further."""
    assert difference(model) == ""


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.onnxtxt")), ids=lambda path: path.stem)
def test_what_was_found_stays_fixed(path: Path) -> None:
    """Models on which levels once differed, shrunk to what mattered."""
    assert difference(read(path)) == ""
