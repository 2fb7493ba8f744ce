"""`python scripts/check_native.py [--tag TAG]`: do the files of the recipe in `native/onednn` agree, and with the tag?

The recipe makes the wheel of oneDNN, which has oneDNN's version and is released on its own. The number stands twice:
where pip reads it, and where CMake reads what to fetch. This module knows neither how the wheel is built nor how it is
published. It needs Python 3.11 and the standard library only.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

from workspace import ROOT

__all__ = ["FOLDER", "main", "problems"]

FOLDER = Path("native/onednn")
_RELEASE = re.compile(r"^set\(RELEASE (?P<version>[\d.]+)\)$", re.M)
_SUM = re.compile(r"^set\(RELEASE_SHA256 [0-9a-f]{64}\)$", re.M)


def problems(tag: str | None = None, root: Path = ROOT) -> list[str]:
    """Return what is wrong with the recipe, in sentences; nothing where all agrees.

    Args:
        tag: The tag that is released: ``onednn-v`` and the version. None compares with no tag.
        root: The root of the repository.
    """
    settings = tomllib.loads((root / FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
    cmake = (root / FOLDER / "CMakeLists.txt").read_text(encoding="utf-8")
    version: str = settings["project"]["version"]
    found = []
    pinned = _RELEASE.search(cmake)
    # A change of the recipe alone is a post-release: the sources stay what they are.
    if pinned is None or pinned["version"] != re.sub(r"\.post\d+$", "", version):
        found.append(
            f"pyproject.toml states version {version}, but CMakeLists.txt fetches {pinned and pinned['version']}"
        )
    if not _SUM.search(cmake):
        found.append("CMakeLists.txt fetches an archive whose SHA-256 it does not state")
    if tag is not None and tag != f"onednn-v{version}":
        found.append(f"the tag is {tag}, but that of version {version} is onednn-v{version}")
    return found


def main(arguments: list[str]) -> int:
    """Print what is wrong with the recipe; returns 1 where something is."""
    parser = argparse.ArgumentParser(prog="check_native", description="Check the recipe of oneDNN's wheel.")
    parser.add_argument("--tag", help="the tag that is released: onednn-v and the version")
    found = problems(parser.parse_args(arguments).tag)
    for problem in found:
        print(f"Wrong: {problem}.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
