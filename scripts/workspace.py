"""`python scripts/workspace.py`: the folders of the distributions that are released together, one per line.

The list is read from `[tool.uv.workspace]` in the root's pyproject.toml, and the version from the core, which are the
only places where either is written. This module knows neither how distributions are built nor how they are published.
It needs Python 3.11 and the standard library only, because `.ci/run` calls it before anything is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "ROOT",
    "Distribution",
    "distributions",
    "examples",
    "expected_pins",
    "internal_pins",
    "read_version",
    "write_version",
]

ROOT = Path(__file__).resolve().parent.parent
_VERSION_FILE = Path("core/src/ort_py/__init__.py")
_VERSION = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.M)
_SPELLING = re.compile(r"(?P<major>\d+)\.(?P<minor>\d+)\.\d+((a|b|rc)\d+)?")
# A requirement on one of our distributions: exactly one version, or from one version to below the next minor one.
_PIN = re.compile(
    r'"(?P<name>ort-py[a-z0-9-]*(\[[a-z0-9,]+\])?)'
    r'(==(?P<exact>[^\s",;]+)|>=(?P<lowest>[^\s",;]+),<(?P<below>[^\s",;]+))'
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of the workspace.

    Attributes:
        name: Its name, for instance ``"ort-py-core"``.
        folder: The folder of its pyproject.toml, relative to the root and with forward slashes.
        settings: The content of its pyproject.toml.
    """

    name: str
    folder: str
    settings: dict[str, Any]

    @property
    def project(self) -> dict[str, Any]:
        """The table ``[project]``."""
        project: dict[str, Any] = self.settings["project"]
        return project

    @property
    def platforms(self) -> dict[str, list[str]]:
        """The platforms that get wheels of their own beside the one that builds, by the variable that names them.

        None where a wheel contains no library of a vendor, and is for every platform.
        """
        platforms: dict[str, list[str]] = self.settings.get("tool", {}).get("ort-py", {}).get("platforms", {})
        return platforms


def distributions(root: Path = ROOT) -> list[Distribution]:
    """Return the distributions that are released together: the meta distribution, then the members by folder."""
    return [_read(root, root), *(one for one in _members(root) if not _is_example(one))]


def examples(root: Path = ROOT) -> list[Distribution]:
    """Return the example plug-ins, which are members of the workspace and are never published."""
    return [one for one in _members(root) if _is_example(one)]


def read_version(root: Path = ROOT) -> str:
    """Return the version of all distributions.

    Raises:
        ValueError: The core does not state its version in the expected form.
    """
    match = _VERSION.search((root / _VERSION_FILE).read_text(encoding="utf-8"))
    if match is None:
        raise ValueError(f'{_VERSION_FILE} has no line __version__ = "…", which all distributions take theirs from.')
    return match["version"]


def internal_pins(distribution: Distribution, root: Path = ROOT) -> list[tuple[str, str]]:
    """Return the requirements of a distribution on others of the workspace, as pairs of name and version specifier."""
    text = (root / distribution.folder / "pyproject.toml").read_text(encoding="utf-8")
    return [
        (match["name"], f"=={match['exact']}" if match["exact"] else f">={match['lowest']},<{match['below']}")
        for match in _PIN.finditer(text)
    ]


def expected_pins(version: str) -> tuple[str, str]:
    """Return the two specifiers that requirements on our distributions may have: exact, and up to the next minor.

    Raises:
        ValueError: The version is not three numbers, with ``a``, ``b`` or ``rc`` and a number behind them or without.
    """
    match = _SPELLING.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is no version of this project; write 0.2.0 or 0.2.0rc1, for instance.")
    return f"=={version}", f">={version},<{match['major']}.{int(match['minor']) + 1}"


def write_version(version: str, root: Path = ROOT) -> list[Path]:
    """Give all distributions a new version, and let requirements among them follow.

    Args:
        version: The new version.
        root: The root of the repository.

    Returns:
        The files that changed.

    Raises:
        ValueError: The version is spelt in a way that this project does not use.
    """
    exact, ranged = expected_pins(version)
    new = {root / _VERSION_FILE: _VERSION.sub(f'__version__ = "{version}"', _text(root / _VERSION_FILE))}
    for one in [*distributions(root), *examples(root)]:
        file = root / one.folder / "pyproject.toml"
        new[file] = _PIN.sub(lambda m: f'"{m["name"]}{exact if m["exact"] else ranged}', _text(file))
    changed = [file for file, text in new.items() if text != _text(file)]
    for file in changed:
        file.write_text(new[file], encoding="utf-8")
    return changed


def _members(root: Path) -> list[Distribution]:
    patterns = _read(root, root).settings["tool"]["uv"]["workspace"]["members"]
    files = {file for pattern in patterns for file in root.glob(f"{pattern}/pyproject.toml")}
    return [_read(file.parent, root) for file in sorted(files)]


def _is_example(distribution: Distribution) -> bool:
    return distribution.folder.startswith("plugins-example/")


def _read(folder: Path, root: Path) -> Distribution:
    settings = tomllib.loads(_text(folder / "pyproject.toml"))
    return Distribution(settings["project"]["name"], folder.relative_to(root).as_posix(), settings)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def main() -> int:
    """Print a folder per line."""
    for one in distributions():
        print(one.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
