"""Check the change fragments in `docs/changes/`; with `--staged`, that a change of a package brings one.

A fragment is `docs/changes/<id>.<type>.md`: the name of a distribution, a colon, and what its user notices. Standard
library only: runs as a commit hook and in CI before anything is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "changes"
TYPES = tuple(
    one["directory"]
    for one in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]["type"]
)
"""The types of fragments that towncrier collects."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\.(?P<type>[a-z]+)\.md")
_SOURCE = re.compile(r"^(core|providers/[^/]+)/src/")


def fragments(root: Path = ROOT) -> list[Path]:
    """The files that wait for the next release, in order."""
    folder = root / FOLDER.relative_to(ROOT)
    return sorted(file for file in folder.iterdir() if file.name not in {"README.md", "template.jinja"})


def problems_of(file: Path) -> list[str]:
    """List the problems of one fragment; empty if there are none."""
    match = _NAME.fullmatch(file.name)
    if match is None:
        return [f"{file.name}: a fragment is called <id>.<type>.md, e.g. 2.added.md"]
    problems = []
    if match["type"] not in TYPES:
        problems.append(f"{file.name}: type '{match['type']}' is not one of {', '.join(TYPES)}")
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if line and not re.match(r"[a-z][a-z0-9-]*: \S|  \S", line):
            problems.append(f"{file.name}:{number}: begin with a distribution and a colon, or indent a continued line")
    if not file.read_text(encoding="utf-8").strip():
        problems.append(f"{file.name}: is empty; say in one sentence what the user notices")
    return problems


def staged_problems() -> list[str]:
    """A problem where packages' sources are staged and no fragment is."""
    command = ["git", "diff", "--cached", "--name-only"]
    staged = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    if any(_SOURCE.match(name) for name in staged) and not any(name.startswith("docs/changes/") for name in staged):
        return ["sources of a package are staged but no fragment in docs/changes/; see docs/changes/README.md"]
    return []


def main(arguments: list[str]) -> int:
    """Print every problem; returns 1 where there is one."""
    problems = [problem for file in fragments() for problem in problems_of(file)]
    if "--staged" in arguments:
        problems += staged_problems()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
