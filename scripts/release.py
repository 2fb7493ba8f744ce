"""`python3 scripts/release.py prepare VERSION`, then, from the tag, `python3 scripts/release.py build --tag TAG`.

`prepare` writes the new version wherever it stands and moves the change fragments into CHANGELOG.md. `build` checks
that the tree is one release, builds each distribution twice in two places, compares the files byte by byte, and checks
what is in them. `dist/packages/` then holds what the release workflow attests and publishes; `dist/SHA256SUMS` lists
it. `build --dry-run` does the same to a tree that is not a release yet, and lists what is missing.

Nothing is published here: that takes the identity of the workflow `.github/workflows/release.yml`. The tools come from
`requirements/release.txt`, pinned by hash, into `.venv-release`; what is built from is what git tracks.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_fragments import fragments
from environment import ensure_tools
from workspace import ROOT, distributions, examples, expected_pins, internal_pins, read_version, write_version

__all__ = ["build", "compare", "main", "prepare", "unready"]


def prepare(version: str, python: Path, root: Path = ROOT) -> list[str]:
    """Write a new version and its section of the change log into the work tree.

    Args:
        version: The new version, such as ``"0.2.0"``.
        python: An interpreter that has towncrier.
        root: The root of the repository.

    Returns:
        What was done, in sentences.

    Raises:
        SystemExit: The change log has the version already, or towncrier failed.
        ValueError: The version is spelt in a way that this project does not use.
    """
    expected_pins(version)
    if _has_section(root, version):
        raise SystemExit(f"CHANGELOG.md has a section for {version} already; a version is released once.")
    waiting = len(fragments(root))
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    _run([python, "-m", "towncrier", "build", "--yes", "--version", version, "--date", today], root)
    changed = write_version(version, root)
    return [
        f"{waiting} change fragments became the section {version} of CHANGELOG.md.",
        f"{len(changed)} files state version {version} now.",
        f"Commit this, have it reviewed and merged, and push the tag v{version} of the merged commit.",
    ]


def unready(tag: str | None, root: Path = ROOT) -> list[str]:
    """Return the reasons why the tree cannot be released under a tag; none where it can."""
    version = read_version(root)
    reasons = []
    if tag is None:
        reasons.append(f"no tag is named; the tag of this version is v{version}")
    elif tag != f"v{version}":
        reasons.append(f"the tag is {tag}, but the version is {version}")
    if not _has_section(root, version):
        reasons.append(f"CHANGELOG.md has no section for {version}; `scripts/release.py prepare` writes it")
    if waiting := fragments(root):
        reasons.append(f"{len(waiting)} change fragments are in no section of CHANGELOG.md, {waiting[0].name} for one")
    for one in [*distributions(root), *examples(root)]:
        wrong = sorted(
            {f"{name}{spec}" for name, spec in internal_pins(one, root) if spec not in expected_pins(version)}
        )
        reasons += [f"{one.name} asks for {entry}, which does not follow version {version}" for entry in wrong]
    if _output(["git", "status", "--porcelain"], root):
        reasons.append("the work tree has changes that are not committed")
    return reasons


def build(out: Path, python: Path, root: Path = ROOT) -> list[str]:
    """Build the sdist and, from it, the wheel of each distribution twice, and check them.

    Args:
        out: The folder to write to; `packages` in it is emptied first.
        python: An interpreter that has build, hatchling, packaging and twine.
        root: The root of the repository.

    Returns:
        What is wrong with the files, in sentences; nothing where they can be published.

    Raises:
        SystemExit: A build failed; its output stands above.
    """
    packages = out / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="ort-py-release-") as scratch:
        _build_copy(Path(scratch, "a"), packages, python, root, mode=0o644)
        # Another path, other permissions of files, another order of hashes and another time zone.
        again = Path(scratch, "again")
        _build_copy(Path(scratch, "another", "place"), again, python, root, mode=0o600, TZ="Asia/Tokyo")
        problems = compare(packages, again)
    files = sorted(packages.iterdir())
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)
    (out / "SHA256SUMS").write_text(sums, encoding="utf-8")
    checks = [["-m", "twine", "check", "--strict", *map(str, files)]]
    checks.append([str(ROOT / "scripts" / "check_packages.py"), str(packages)])
    for check in checks:
        outcome = subprocess.run([str(python), *check], cwd=root, check=False, capture_output=True, text=True)
        if outcome.returncode:
            problems += [line for line in (outcome.stdout + outcome.stderr).splitlines() if line.strip()]
    return problems


def compare(first: Path, second: Path) -> list[str]:
    """Return how the files of two builds differ; nothing where each is the same, byte by byte."""
    names = {one.name for one in first.iterdir()}, {one.name for one in second.iterdir()}
    problems = [f"{name} came out of one of two builds only" for name in sorted(names[0] ^ names[1])]
    both = sorted(names[0] & names[1])
    differing = [name for name in both if (first / name).read_bytes() != (second / name).read_bytes()]
    return problems + [f"{name} is not reproducible: two builds of the same files differ" for name in differing]


def main(arguments: list[str]) -> int:
    """Prepare or build a release; returns 1 where it must not be published."""
    parser = argparse.ArgumentParser(
        prog="release", description="Prepare, build and check a release of all distributions."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare", help="write a new version and its section of the change log")
    preparing.add_argument("version", help="the new version, such as 0.2.0")
    building = commands.add_parser("build", help="build every sdist and wheel, twice, and check them")
    building.add_argument("--tag", help="the tag that is released, v and the version")
    building.add_argument("--dry-run", action="store_true", help="go on where the tree is not ready to be released")
    building.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder to write to (dist)")
    chosen = parser.parse_args(arguments)
    if chosen.command == "prepare":
        try:
            print("\n".join(prepare(chosen.version, ensure_tools("release"))))
        except ValueError as error:
            raise SystemExit(str(error)) from None
        return 0
    reasons = unready(chosen.tag)
    for reason in reasons:
        print(f"{'A release would be refused' if chosen.dry_run else 'Refused'}: {reason}.", file=sys.stderr)
    if reasons and not chosen.dry_run:
        return 1
    problems = build(chosen.out, ensure_tools("release"))
    print((chosen.out / "SHA256SUMS").read_text(encoding="utf-8"), end="")
    for problem in problems:
        print(f"Wrong: {problem}", file=sys.stderr)
    packages = chosen.out / "packages"
    count = len(list(packages.iterdir()))
    print(f"{count} files in {packages} were built twice and checked. Problems: {len(problems)}.")
    return 1 if problems else 0


def _build_copy(copy: Path, target: Path, python: Path, root: Path, mode: int, **variables: str) -> None:
    tracked = _output(["git", "ls-files", "-z"], root).split("\0")
    for name in filter(None, tracked):
        if (root / name).is_file():  # deleted ones are still in the index
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, copy / name)
            (copy / name).chmod(mode)
    # The time of the commit: files in archives have no other one.
    epoch = _output(["git", "log", "-1", "--format=%ct"], root).strip()
    environment = os.environ | {"SOURCE_DATE_EPOCH": epoch} | variables
    for one in distributions(root):
        command = [str(python), "-m", "build", "--no-isolation", "--outdir", str(target.absolute())]
        # A distribution that contains libraries of a vendor has a wheel for each platform: a variable names it.
        for chosen in ({}, *({variable: name} for variable, names in one.platforms.items() for name in names)):
            outcome = subprocess.run(
                [*command, *(["--wheel"] if chosen else []), str(copy / one.folder)],
                env=environment | chosen,
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if outcome.returncode:
                print(outcome.stdout, file=sys.stderr)
                raise SystemExit(f"{one.name} cannot be built; the messages of its build stand above.")


def _has_section(root: Path, version: str) -> bool:
    return f"\n## {version} (" in (root / "CHANGELOG.md").read_text(encoding="utf-8")


def _run(command: list[str | Path], root: Path) -> None:
    if subprocess.run(
        list(map(str, command)), cwd=root, check=False, stdin=subprocess.DEVNULL, stdout=sys.stderr
    ).returncode:
        raise SystemExit(f"`{' '.join(map(str, command[1:]))}` failed; its messages stand above.")


def _output(command: list[str], root: Path) -> str:
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
