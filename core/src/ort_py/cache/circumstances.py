"""Conditions of a cached entry besides the model: this machine, the versions of packages, and their files.

Packages under development change without a new version, so the sizes and times of their files count too; those of one
file of an installed package say when it was installed. It does not depend on providers or sessions; who makes keys says
which packages matter.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from ort_py.hashing import blake2b
from ort_py.installed import versions_of
from ort_py.platform.processors import processor_facts

_INSTRUCTIONS = re.compile(
    r"s?sse|avx|amx|fma|f16c|bmi|movbe|popcnt|asimd|neon|vfp|sve|sme(?!p)|fphp|bf16|i8mm|atomics|crc32"
)
"""Sets of instructions that generated code may use, as Linux names them; the rest of its list depends on the kernel."""

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_CODE = (".py", ".so", ".pyd", ".dll", ".dylib", ".json")


@cache
def machine() -> str:
    """The processor with its features, the system and the interpreter, as far as they decide what is chosen."""
    parts = [platform.machine(), sys.platform, sys.byteorder, sys.implementation.cache_tag or "", platform.release()]
    return "\n".join([*parts, *_processor()])


def _processor() -> list[str]:
    # `platform.processor` starts a process on some systems; Linux lists what matters in a file.
    facts = processor_facts()
    if not facts:
        return [os.environ.get("PROCESSOR_IDENTIFIER", "")]
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU implementer", "CPU part")
    return [f"{name}: {facts[name]}" for name in wanted if name in facts]


@cache
def kind_of_machine() -> dict[str, str]:
    """The kind of this machine: what a program that was made on one machine has to find on another."""
    facts = processor_facts()
    listed = facts.get("flags") or facts.get("Features") or ""
    instructions = " ".join(sorted(name for name in listed.split() if _INSTRUCTIONS.match(name)))
    return {
        "processor": platform.machine(),
        "system": sys.platform,
        "byte order": sys.byteorder,
        "instructions": instructions or os.environ.get("PROCESSOR_IDENTIFIER", ""),
    }


@cache
def code_stamp(package: str) -> str:
    """A hash of the names and sizes of a package's modules, the same in each copy of it; ``""`` if it was installed.

    Nobody edits an installed package, so that its version says enough.
    """
    file = getattr(sys.modules.get(package), "__file__", None)
    if not file or _is_installed(file):
        return ""
    start = len(os.path.dirname(file))  # paths below it are texts, too
    try:
        return _hash([(path[start:].replace(os.sep, "/"), found.st_size) for path, found in _code(file)])
    except OSError:
        return "unreadable"


def package_of(module: str) -> str:
    return module.partition(".")[0]


@cache
def package_stamp(package: str) -> str | None:
    """A hash of sizes and times of a package's files. None if it has no files, like code typed at a prompt.

    Looked at once a process: what a process has imported does not change with the files.
    """
    file = getattr(sys.modules.get(package), "__file__", None)
    if not file:
        return None
    try:
        # Without device and inode: they differ from container to container of one image, whose code is the same.
        return _hash([(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns) for path, found in _code(file)])
    except OSError:
        return None


def _code(file: str) -> Iterator[tuple[str, os.stat_result]]:
    """Path and status of each file with code of the package or module that has this file; of this one if installed."""
    folder, name = os.path.split(file)  # paths are texts: a Path is ten times the cost
    if name != "__init__.py" or _is_installed(file):  # an installer makes all files new
        yield name, os.stat(file)
        return
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(_CODE):
                    yield entry.path, entry.stat()
                elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)


def _is_installed(file: str) -> bool:
    return not _INSTALLED.isdisjoint(file.replace("\\", "/").split("/"))


def _hash(files: list[tuple[Any, ...]]) -> str:
    return blake2b(repr(sorted(files)).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def versions(distributions: Iterable[str]) -> list[str]:
    """Name and version of each distribution, sorted; those that are not installed are left out."""
    return [f"{name}=={found}" for name, found in sorted(_versions(frozenset(distributions)).items()) if found]


@cache
def _versions(distributions: frozenset[str]) -> dict[str, str]:
    return versions_of(distributions)
