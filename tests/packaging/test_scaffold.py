"""What `ort-py new` writes, unedited: clean to linter and type checker, built, installed, and passing its own tests.

A provider is made by the tutorial's test; here are the other kinds, in one environment, and names of all lengths.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ort_py.scaffold import KINDS, package_files, package_names, write_package
from tests.support.fresh_environment import Environment, build_wheel

pytestmark = pytest.mark.packaging

WORDS = ("a", "acme-" + "x" * 35)


def _written(kind: str, word: str, folder: Path) -> Path:
    write_package(folder, package_files(kind, package_names(word)))
    return folder


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_linter_has_nothing_to_say(kind: str, word: str, tmp_path: Path) -> None:
    """Neither on style nor on form, however long the name."""
    folder = _written(kind, word, tmp_path / "package")
    for arguments in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache"]
        outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_type_checker_has_nothing_to_say(kind: str, tmp_path: Path) -> None:
    """In its strict mode, the package's tests included."""
    folder = _written(kind, "acme", tmp_path / "package")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path.parent / "mypy")]
    outcome = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.fixture(scope="module")
def others(tested: Environment, tmp_path_factory: pytest.TempPathFactory) -> tuple[Environment, dict[str, Path]]:
    """An environment with a package of each other kind installed from its wheel, and their folders."""
    root = tmp_path_factory.mktemp("scaffold")
    folders = {kind: _written(kind, f"acme-{kind}", root / kind) for kind in KINDS if kind != "provider"}
    for kind, folder in folders.items():
        (root / f"{kind}-wheel").mkdir()
        tested.install("--no-deps", build_wheel(str(folder), root / f"{kind}-wheel"))
    return tested, folders


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "provider"])
def test_its_tests_pass(others: tuple[Environment, dict[str, Path]], kind: str) -> None:
    """As they were written, with all kinds installed side by side."""
    environment, folders = others
    outcome = environment.pytest(folders[kind])
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
