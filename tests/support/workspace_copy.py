"""A copy of the repository's settings, in which tests change versions and prepare releases."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from workspace import ROOT, distributions, examples

__all__ = ["commit_all", "copied_settings"]


def copied_settings(target: Path) -> Path:
    """Copy each pyproject.toml, the file with the version, and the change log without fragments; return `target`."""
    files = ["core/src/ort_py/__init__.py", "CHANGELOG.md", "docs/changes/README.md", "docs/changes/template.jinja"]
    files += [f"{one.folder}/pyproject.toml" for one in [*distributions(), *examples()]]
    for name in files:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)
    return target


def commit_all(root: Path) -> None:
    """Make the folder a git repository where it is none, and commit all that is in it."""
    author = ["-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false"]
    for command in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "--message", "state"]):
        subprocess.run(["git", *command], cwd=root, check=True, capture_output=True)
