"""The page "Your first provider": followed to the letter, in an empty environment, with nothing but wheels.

A block ```` ```python file=PATH ```` is a file to write, a ``sh`` block commands that have to succeed, in one shell for
the whole page; a ``text`` block behind it holds what has to be in the lines they print, however it is spaced.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.skipif(sys.platform == "win32", reason="the page's commands are those of a POSIX shell"),
]

PAGE = ROOT / "docs" / "plugin-author" / "first-provider.md"
_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: file=(?P<file>\S+))?\n(?P<text>.*?)^```$", re.M | re.S)
_MARK = "=== block"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    kind: str
    file: str
    text: str


def _blocks() -> list[Block]:
    found = _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))
    return [Block(match["kind"], match["file"] or "", match["text"]) for match in found]


def _script(blocks: list[Block]) -> str:
    """The page as one shell script: later commands see what earlier ones activated and where they went."""
    lines = ["set -eu"]
    for number, block in enumerate(blocks):
        if block.kind == "sh":
            lines += [f"echo '{_MARK} {number}'", block.text]
        elif block.file:
            lines += [f"cat > {block.file} <<'END OF FILE'", f"{block.text}END OF FILE"]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def printed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Output of each block of commands; pip finds the distributions of this repository among the wheels."""
    folder = tmp_path_factory.mktemp("tutorial")
    hidden = ("PYTHONPATH", "ORT_PY_", "VIRTUAL_ENV", "PIP_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    places = [str(wheels["ort-py-core"].parent), settings.get("PIP_FIND_LINKS", "")]
    settings["PIP_FIND_LINKS"] = " ".join(places).strip()
    settings["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    # `python3` of the page is the one that runs the tests.
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(sys.executable)
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
    outcome = subprocess.run(
        ["sh", "-c", _script(_blocks())],
        cwd=folder,
        env=environment | settings,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr[-4000:]
    parts = re.split(rf"^{_MARK} (\d+)$", outcome.stdout, flags=re.M)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.nightly  # a minute of pip on a slow machine
def test_the_page_can_be_followed(printed: dict[int, str]) -> None:
    """Every command succeeds, and prints what the page says."""
    blocks = _blocks()
    for number, block in enumerate(blocks):
        if block.kind != "text":
            continue
        last = max(index for index in printed if index < number)
        words = " ".join(printed[last].split())
        missing = [line for line in block.text.splitlines() if " ".join(line.split()) not in words]
        assert missing == [], printed[last]


def test_the_page_shows_what_it_promises() -> None:
    """Commands, files and results of each step are there to be followed."""
    kinds = [block.kind for block in _blocks()]
    assert kinds.count("sh") == 6
    assert kinds.count("text") == 5
    assert [block.file for block in _blocks() if block.file][-1] == "tests/test_activations.py"
