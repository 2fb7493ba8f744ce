"""A bounded, seeded part of each search; `scripts/fuzz.py` searches further.

Children do the work, so that a signal or a hang is a finding and not the end of the tests.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fuzzing.campaign import ROOT, Campaign


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "count", "settings"),
    [("graphs", 150, {"shrink_seconds": 0.0}), ("mutants", 150, {}), ("attacks", 160, {})],
)
def test_seeds_find_nothing(work: str, count: int, settings: dict[str, object]) -> None:
    """No wrong value, no signal, no hang, no exception without a type."""
    report = Campaign(work, 0, count, settings=settings).run()
    found = [one for one in report.found if one["kind"] not in {"disputed", "peer"}]
    assert report.done == count
    shown = "\n\n".join(f"seed {one['seed']}: {one['finding']}\n{one.get('code', '')}" for one in found[:3])
    assert not found, f"{len(found)} findings of {work}:\n{shown}"
    if work == "graphs":
        assert report.counts["sessions with regions"] > count / 3, "compiled regions were hardly met"


@pytest.mark.slow
@pytest.mark.redundant(one_in=3)  # one command, which gives its option to each kind of search
@pytest.mark.parametrize("work", ["graphs", "mutants", "attacks"])
def test_searches_take_providers(work: str) -> None:
    """With a provider that does not exist, no session is made: each search says so in its own way."""
    given = [work, "--graphs", "6", "--seed", "3", "--shrink", "0", "--providers", "NobodyExecutionProvider"]
    command = [sys.executable, str(ROOT / "scripts/fuzz.py"), *given]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ("{'refused at load': 6}" if work == "mutants" else "called 'NobodyExecutionProvider'") in said.stdout
