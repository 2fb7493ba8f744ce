"""Listing a provider: found, compatible, described, and probed quickly without waking anything up.

The probe is looked at in a fresh interpreter (`listing_child`), because this one has imported everything already.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

import pytest

from ort_py import RecordState
from ort_py.contracts import CORE_API_RANGE, ProviderFactory
from ort_py.contracts.version import deprecation
from ort_py.errors import OrtPyError
from ort_py_kit.subject import Subject
from ort_py_kit.suites.base import ProviderChecks, fail
from ort_py_kit.suites.child import module_of, run_child

PROBE_SECONDS = 0.02
"""Seconds that the contract allows a probe."""

_TRIES = 12
"""Fresh processes of which the quickest probe counts: a busy machine makes the others slow."""


class ListingChecks(ProviderChecks):
    """Requirements of `ort-py providers` for every plug-in, and things that must not happen meanwhile."""

    def test_it_is_listed(self) -> None:
        """The provider is found, loads, fits this core and answers its probe; that it is unavailable needs a reason."""
        subject = self.subject()
        try:
            record = subject.record()
        except OrtPyError as error:
            fail(f"{subject.name} is not found: {error.what}", error.why, fix=error.fix or "correct its registration.")
        if record.state is RecordState.INCOMPATIBLE:
            fail(
                f"{subject.name} does not fit this core: {record.reason}.",
                fix=f"let the factory's api_range name versions it was tested with that meet {CORE_API_RANGE}, such as "
                f"ApiRange({CORE_API_RANGE.last}, {CORE_API_RANGE.last}).",
            )
        if record.state is RecordState.UNAVAILABLE:
            if not _loaded(subject).probe().reason.strip():
                fail(
                    f"{subject.name} is unavailable and does not say why.", fix="give Availability a reason and a fix."
                )
            return
        if not record.usable:
            fail(f"{subject.name} is {record.state.value}: {record.reason}.", fix=record.fix or "correct its plug-in.")

    def test_its_contract_versions_are_a_range(self) -> None:
        """The first version is not after the last, and none is newer than those this core knows."""
        versions = _loaded(self.subject()).api_range
        remark = deprecation(versions)
        if remark:
            warnings.warn(f"{self.provider}: {remark}", DeprecationWarning, stacklevel=1)
        if not 1 <= versions.first <= versions.last or versions.last > CORE_API_RANGE.last:
            fail(
                f"{self.provider} declares contract versions {versions.first} to {versions.last}; this core knows "
                f"{CORE_API_RANGE}.",
                fix="declare the versions you have tested with: a later core may drive it wrongly.",
            )

    def test_it_is_described(self) -> None:
        """Members of the factory are the same whenever they are read, and its devices are said by the probe."""
        subject = self.subject()
        factory = _loaded(subject)
        problems = []
        if factory.name != subject.name:
            problems.append(f"its name is {factory.name!r}")
        problems += [
            f"{member} changes from one read to the next"
            for member in ("name", "vendor", "api_range", "device_class", "default_rank", "stands_in_for")
            if getattr(factory, member) != getattr(factory, member)
        ]
        answer = factory.probe()
        if answer.available and not answer.devices:
            problems.append("its probe finds it available, and names no device")
        if problems:
            fail(f"{subject.name} is not described as it should be.", problems, fix="correct these members.")

    def test_its_probe_is_quick(self) -> None:
        """At most 20 ms, in a fresh process, without what it waits for a processor."""
        seconds = min(_quickest(self.subject()))
        if seconds > PROBE_SECONDS:
            fail(
                f"The probe of {self.provider} takes {1000 * seconds:.0f} ms, of which 20 are allowed: every listing "
                "of providers waits for it.",
                fix="look for files, versions or importlib.util.find_spec instead of opening the device; what takes "
                "time belongs into `create`.",
            )

    def test_its_probe_imports_nothing_of_others(self) -> None:
        """Neither loading the plug-in nor probing imports a package of a vendor."""
        foreign = _seen(self.subject())["imported"]
        if foreign:
            fail(
                f"Loading and probing {self.provider} imports packages of others, although the provider is not used "
                "yet.",
                [f"{name} (at the {when})" for name, when in foreign],
                fix=(
                    "import them in `create` or later; in the probe, use importlib.util.find_spec to find out "
                    "whether a package is installed."
                ),
            )

    def test_its_probe_starts_no_thread(self) -> None:
        """A process that lists providers may still fork."""
        threads = _seen(self.subject())["threads"]
        if threads:
            fail(
                f"Loading and probing {self.provider} leaves {threads} new threads: a fork afterwards may hang.",
                fix="start threads in `create`; native libraries start theirs when they are opened.",
            )

    def test_its_probe_prints_nothing(self) -> None:
        """The standard output belongs to the program that lists providers."""
        printed = _seen(self.subject())["printed"]
        if printed:
            fail(
                f"Loading and probing {self.provider} prints {printed[:200]!r}.",
                fix="log with `logging`; switch off the library's own banner.",
            )

    def test_its_probe_survives_a_fork(self) -> None:
        """A forked child is given the same answer as its parent."""
        outcome = _seen(self.subject())["forked"]
        if outcome:
            fail(
                f"After a fork, the probe of {self.provider} {outcome}.",
                fix="keep no thread, lock or handle of the device from the probe.",
            )


def _loaded(subject: Subject) -> ProviderFactory:
    try:
        return subject.factory()
    except OrtPyError:
        pytest.skip(f"{subject.name} is not loaded: see test_it_is_listed")


def _observe(subject: Subject) -> dict[str, Any]:
    _loaded(subject)
    module = module_of(subject)
    done = run_child("listing_child", module, subject.name)
    *printed, last = done.stdout.splitlines() or [""]
    if done.returncode or not last.startswith("{"):
        fail(
            f"Loading and probing {subject.name} in a fresh process fails.",
            [line for line in done.stderr.splitlines() if line.strip()][-3:],
            fix=f"make `import {module}` and the probe work in a process of their own.",
        )
    seen: dict[str, Any] = json.loads(last)
    return seen | {"printed": "\n".join(printed)}


@cache
def _seen(subject_key: Subject) -> dict[str, Any]:
    return _observe(subject_key)


def _quickest(subject: Subject) -> list[float]:
    seconds = [float(_seen(subject)["seconds"])]
    while seconds[-1] > PROBE_SECONDS and len(seconds) < _TRIES:
        seconds.append(float(_observe(subject)["seconds"]))
    return seconds
