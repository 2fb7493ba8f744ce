"""The conformance kit from wheels alone: one command gives a report and the support table, and the core without the kit
adds nothing to pytest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.fresh_environment import Environment
from tests.support.source_tree import ROOT

pytestmark = pytest.mark.packaging

CPU = "CPUExecutionProvider"


def test_the_command_reports_and_writes_the_table(tested: Environment, tmp_path: Path) -> None:
    """The command runs as documented, on a part of the tests; pytest finds the options without a configuration."""
    table = tmp_path / "support.md"
    known = tmp_path / "known.txt"  # a copy: with a path in the repository, pytest would read the repository's options
    known.write_text((ROOT / "tests" / "kit" / "cpu.xfail.txt").read_text(encoding="utf-8"), encoding="utf-8")
    kit = ["--pyargs", "ort_py_kit", "--provider", CPU, "--support-table", str(table)]
    kit += ["--expected-failures", str(known)]
    outcome = tested.script("pytest", *kit, "--shard", "1/12", ORT_PY_BLOCK_PROVIDERS="ort-py-observer")
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr
    counted = re.search(
        rf"{CPU}: (\d+) ONNX cases, runs nodes of (\d+) \((\d+) operators\); 0 not run; 0 fail", outcome.stdout
    )
    assert counted is not None, outcome.stdout[-1000:]
    cases, ran, operators = map(int, counted.groups())
    assert cases > 100
    assert ran >= cases - 2  # a case of a Constant alone has no node left to run
    assert f"The support table is in {table}." in outcome.stdout
    rows = [line for line in table.read_text(encoding="utf-8").splitlines() if re.match(r"\| \w+ \| ai\.onnx", line)]
    assert len(rows) >= operators - 5  # operators of other domains have rows too


def test_the_core_alone_adds_nothing_to_pytest(core_only: Environment) -> None:
    """pytest of an ort-py user loads no plug-in of ours; the old name of the kit says which package has it."""
    code = """
from importlib.metadata import entry_points
print([entry.value for entry in entry_points(group="pytest11") if "ort_py" in entry.value])
try:
    import ort_py.testing
except ImportError as error:
    print(error)
"""
    outcome = core_only.run(code)
    assert outcome.stdout.startswith("[]\n"), outcome.stderr
    assert "`pip install ort-py-kit`" in outcome.stdout


def test_new_plugins_come_with_the_kit(core_only: Environment, tested: Environment) -> None:
    """`ort-py new` is a command where the kit is installed, and elsewhere an error that names the kit."""
    assert "pip install ort-py-kit" in core_only.script("ort-py", "new", "provider", "acme").stderr
    assert "begin a plug-in" in tested.script("ort-py", "--help").stdout
