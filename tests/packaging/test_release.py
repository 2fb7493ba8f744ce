"""`scripts/release.py` as the release workflow calls it, but dry: every sdist and wheel, and a prepared version."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
from environment import ensure_tools
from release import prepare, unready
from workspace import ROOT, distributions, read_version

from tests.support.fresh_environment import make_environment
from tests.support.workspace_copy import commit_all, copied_settings

pytestmark = [
    pytest.mark.packaging,
    pytest.mark.nightly,
    pytest.mark.xdist_group("release"),
]  # both make one environment


def test_a_dry_run_builds_and_checks_everything(tmp_path: Path) -> None:
    """Two builds agree, the checks find nothing, the sums are right, and a wheel comes out of every sdist."""
    command = [sys.executable, str(ROOT / "scripts/release.py"), "build", "--dry-run", "--out", str(tmp_path)]
    outcome = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert "Problems: 0." in outcome.stdout
    files = sorted((tmp_path / "packages").iterdir())
    sums = (tmp_path / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    assert sums == [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    more = sum(len(names) for one in distributions() for names in one.platforms.values())
    assert len(files) == 2 * len(distributions()) + more


def test_a_prepared_version_is_ready_once_it_is_committed(tmp_path: Path) -> None:
    """The fragments become a section by distribution and type, and the tag of the new version is accepted."""
    root = copied_settings(tmp_path / "repository")
    fragments = {
        "1-one.added.md": "ort-py-cpu: A point that goes on\n  in a second line.\nort-py-core: Another one.\n",
        "word.fixed.md": "ort-py-core: A defect.\n",
    }
    for name, text in fragments.items():
        (root / "docs/changes" / name).write_text(text, encoding="utf-8")
    commit_all(root)
    said = prepare("7.8.9", ensure_tools("release"), root)
    assert said[0] == "2 change fragments became the section 7.8.9 of CHANGELOG.md."
    log = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = log.partition("## 7.8.9 (")[2].partition("\n## ")[0].partition(")\n")[2].rstrip()
    assert section == (
        "\n### ort-py-core\n\n#### Added\n\n- Another one.\n\n#### Fixed\n\n- A defect.\n"
        "\n### ort-py-cpu\n\n#### Added\n\n- A point that goes on\n  in a second line."
    )
    assert sorted(file.name for file in (root / "docs/changes").iterdir()) == ["README.md", "template.jinja"]
    commit_all(root)
    assert (read_version(root), unready("v7.8.9", root)) == ("7.8.9", [])


def test_a_wheel_from_an_sdist_has_the_version(wheels: dict[str, Path], tmp_path: Path) -> None:
    """An sdist holds its own folder only; the version that is written elsewhere comes with its metadata."""
    tools = ensure_tools("release")
    command = [str(tools), "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT / "providers/cpu")]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    environment = make_environment(tmp_path / "env")
    environment.install("--no-deps", wheel)
    outcome = environment.run("import importlib.metadata as m; print(m.version('ort-py-cpu'))")
    assert outcome.stdout.strip() == read_version()
    assert wheel.name == wheels["ort-py-cpu"].name
