"""Write `docs/user/default-installations.md`: what `pip install ort-py` brings on each system, and its size.

`python scripts/default_installations.py WHEELS`, where the folder WHEELS holds the wheels of this repository, for each
platform that has its own. pip resolves for each system, downloads the wheels, and nothing is installed; an index must
be reachable. pip evaluates markers for the machine that it runs on, whatever its option `--platform` says, so it runs
here with the markers of the other system. This file decides nothing about what belongs to an installation.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename

__all__ = [
    "BESIDE",
    "PYTHONS",
    "SYSTEMS",
    "Resolved",
    "System",
    "linux",
    "main",
    "page",
    "pip_for",
    "resolve",
    "windows",
]

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "user" / "default-installations.md"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
BESIDE = frozenset({"numpy", "onnx", "protobuf", "ml-dtypes", "typing-extensions"})
"""Distributions that are not counted: NumPy, onnx, and what onnx needs."""

_WITH_MARKERS = """
import json, sys
from pip._vendor.packaging import markers
there, here = json.loads(sys.argv.pop(1)), markers.default_environment
markers.default_environment = lambda: {**here(), **there}
from pip._internal.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True)
class System:
    """A kind of machine that wheels are made for.

    Attributes:
        name: Its name for readers.
        platforms: The platform tags that its pip accepts.
        markers: The environment markers that differ from machine to machine.
    """

    name: str
    platforms: tuple[str, ...]
    markers: Mapping[str, str]


def linux(machine: str, glibc: int) -> System:
    """A Linux with a version 2.x of the GNU C library.

    Args:
        machine: Such as ``"aarch64"``.
        glibc: The x.
    """
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(glibc, 4, -1)]
    tags += [f"manylinux2014_{machine}", f"linux_{machine}"]
    markers = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": machine}
    return System(f"Linux {machine}, glibc 2.{glibc}", tuple(tags), markers)


def _macos(machine: str, release: int) -> System:
    markers = {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": machine}
    return System(f"macOS {release}, {machine}", (f"macosx_{release}_0_{machine}",), markers)


def windows(machine: str, tag: str) -> System:
    markers = {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt", "platform_machine": machine}
    return System(f"Windows {machine}", (tag,), markers)


SYSTEMS = (
    linux("x86_64", 28),
    linux("aarch64", 28),
    linux("aarch64", 39),
    _macos("arm64", 14),
    _macos("x86_64", 14),
    windows("AMD64", "win_amd64"),
    windows("ARM64", "win_arm64"),
)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What pip takes for a requirement.

    Attributes:
        sizes: The size of each wheel in bytes, by the name of its distribution; empty where pip finds no solution.
        problem: What pip says if it finds none.
    """

    sizes: Mapping[str, int]
    problem: str = ""

    @property
    def bytes(self) -> int:
        """The size of all wheels that are counted."""
        return sum(size for name, size in self.sizes.items() if name not in BESIDE)


def resolve(requirement: str, system: System, python: str, wheels: Path) -> Resolved:
    """Download what pip takes for a requirement on a system.

    Args:
        requirement: Such as ``"ort-py"``.
        system: Where it would be installed.
        python: The version of CPython there, such as ``"3.12"``.
        wheels: A folder of wheels that are on no index.
    """
    with tempfile.TemporaryDirectory() as folder:
        wish = ["download", requirement, "--quiet", "--dest", folder, "--find-links", str(wheels)]
        ran = subprocess.run(pip_for(system, python, *wish), check=False, capture_output=True, text=True, env=_own())
        if ran.returncode:
            errors = [line for line in ran.stderr.splitlines() if line.startswith("ERROR")]
            return Resolved({}, " ".join(errors) or ran.stderr.strip())
        found = {str(parse_wheel_filename(file.name)[0]): file.stat().st_size for file in Path(folder).iterdir()}
    return Resolved(dict(sorted(found.items())))


def pip_for(system: System, python: str, *arguments: str) -> list[str]:
    """A command that runs pip as it would on another system, for CPython and from wheels only.

    Args:
        system: The other system.
        python: The version of CPython there, such as ``"3.12"``.
        arguments: Of ``pip download``, or of ``pip install --target``.
    """
    markers = dict(system.markers) | {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    command = [sys.executable, "-c", _WITH_MARKERS, json.dumps(markers), *arguments, "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    return [*command, *(f"--platform={tag}" for tag in system.platforms)]


def _own() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


_HEAD = """# The default installation, system by system

Written by `python scripts/default_installations.py`, which lets pip resolve `ort-py` and `onnxruntime` for each system
and downloads what it takes. The sizes are those of the wheels in MB (a million bytes). NumPy, onnx and what onnx needs
are left out on both sides.

*Fast provider* is what runs models there without another package; *none* means that they run on NumPy, which computes
every operator and is slower. `ort-py doctor` says so, too. [Platforms](../platforms.md) says on which of these systems
something has run.

| system | Python | fast provider | ort-py | onnxruntime | ratio |
|---|---|---|--:|--:|--:|
"""


def page(wheels: Path) -> str:
    """The text of the page.

    Args:
        wheels: The folder with the wheels of this repository.
    """
    return _HEAD + "".join(f"{line}\n" for system in SYSTEMS for line in _rows(system, wheels))


def _rows(system: System, wheels: Path) -> Iterator[str]:
    """A row for each group of versions of Python with the same cells."""
    groups: dict[str, list[str]] = {}
    for python in PYTHONS:
        ours, theirs = (resolve(name, system, python, wheels) for name in ("ort-py", "onnxruntime"))
        groups.setdefault(_cells(ours, theirs), []).append(python)
        sys.stderr.write(f"{system.name}, Python {python}: {_cells(ours, theirs)}\n")
    for cells, pythons in groups.items():
        yield f"| {system.name} | {', '.join(pythons)} | {cells} |"


def _cells(ours: Resolved, theirs: Resolved) -> str:
    ratio = f"{ours.bytes / theirs.bytes:.2f}" if ours.sizes and theirs.sizes else ""
    kinds = {"ort-py", "ort-py-array", "ort-py-core", "ort-py-cpu"}
    fast = ", ".join(f"`{name}`" for name in ours.sizes if name.startswith("ort-py") and name not in kinds) or "none"
    return f"{fast if ours.sizes else 'cannot be installed'} | {_megabytes(ours)} | {_megabytes(theirs)} | {ratio}"


def _megabytes(resolved: Resolved) -> str:
    return f"{resolved.bytes / 1e6:.0f}" if resolved.sizes else "no wheel"


def main() -> int:
    """Write the page; returns 0."""
    parser = argparse.ArgumentParser(prog="default_installations", description=__doc__.partition("\n")[0])
    parser.add_argument("wheels", type=Path, help="a folder with the wheels of this repository")
    TARGET.write_text(page(parser.parse_args().wheels), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
