"""Models as exporters write them give at all levels what onnxruntime and the NumPy provider give."""

from __future__ import annotations

import pytest

from tests.fuzzing.patterns import PATTERNS, draw_pattern
from tests.fuzzing.runners import run_onnxruntime
from tests.fuzzing.verdict import VARIANTS, judge

SEEDS = 6


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_patterns_are_computed_alike(name: str) -> None:
    """Unoptimised, basic, all, and all with NumPy alone; most of what is drawn is computed by onnxruntime, too."""
    known = 0
    for seed in range(SEEDS):
        case = draw_pattern(name, seed)
        found = [str(one) for one in judge(case, (*VARIANTS[:3], VARIANTS[6])) if one.kind != "disputed"]
        assert not found, f"{case.about}\n" + "\n".join(found)
        known += run_onnxruntime(case)[0].outputs is not None
    assert known > SEEDS / 2
