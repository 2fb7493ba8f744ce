"""Wheels of the repository's distributions, and fresh environments to install them into.

Building uses the backend that is installed with the tests, installing an index for what is not ours. Nothing is
installed in editable form here: what a user gets is what is tested.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.support.source_tree import ROOT

__all__ = ["Environment", "build_wheel", "make_environment"]


def _run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    # PYTHONPATH would let the fresh interpreter see the sources.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "ORT_PY_"))}
    return subprocess.run(
        command,
        env=environment | variables,
        cwd=tempfile.gettempdir(),  # the prefix may lie in a project, whose settings commands would find
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def _checked(command: list[str], **variables: str) -> None:
    outcome = _run(command, **variables)
    assert outcome.returncode == 0, f"{' '.join(command)}\n{outcome.stdout}\n{outcome.stderr}"


def build_wheel(folder: str, target: Path, **variables: str) -> Path:
    """Build the distribution in a folder of the repository, with environment variables; returns the wheel."""
    before = set(target.glob("*.whl"))
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(target), str(ROOT / folder)]
    _checked(command, **variables)
    (wheel,) = set(target.glob("*.whl")) - before
    return wheel


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment that holds nothing but what `install` puts there."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self._scripts / ("python.exe" if sys.platform == "win32" else "python")

    @property
    def site_packages(self) -> Path:
        """Folder of the distributions."""
        (found,) = self.folder.glob("Lib/site-packages" if sys.platform == "win32" else "lib/python*/site-packages")
        return found

    @property
    def _scripts(self) -> Path:
        return self.folder / ("Scripts" if sys.platform == "win32" else "bin")

    def install(self, *requirements: str | Path) -> None:
        """Install wheels and what they depend on."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        _checked([*pip, "--disable-pip-version-check", *map(str, requirements)])

    def uninstall(self, *names: str) -> None:
        """Take distributions out again."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "uninstall", "--quiet", "--yes"]
        _checked([*pip, "--disable-pip-version-check", *names])

    def run(self, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python code, with environment variables."""
        return _run([str(self.python), "-c", code], **variables)

    def pytest(self, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the tests of a folder with the environment's pytest, by the folder's own settings."""
        command = [str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        return _run([*command, "--rootdir", str(folder), str(folder)], **variables)

    def script(self, name: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command that a distribution installed, with environment variables."""
        return _run([str(self._scripts / name), *arguments], **variables)


def make_environment(folder: Path) -> Environment:
    """An environment without even pip."""
    venv.create(folder, with_pip=False, symlinks=sys.platform != "win32")
    return Environment(folder)
