"""Entry points of a group, read from the metadata of installed distributions. No plug-in is imported.

Comes before `manager` (group ``ort_py.plugins``) and `discovery.entry_points` (group ``ort_py.providers``). One
distribution with unreadable metadata costs its own entries and nothing else; the same distribution found twice on
``sys.path`` counts once, the first copy being the one that imports find. The result is sorted, never in the order of
folders.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce
from importlib import import_module
from typing import Any, TypeAlias

from ort_py.hooks.guard import Raised, describe, guarded
from ort_py.hooks.switches import normalise_distribution
from ort_py.installed import InstalledDistribution, entry_point_sections, folder_times, installed_distributions
from ort_py.lazy_dataclass import dataclass
from ort_py.logs import lazy_logger

logger = lazy_logger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class InstalledEntryPoint:
    """One entry point of an installed distribution.

    Attributes:
        name: Its name; for a provider, the provider's name.
        distribution: Name of the distribution.
        version: Version of the distribution, ``""`` where its metadata names none.
        value: ``package.module`` or ``package.module:attribute``.
        group: Its group.
        location: Folder the distribution lies in.
    """

    name: str
    distribution: str
    version: str
    value: str
    group: str
    location: str = ""

    def load(self) -> Any:
        """Import the object that it points to. Errors of the plug-in's code are raised."""
        module, _, attributes = self.value.partition("[")[0].strip().partition(":")
        names = [name.strip() for name in attributes.split(".") if name.strip()]
        return reduce(getattr, names, import_module(module.strip()))


@dataclass(frozen=True, slots=True)
class Scan:
    """Result of a scan: entry points by name, then distribution, and what could not be read."""

    entries: tuple[InstalledEntryPoint, ...] = ()
    problems: tuple[str, ...] = ()


def scan(group: str) -> Scan:
    """Entry points of a group in all distributions on ``sys.path``. Reads metadata; imports no plug-in."""
    entries: set[InstalledEntryPoint] = set()
    seen: set[str] = set()
    texts, problems = _texts()
    for distribution, text in texts:
        if group in text:  # parsing the metadata of every distribution would take tens of milliseconds
            name = _name(distribution)
            if normalise_distribution(name) in seen:
                continue
            seen.add(normalise_distribution(name))
            found = guarded(partial(_entries, distribution, text, name, group))
            if isinstance(found, Raised):
                problems.append(f"entry points of {name} cannot be parsed: {found}")
            else:
                entries.update(found)
    for problem in problems:
        logger.info("While looking for %s: %s", group, problem)
    return Scan(tuple(sorted(entries)), tuple(problems))


_Texts: TypeAlias = tuple[list[tuple[InstalledDistribution, str]], list[str]]
_kept: list[tuple[Any, _Texts]] = []
"""What was read last, with the times of the folders it was read from."""


def _texts() -> _Texts:
    """Lists of entry points with their distributions, and what could not be read.

    They are read again when a folder of `sys.path` has changed.
    """
    times = folder_times()
    for known, (texts, problems) in _kept:
        if times is not None and known == times:
            return texts, [*problems]
    texts, problems = [], []
    for distribution in _distributions(problems):
        text = guarded(partial(distribution.read_text, "entry_points.txt"))
        if isinstance(text, Raised):
            problems.append(f"entry_points.txt of {_name(distribution)} cannot be read: {text}")
        elif text:
            texts.append((distribution, text))
    _kept[:] = [(times, (texts, [*problems]))]
    return texts, problems


def _distributions(problems: list[str]) -> Iterator[InstalledDistribution]:
    try:
        yield from installed_distributions()
    except Exception as error:  # a foreign finder on sys.meta_path; what was found before it counts
        problems.append(f"the search for distributions was aborted: {describe(error)}")


def _entries(distribution: InstalledDistribution, text: str, name: str, group: str) -> list[InstalledEntryPoint]:
    version = guarded(partial(distribution.header, "Version"))
    return [
        InstalledEntryPoint(
            name=entry,
            distribution=name,
            version=version if isinstance(version, str) else "",
            value=value,
            group=group,
            location=distribution.location,
        )
        for entry, value in entry_point_sections(text).get(group, [])
    ]


def _name(distribution: InstalledDistribution) -> str:
    name = guarded(partial(distribution.header, "Name"))
    if isinstance(name, str) and name:
        return name
    # Half a distribution, as a failed upgrade leaves it behind, has only its folder's name.
    return distribution.folder_name or "a distribution without a name"
