"""The reasons why a provider requested by name cannot be used: a skip with its reason, or the error to raise.

Comes before `selection`, which decides between the two. Every error names the distribution, gives the reason and the
fix, and has the plug-in's own exception as its cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.discovery.catalog import ProviderCatalog, default_catalog
from ort_py.discovery.known_names import KNOWN_PROVIDERS, is_known, package_for
from ort_py.discovery.records import CPU_ROLE, ProviderRecord, RecordState
from ort_py.discovery.suggestions import did_you_mean
from ort_py.errors import (
    InvalidArgument,
    Location,
    OrtPyError,
    PluginError,
    ProviderNotAvailableError,
    ProviderNotFoundError,
)
from ort_py.lazy_dataclass import dataclass

FAULTY = frozenset({RecordState.BROKEN, RecordState.CONFLICT, RecordState.INCOMPATIBLE})
"""States in which something is wrong with the installation; the others are normal on some machine."""

NO_DISTRIBUTION = "No distribution of ort-py provides it; name another provider."
"""Advice about a provider that only onnxruntime has."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A provider asked for that is passed over, and the error this is in strict mode."""

    name: str
    reason: str
    fix: str
    error: OrtPyError


def check_provider_name(name: str) -> None:
    """Check that sessions of this process could use a provider.

    Raises:
        ProviderNotFoundError: No provider has that name. It is also a builtin RuntimeError.
        InvalidArgument: The provider is known, but cannot be used here.
    """
    catalog = default_catalog()
    record = catalog.record(name)
    if record is not None and record.usable:
        return
    if record is None and not is_known(name):
        raise misspelt(name, catalog).error
    raise InvalidArgument(
        f"The provider {name} cannot be added to the session options.",
        where=Location(provider=name),
        why=f"it is {record.state.value}: {record.reason}" if record is not None else "it is not installed",
        fix=(record.fix if record is not None else "") or "Name a provider that get_available_providers() lists.",
    )


def refuse(name: str, record: ProviderRecord) -> Skip:
    """Explain why an installed provider cannot be used.

    Args:
        record: Its record, in any state but *available*.
    """
    kind = PluginError if record.state in {RecordState.BROKEN, RecordState.INCOMPATIBLE} else ProviderNotAvailableError
    error = kind(
        f"The provider {name} is installed, but it is {record.state.value}.",
        where=f"{record.origin}, plug-in {record.entry_point}",
        why=record.reason,
        fix=record.fix,
    )
    error.__cause__ = record.exception
    return Skip(name, f"it is {record.state.value}: {record.reason}", record.fix, error)


def not_installed(name: str) -> Skip:
    """Explain why a provider that onnxruntime knows, but that no installed package provides, cannot be used."""
    package = package_for(name)
    fix = f"pip install {package}" if package else NO_DISTRIBUTION
    error = ProviderNotFoundError(f"The provider {name} is not installed.", where=Location(provider=name), fix=fix)
    return Skip(name, "it is not installed", fix, error)


def misspelt(name: str, catalog: ProviderCatalog) -> Skip:
    """Explain why an unknown name cannot be used, and suggest similar names."""
    installed = catalog.installed()
    ours = sorted({record.name for record in installed})
    names = {**dict.fromkeys(ours), **dict.fromkeys(KNOWN_PROVIDERS)}
    if ":" in name:
        names.update(dict.fromkeys(record.address for record in installed))
    hint = did_you_mean(name, names)
    listed = f"Installed here: {', '.join(ours)}." if ours else "No provider is installed: pip install ort-py-cpu"
    error = ProviderNotFoundError(
        f"There is no provider called '{name}'.",
        why=["No installed distribution has it, and onnxruntime knows no such name.", *catalog.problems],
        fix=f"{hint} {listed}".strip(),
    )
    return Skip(name, "no installed distribution has it, and onnxruntime knows no such name", error.fix, error)


def none_usable(skips: Sequence[Skip], catalog: ProviderCatalog) -> OrtPyError:
    """The error for a session that no provider is left for, with the reason for each one tried."""
    installed = catalog.installed()
    why = [f"{skip.name}: {skip.reason}" for skip in skips]
    if not installed:
        why.append("Only the core is installed, which runs no operator itself.")
        why.extend(catalog.problems)
    fixes = list(dict.fromkeys(skip.fix for skip in skips if skip.fix))
    if not any(record.name == CPU_ROLE for record in installed):
        fixes.append(f"pip install {package_for(CPU_ROLE)}")
    elif skips and not any(skip.name == CPU_ROLE for skip in skips):
        fixes.append(f"add '{CPU_ROLE}' to the providers")
    error = ProviderNotAvailableError(
        "No execution provider is usable for this session.",
        why=why,
        fix="; or ".join(fix.rstrip(".") for fix in dict.fromkeys(fixes)),
    )
    error.__cause__ = next((skip.error.__cause__ for skip in skips if skip.error.__cause__ is not None), None)
    return error
