"""`python scripts/check_packages.py FOLDER`: are the sdists and wheels in a folder what this repository releases?

Names, versions and requirements come from the metadata in the archives, as an index and an installer read them; what
they should be comes from the workspace. It needs `packaging`, and knows nothing of how the files were built.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

from packaging.metadata import Metadata
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from packaging.version import Version
from workspace import ROOT, Distribution, distributions, expected_pins, read_version

__all__ = ["main", "problems_in"]


def problems_in(folder: Path) -> list[str]:
    """Return what is wrong with the files of a release, in sentences; nothing where all are complete and agree."""
    ours = {one.name: one for one in distributions()}
    problems: list[str] = []
    seen: set[tuple[str, str]] = set()
    for file in sorted(folder.iterdir()):
        if file.suffix == ".whl":
            name, _, _, tags = parse_wheel_filename(file.name)
            kind = "wheel"
            native = name in ours and bool(ours[name].platforms)
            if native == ({str(tag) for tag in tags} == {"py3-none-any"}):
                problems.append(f"{file.name}: is {'for no' if native else 'not for every'} platform")
        elif file.name.endswith(".tar.gz"):
            (name, _), kind = parse_sdist_filename(file.name), "sdist"
        else:
            problems.append(f"{file.name}: is neither a wheel nor an sdist")
            continue
        if name not in ours:
            problems.append(f"{file.name}: is no distribution of this repository")
            continue
        seen.add((name, kind))
        problems += [f"{file.name}: {problem}" for problem in _problems_of(file, ours[name])]
    wanted = {(name, kind) for name in ours for kind in ("wheel", "sdist")}
    return problems + [f"the {kind} of {name} is missing" for name, kind in sorted(wanted - seen)]


def _problems_of(file: Path, one: Distribution) -> list[str]:
    members, wheel = _members(file), file.suffix == ".whl"
    metadata = "METADATA" if wheel else "PKG-INFO"
    raw = next((text for name, text in members.items() if name.count("/") == 1 and name.endswith(f"/{metadata}")), None)
    if raw is None:
        return [f"has no {metadata}"]
    problems = _metadata_problems(raw, one)
    if not any(name.endswith("/LICENSE") for name in members):
        problems.append("does not carry the licence")
    tops = {name.partition("/")[0] for name in members}
    if wheel:
        packages = {folder.name for folder in (ROOT / one.folder / "src").glob("*") if list(folder.glob("*.py"))}
        problems += [f"lacks the import package {name}" for name in sorted(packages - tops)]
        problems += [
            f"has {name}, which is not part of it" for name in sorted(tops - packages) if ".dist-info" not in name
        ]
    else:
        problems += [] if len(tops) == 1 else [f"has {len(tops)} folders at its top"]
        problems += (
            [] if any(name.endswith("/pyproject.toml") for name in members) else ["cannot be built: no pyproject.toml"]
        )
    return problems


def _metadata_problems(raw: bytes, one: Distribution) -> list[str]:
    try:
        found = Metadata.from_email(raw, validate=True)
    except ExceptionGroup as group:
        return [f"its metadata are not valid: {error}" for error in group.exceptions]
    version = read_version()
    problems = [] if str(found.version) == str(Version(version)) else [f"is of version {found.version}, not {version}"]
    if found.name != one.name:
        problems.append(f"says that it is {found.name}, not {one.name}")
    if set(found.project_urls or ()) != set(one.project["urls"]):
        problems.append("lacks addresses of the project")
    allowed = [SpecifierSet(text) for text in expected_pins(version)]
    ours = [entry for entry in found.requires_dist or () if entry.name.startswith("ort-py")]
    wrong = [entry for entry in ours if entry.specifier not in [*allowed, SpecifierSet()]]
    return problems + [f"asks for {entry}, which does not follow version {version}" for entry in wrong]


def _members(file: Path) -> dict[str, bytes]:
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    with tarfile.open(file) as archive:
        read = ((one.name, archive.extractfile(one)) for one in archive.getmembers() if one.isfile())
        return {name: opened.read() for name, opened in read if opened is not None}


def main(arguments: list[str]) -> int:
    """Print every problem; returns 1 where there is one."""
    (folder,) = arguments
    problems = problems_in(Path(folder))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
