"""The types a user sees: right programs pass ``mypy --strict``, wrong lines are found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ort_py

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent / "typing"


def errors_of(program: str, folder: Path) -> dict[int, set[str]]:
    """Errors that a type checker reports for a user's program: error codes by line."""
    (folder / "program.py").write_text(program)
    environment = dict(os.environ)
    home = Path(ort_py.__file__).parents[1]
    if home.name != "site-packages":  # mypy finds installed packages itself, and does not accept a path to them
        environment["MYPYPATH"] = str(home)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "program.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[int, set[str]] = {}
    for line in done.stdout.splitlines():
        match = re.match(r"program\.py:(\d+): error: .*\[([\w-]+)\]$", line)
        if match is not None:
            found.setdefault(int(match[1]), set()).add(match[2])
    assert bool(found) == bool(done.returncode), done.stdout
    return found


def test_right_programs_pass(tmp_path: Path) -> None:
    """Sessions, options, values, asynchronous runs and errors have the types their documentation says."""
    assert errors_of((FOLDER / "user_code.py").read_text(), tmp_path) == {}


def test_every_mistake_is_found(tmp_path: Path) -> None:
    """Each line that is wrong, with its kind, and no line that is right: the types are not all `Any`."""
    program = (FOLDER / "user_mistakes.txt").read_text()
    expected = {
        number: set(line.partition("# error: ")[2].split(","))
        for number, line in enumerate(program.splitlines(), 1)
        if "# error: " in line
    }
    found = errors_of(program, tmp_path)
    assert found.keys() == expected.keys()
    assert [number for number in expected if not found[number] <= expected[number]] == []


def test_package_says_it_is_typed() -> None:
    """The marker of PEP 561 lies beside the package's code, which is what the wheel is made of."""
    assert (Path(ort_py.__file__).parent / "py.typed").is_file()
