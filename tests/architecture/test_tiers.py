"""The selection of tests for a tier: `conftest.py` of the repository over a small folder of tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = """
import pytest

@pytest.mark.parametrize("row", range(20))
def test_plain(row): ...

@pytest.mark.parametrize("row", range(60))
def test_long(row): ...

@pytest.mark.parametrize("row", range(60))
def test_operator_version(row): ...

@pytest.mark.redundant(one_in=3)
@pytest.mark.parametrize("row", range(60))
def test_redundant(row): ...

@pytest.mark.nightly
def test_nightly(): ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The first module of a folder, a module that is marked as slow, and thirty others."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_0.py").write_text(TABLE, encoding="utf-8")
    marked = "import pytest\npytestmark = [pytest.mark.slow]\ndef test_slow(): ...\n"
    (tmp_path / "test_1.py").write_text(marked, encoding="utf-8")
    for number in range(30):
        (tmp_path / f"test_other_{number}.py").write_text("def test_other(): ...\n", encoding="utf-8")
    return tmp_path


def _collected(folder: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-W", "ignore", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split("::")[1] for line in done.stdout.splitlines() if "::" in line]


def _count(found: list[str], name: str) -> int:
    return sum(one.split("[")[0] == name for one in found)


def test_without_a_choice_everything_is_there(folder: Path) -> None:
    """A test that is chosen by its path runs with all rows."""
    found = _collected(folder)
    assert len(found) == 20 + 60 + 60 + 60 + 1 + 1 + 30


def test_ci_leaves_out_nightly_tests_and_redundant_rows(folder: Path) -> None:
    """About a third of the rows of those and of long tables stay, the same each time; other tables are whole."""
    found = _collected(folder, "-m", "not gpu and not nightly")
    assert (_count(found, "test_plain"), _count(found, "test_nightly")) == (20, 0)
    assert 10 <= _count(found, "test_redundant") <= 30
    assert 10 <= _count(found, "test_long") <= 30
    assert _count(found, "test_operator_version") == 60
    assert (_count(found, "test_slow"), _count(found, "test_other")) == (1, 30)
    assert sorted(found) == sorted(_collected(folder, "-m", "not gpu and not nightly"))


def test_quick_is_a_sample(folder: Path) -> None:
    """One row of each table of the first module, a few of the others, nothing that is marked as slow."""
    found = _collected(folder, "-m", "quick")
    assert (_count(found, "test_plain"), _count(found, "test_redundant")) == (1, 1)
    assert _count(found, "test_slow") == _count(found, "test_nightly") == 0
    assert 0 < _count(found, "test_other") < 10
