"""Providers that are installed, from metadata alone, and whose name each one is. Imports no plug-in.

Comes after `hooks.entry_points`, before `loading`. Two distributions that claim one name are both in *conflict*, with
one exception: a name onnxruntime knows and for which ort-py has a distribution stays with that distribution, to which
others *yield*, so that installing another package never disables ours. Blocked entries take no part in
conflicts: blocking one ends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ort_py.discovery.known_names import package_for
from ort_py.discovery.records import ProviderRecord, RecordState
from ort_py.hooks.entry_points import InstalledEntryPoint, Scan, scan
from ort_py.hooks.switches import BLOCK, blocked_reason, normalise_distribution

PROVIDER_GROUP = "ort_py.providers"


def scan_providers() -> Scan:
    """Entry points of all installed providers, by name, then distribution."""
    return scan(PROVIDER_GROUP)


def installed_record(entry: InstalledEntryPoint, entries: Sequence[InstalledEntryPoint]) -> ProviderRecord:
    """The record of an entry as far as metadata and environment decide it: installed, blocked or conflict."""
    record = or_blocked(ProviderRecord.of(entry))
    if record.state is RecordState.BLOCKED:
        return record
    rivals = [
        other
        for other in entries
        if other.name == entry.name and other != entry and not blocked_reason(other.name, other.distribution)
    ]
    if not rivals:
        return record
    named = ", ".join(f"{rival.distribution} {rival.version}".rstrip() for rival in rivals)
    if _owns_name(entry) and not any(_owns_name(rival) for rival in rivals):
        return replace(
            record, reason=f"{named} claims the same name, so it is available only as distribution:{entry.name}"
        )
    if any(_owns_name(rival) for rival in rivals) and not _owns_name(entry):
        return replace(
            record, state=RecordState.YIELDED, reason=f"the name is that of {named}", fix=f"Ask for '{record.address}'."
        )
    return replace(
        record,
        state=RecordState.CONFLICT,
        reason=f"the name is claimed by two distributions: {record.distribution} {record.version}".rstrip()
        + f" and {named}",
        fix=f"Ask for '{record.address}', uninstall one of them, or set {BLOCK} to the distribution to leave out.",
    )


def or_blocked(record: ProviderRecord) -> ProviderRecord:
    """The record, in the state *blocked* where the environment keeps its provider out."""
    blocked = blocked_reason(record.name, record.distribution)
    if not blocked:
        return record
    return replace(record, state=RecordState.BLOCKED, reason=blocked, fix="Change the environment variable.")


def _owns_name(entry: InstalledEntryPoint) -> bool:
    return normalise_distribution(entry.distribution) == package_for(entry.name)
