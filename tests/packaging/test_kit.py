"""The conformance kit from wheels alone: one command gives a report and the support table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.fresh_environment import Environment
from tests.support.source_tree import ROOT

pytestmark = pytest.mark.packaging

CPU = "CPUExecutionProvider"


def test_the_command_reports_and_writes_the_table(tested: Environment, tmp_path: Path) -> None:
    """As the documentation has it, on a part of the tests; pytest finds the options without a configuration."""
    table = tmp_path / "support.md"
    known = tmp_path / "known.txt"  # a copy: with a path in the repository, pytest would read the repository's options
    known.write_text((ROOT / "tests" / "kit" / "cpu.xfail.txt").read_text(encoding="utf-8"), encoding="utf-8")
    kit = ["--pyargs", "ort_py.testing", "--provider", CPU, "--support-table", str(table)]
    kit += ["--expected-failures", str(known)]
    outcome = tested.script("pytest", *kit, "--shard", "1/12", ORT_PY_BLOCK_PROVIDERS="ort-py-observer")
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr
    counted = re.search(
        rf"{CPU}: (\d+) ONNX cases, runs nodes of \1 \((\d+) operators\); 0 not run; 0 fail", outcome.stdout
    )
    assert counted is not None, outcome.stdout[-1000:]
    cases, operators = map(int, counted.groups())
    assert cases > 100
    assert f"The support table is in {table}." in outcome.stdout
    rows = [line for line in table.read_text(encoding="utf-8").splitlines() if re.match(r"\| \w+ \| ai\.onnx", line)]
    assert len(rows) >= operators - 5  # operators of other domains have rows too
