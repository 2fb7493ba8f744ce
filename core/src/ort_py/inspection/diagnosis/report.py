"""Results of an examination as plain records. Does not depend on how they were obtained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, field
from enum import StrEnum
from typing import Any

from ort_py.lazy_dataclass import dataclass


class Verdict(StrEnum):
    """The verdict about a provider after its trial."""

    USABLE = "usable"
    """It loaded, found what it needs, and computed right results."""

    UNTRIED = "untried"
    """It loaded and found what it needs, and took no node of the trial models."""

    UNAVAILABLE = "unavailable"
    """It says that this machine lacks something. Nothing is wrong with it."""

    BLOCKED = "blocked"
    """The environment keeps it out."""

    CONFLICT = "conflict"
    """Two distributions claim its name."""

    INCOMPATIBLE = "incompatible"
    """Written for another version of the contracts."""

    MODIFIED = "modified"
    """It works, and its files are not those that were installed."""

    BROKEN = "broken"
    """Its code raised."""

    WRONG = "wrong"
    """It computed something else than it should."""

    CRASHED = "crashed"
    """It took its process down."""

    HUNG = "hung"
    """It did not come back."""


@dataclass(frozen=True, slots=True)
class FileCheck:
    """Installed files against the distribution's record.

    Attributes:
        checked: Files whose content was compared.
        modified: Files that are not what was installed.
        note: Why nothing was compared, ``""`` where it was.
    """

    checked: int = 0
    modified: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    note: str = ""

    @property
    def fine(self) -> bool:
        """True if nothing is wrong."""
        return not self.modified and not self.missing


@dataclass(frozen=True, slots=True)
class TrialRun:
    """A small model run on a provider.

    Attributes:
        model: Description of its computation.
        nodes: Nodes by who ran them.
        max_error: Largest difference from the closed form.
        first_ms: Milliseconds of the first run.
        best_ms: Milliseconds of the fastest of the others.
    """

    model: str
    nodes: dict[str, int]
    max_error: float
    first_ms: float
    best_ms: float


@dataclass(frozen=True, slots=True)
class ProviderDiagnosis:
    """One provider of one distribution.

    Attributes:
        location: Folder it is installed in.
        cause: Why it is not usable; may hold a remark where it is.
        fix: Advice to the user.
        stage: Stage in which it failed: ``import``, ``probe``, ``session``, ``run``, ``exit``.
        vendor: The maker of the device or library.
        automatic: Whether sessions that name no provider use it.
        devices: Devices its probe found.
        run: The trial run, where there was one.
        stages_ms: Milliseconds of each stage.
        seconds: Duration of the whole process.
        output: The last lines it wrote to standard error, where it failed.
    """

    name: str
    distribution: str
    version: str
    entry_point: str
    location: str
    verdict: Verdict
    cause: str = ""
    fix: str = ""
    stage: str = ""
    vendor: str = ""
    automatic: bool = True
    devices: tuple[str, ...] = ()
    files: FileCheck = field(default_factory=FileCheck)
    run: TrialRun | None = None
    stages_ms: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    output: str = ""

    @property
    def usable(self) -> bool:
        """True if sessions can use it."""
        return self.verdict in (Verdict.USABLE, Verdict.UNTRIED, Verdict.MODIFIED)

    @property
    def fine(self) -> bool:
        """True if nothing needs attention: usable with all its files, kept out on purpose, or never used unless it is
        named and without what it needs.
        """
        needless = self.verdict is Verdict.UNAVAILABLE and not self.automatic
        return needless or self.verdict in (Verdict.USABLE, Verdict.UNTRIED, Verdict.BLOCKED)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was found.

    Attributes:
        machine: Facts about Python, the machine and its limits; see `machine.machine_facts`.
        providers: Each installed provider, by name.
        problems: Distributions whose metadata could not be read.
    """

    machine: dict[str, Any]
    providers: tuple[ProviderDiagnosis, ...]
    problems: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        """True if every installed provider is usable or kept out on purpose."""
        return bool(self.providers) and not self.problems and all(one.fine for one in self.providers)

    def missing(self, required: Sequence[str]) -> dict[str, str]:
        """Required providers that are not usable, with the cause.

        Args:
            required: Names of providers, or ``distribution:Name``.
        """
        found: dict[str, str] = {}
        for name in required:
            distribution, _, bare = name.rpartition(":")
            same = [one for one in self.providers if one.name == bare and distribution in ("", one.distribution)]
            if not any(one.usable for one in same):
                found[name] = "; ".join(f"{one.verdict}: {one.cause}" for one in same) or "not installed"
        return found

    def to_json(self) -> dict[str, Any]:
        """Plain data for ``json.dumps``."""
        return {
            "fine": self.fine,
            "machine": self.machine,
            "providers": [asdict(one) | {"usable": one.usable} for one in self.providers],
            "problems": list(self.problems),
        }
