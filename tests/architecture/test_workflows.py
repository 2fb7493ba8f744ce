"""The files of `.github/`: they fit their schemas, call the repository's own commands, and pin what they use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from workspace import ROOT

FOLDER = ROOT / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
FORMS = sorted(file for file in (FOLDER / "ISSUE_TEMPLATE").glob("*.yml") if file.name != "config.yml")
OWN = (
    "bash .ci/run",
    "python scripts/",
    ".venv/bin/python scripts/",
    ".venv/bin/python -m benchmarks.",
    "sha256sum ",
    "sudo apt-get ",  # what a script asks for
)


def _jobs(file: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = YAML(typ="safe", pure=True).load(file)["jobs"]
    return jobs


def _steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in _jobs(file).values() for step in job.get("steps", ())]


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.github-issue-forms", FORMS),
        ("vendor.github-issue-config", [FOLDER / "ISSUE_TEMPLATE/config.yml"]),
        ("vendor.dependabot", [FOLDER / "dependabot.yml"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_fit_their_schemas(schema: str, files: list[Path]) -> None:
    """The host of the project refuses others, and says so only once they are there."""
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    outcome = subprocess.run(command, check=False, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_workflows_call_the_commands_of_the_repository(file: Path) -> None:
    """Jobs can be reproduced on any machine, since the YAML repeats nothing."""
    commands = [step["run"] for step in _steps(file) if "run" in step]
    assert [command for command in commands if not command.startswith(OWN)] == []
    scripts = {name for command in commands for name in re.findall(r"scripts/\w+\.py", command)}
    assert [name for name in scripts if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_actions_are_pinned_and_credentials_are_not_kept(file: Path) -> None:
    """Actions are named by commit; only the one that publishes is named by the branch that its authors maintain."""
    used = [step["uses"] for step in _steps(file) if "uses" in step]
    moving = [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)]
    assert set(moving) <= {"pypa/gh-action-pypi-publish@release/v1"}
    checkouts = [step for step in _steps(file) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_commands_are_no_templates(file: Path) -> None:
    """Names of branches and tags reach commands through the environment, never as a part of their text."""
    assert [step["run"] for step in _steps(file) if "${{" in step.get("run", "")] == []


def test_only_the_publishing_job_has_an_identity() -> None:
    """Jobs that run code of the repository or its dependencies cannot publish."""
    asking = {
        (file.stem, name)
        for file in WORKFLOWS
        for name, job in _jobs(file).items()
        if job.get("permissions", {}).get("id-token") == "write"
    }
    assert asking == {("release", "publish"), ("release-onednn", "publish")}
    for workflow, earlier in (("release", ["ci", "build"]), ("release-onednn", ["check", "build"])):
        publish = _jobs(FOLDER / f"workflows/{workflow}.yml")["publish"]
        assert (publish["environment"], publish["needs"]) == ("release", earlier)
        assert not any("scripts/" in step.get("run", "") for step in publish["steps"])
