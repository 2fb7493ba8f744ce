"""Conditions of a cached entry besides the model: this machine, the versions of packages, and their files.

Versions say enough of packages that were installed; those under development change without one, so the sizes and
times of a package's files count too. It does not depend on providers or sessions; who makes keys says which packages
matter.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from ort_py.hashing import blake2b
from ort_py.installed import versions_of
from ort_py.platform.processors import processor_facts

__all__ = ["machine", "package_of", "package_stamp", "versions"]

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
    path = Path(file)
    found: list[tuple[Any, ...]] = []
    pending = [os.fspath(path.parent)] if path.name == "__init__.py" else []
    try:
        if not pending:
            found.append(_line(path.name, path.stat()))
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.name.endswith(_CODE):
                        found.append(_line(entry.path, entry.stat()))
                    elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
    except OSError:
        return None
    return blake2b(repr(sorted(found)).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _line(name: str, status: os.stat_result) -> tuple[Any, ...]:
    # Without device and inode: they differ from container to container of one image, whose code is the same.
    return name, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def versions(distributions: Iterable[str]) -> list[str]:
    """Name and version of each distribution, sorted; those that are not installed are left out."""
    return [f"{name}=={found}" for name, found in sorted(_versions(frozenset(distributions)).items()) if found]


@cache
def _versions(distributions: frozenset[str]) -> dict[str, str]:
    return versions_of(distributions)
