"""The conditions that a compiled model was made for, and the reasons why they are not those of a session here.

Comes before `compiled_model`, which decides what follows from them. It does not depend on files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from ort_py.cache.circumstances import code_stamp, kind_of_machine, package_of
from ort_py.contracts import IExecutionProvider
from ort_py.devices import HOST
from ort_py.discovery import ProviderRecord
from ort_py.installed import versions_of
from ort_py.options import SessionOptions, additions_of, entries_of, specs_of, values_of
from ort_py.options.config_entries import effect_of
from ort_py.options.spec import Effect

_OPTIMISATION = frozenset(
    {
        *("graph_optimization_level", "disabled_transforms", "cost_model"),
        *("optimization.disable_specified_optimizers", "session.placement"),
    }
)
"""Options of what has been done by the time that a compiled model is loaded: its own settings count."""

_AT_LOAD = frozenset({"execution_mode", "strict", "session.disable_cpu_ep_fallback"})
"""Options that decide about a program only when it is planned or checked, which every session does."""


def made_by(pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]]) -> dict[str, Any]:
    """The machine, the versions and the code that prepare models here, as a compiled model describes them.

    Args:
        pairs: The providers that take part.
    """
    distributions = {"ort-py-core", *(record.distribution for record, _ in pairs if record.distribution)}
    modules = {"ort_py", *(kind.__module__ for _, one in pairs for kind in type(one).__mro__)}
    packages = {package_of(module) for module in modules} - {"abc", "builtins", "typing"}
    return {
        "machine": kind_of_machine(),
        "versions": {name: version for name, version in versions_of(frozenset(distributions)).items() if version},
        "code": {package: code_stamp(package) for package in sorted(packages)},
        "devices": {
            provider.name: sorted({str(device) for device in (provider.device, *record.devices)})
            for record, provider in pairs
            if provider.device != HOST
        },
    }


def prepared_with(options: SessionOptions) -> dict[str, Any]:
    """The options that decided how a model was prepared, as a compiled model says them."""
    added = additions_of(options)
    effects = {spec.name: spec.effect for spec in specs_of(SessionOptions)}
    return {
        "attributes": {
            name: _plain(value)
            for name, value in values_of(options).items()
            if effects[name] is Effect.PROGRAM and name not in _AT_LOAD
        },
        "entries": {
            key: value
            for key, value in entries_of(options).items()
            if effect_of(key) is Effect.PROGRAM and key not in _AT_LOAD
        },
        "dimensions": dict(added.dimensions),
        "denotations": dict(added.denotations),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return sorted(value) if isinstance(value, tuple | list | set | frozenset) else value


def differences(about: Mapping[str, Any], options: SessionOptions) -> list[str]:
    """Each reason why a compiled model does not fit, as far as no provider has to be asked."""
    reasons: list[str] = []
    machine, made = kind_of_machine(), about["made_by"]
    for name, found in machine.items():
        wanted = str(made["machine"].get(name, ""))
        if wanted == found:
            continue
        if name == "instructions":
            lacking, further = set(wanted.split()) - set(found.split()), set(found.split()) - set(wanted.split())
            if lacking:
                reasons.append(f"it was compiled for instructions that are not here: {' '.join(sorted(lacking))}")
            if further:
                reasons.append(f"it was compiled without instructions that are here: {' '.join(sorted(further))}")
        else:
            reasons.append(f"{name}: it was compiled for {wanted or 'unknown'}, and this is {found or 'unknown'}")
    versions = versions_of(frozenset(made["versions"]))
    for name, wanted in made["versions"].items():
        if not versions.get(name):
            reasons.append(f"{name} {wanted}, which took part in compiling it, is not installed")
        elif versions[name] != wanted:
            reasons.append(f"it was compiled by {name} {wanted}, and {versions[name]} is installed")
    if options.limits.isolated_inference:
        reasons.append("the session's limits are for models that are not trusted, and a compiled model is not checked")
    return reasons


def take_options(baked: Mapping[str, Any], options: SessionOptions) -> list[str]:
    """Set the options that a model was compiled with; return those that the session wants to be otherwise."""
    reasons: list[str] = []
    defaults = values_of(SessionOptions())
    present = values_of(options)
    specs = {spec.name: spec for spec in specs_of(SessionOptions)}
    for name, value in baked["attributes"].items():
        if name not in specs or _plain(present[name]) == value:
            continue
        if name not in _OPTIMISATION and present[name] != defaults[name]:
            reasons.append(f"it was compiled with {name} = {value!r}, and the session has {_plain(present[name])!r}")
        else:
            setattr(options, name, specs[name].values.carried(value))
    entries = entries_of(options)
    for key in {*baked["entries"], *entries}:
        value = baked["entries"].get(key)
        decides = effect_of(key) is Effect.PROGRAM and key not in _AT_LOAD
        if not decides or entries.get(key) == value:
            continue
        if key in entries and key not in _OPTIMISATION:
            reasons.append(
                f"it was compiled with the config entry '{key}' = {value!r}, and it is {entries[key]!r} here"
            )
        elif value is not None:
            options.add_session_config_entry(key, str(value))
    added = additions_of(options)
    for title, mine, theirs in (
        ("dimension", added.dimensions, baked["dimensions"]),
        ("denotation", added.denotations, baked["denotations"]),
    ):
        for name, size in mine.items():
            if theirs.get(name) != size:
                reasons.append(f"it was compiled without the {title} '{name}' = {size}")
        mine.update({str(name): int(size) for name, size in theirs.items() if name not in mine})
    if added.initializers or added.external_initializers or added.files:
        reasons.append("the session replaces initializers, which have been optimised")
    return reasons


def provider_differences(
    about: Mapping[str, Any],
    pairs: Sequence[tuple[ProviderRecord, IExecutionProvider]],
    provider_options: Mapping[str, Mapping[str, str]],
) -> list[str]:
    made, here = about["made_by"], made_by(pairs)
    reasons = [
        f"it was compiled with the option {key} = {wanted.get(key)!r} of {name}, and the session has {found.get(key)!r}"
        for name, wanted in about["providers"]
        if (found := provider_options.get(name)) is not None
        for key in sorted({*wanted, *found})
        if wanted.get(key) != found.get(key)
    ]
    for name, wanted in made["devices"].items():
        found = here["devices"].get(name)
        if found is None:
            reasons.append(f"{name} takes part in it, and is not a provider of this session")
        elif found != wanted:
            reasons.append(f"it was compiled for {', '.join(wanted)}, and {name} has {', '.join(found)} here")
    # Only of packages that take part on both sides: if a provider is missing here, reading the assignment says so.
    edited = [name for name, stamp in here["code"].items() if made["code"].get(name, stamp) != stamp]
    if edited:
        reasons.append(f"the code of {', '.join(edited)} is another one, of the same version")
    return reasons
