"""The installed TensorRT or TensorRT-RTX, as its metadata describes it: nothing of it is imported.

Comes after `variants`, before `availability` and `toolkit`.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ort_py.lazy_dataclass import dataclass
from ort_py_tensorrt.variants import Variant

__all__ = ["Installed", "Missing", "find"]


@dataclass(frozen=True, slots=True)
class Installed:
    """The library is there.

    Attributes:
        distribution: The name it is installed under.
        version: As its metadata says.
    """

    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True, slots=True)
class Missing:
    """It is not, or is too old.

    Attributes:
        reason: What was found.
        fix: The command that mends it.
    """

    reason: str
    fix: str


def find(variant: Variant) -> Installed | Missing:
    """Look for the distributions that bring a library, and for its module."""
    there = next(((name, found) for name in variant.distributions if (found := _version(name)) is not None), None)
    if there is None:
        return Missing(f"{variant.title} is not installed", variant.install_command)
    name, found = there
    if find_spec(variant.module) is None:
        return Missing(
            f"{name} {found} is installed, but its module {variant.module} is not there",
            f"pip install --force-reinstall {name}",
        )
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if numbers < variant.oldest:
        oldest = ".".join(str(number) for number in variant.oldest)
        return Missing(f"{name} {found} is installed; {oldest} is the oldest that works", variant.install_command)
    return Installed(name, found)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
