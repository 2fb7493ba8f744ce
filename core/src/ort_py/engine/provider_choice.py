"""The providers that a session requests from `discovery`: its arguments, else its options, else devices.

`provider_set` creates the chosen providers. In compatibility mode, a request that onnxruntime would refuse is answered
with the CPU provider, as there. After planning, `check_completion` refuses nodes on the host if the program forbids it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts import IExecutionProvider
from ort_py.devices import HOST
from ort_py.discovery import CPU_ROLE, Selection, default_catalog, select_providers
from ort_py.discovery.environment import compat_mode
from ort_py.discovery.known_names import is_known
from ort_py.discovery.user_warnings import warn_user
from ort_py.engine.tuned_placement import entry_names
from ort_py.errors import EPFail, Fail, InvalidArgument, OrtPyError, ProviderFallbackWarning
from ort_py.fallback.policy import Strictness
from ort_py.graph.reading.given_model import GivenModel
from ort_py.options import SessionOptions, additions_of, entry_of
from ort_py.partition.assignment import Assignment

NO_CPU = "session.disable_cpu_ep_fallback"
"""Config entry: ``"1"`` forbids that nodes run on the CPU."""


def choose(
    providers: Any,
    provider_options: Any,
    options: SessionOptions,
    *,
    source: GivenModel | None,
    strict: str,
    fallback_enabled: bool,
) -> Selection:
    """Choose the providers of a session.

    Args:
        options: Its options, which count where the arguments name no provider.
        source: The model, for a delegate that wants to know what it says about itself.
        strict: ``""``, ``"provider"`` or ``"node"``.
        fallback_enabled: Whether compatibility mode may answer a wrong request with the CPU provider.

    Raises:
        OptionError: The arguments are malformed.
        OrtPyError: A provider that is asked for cannot be had.
    """
    added = additions_of(options)
    if not _is_empty(providers):
        if added.has_providers:
            warn_user(
                "Both the session options and `providers` choose providers: `providers` takes precedence.", UserWarning
            )
    elif added.providers:
        providers, provider_options = [(name, dict(given)) for name, given in added.providers], None
    elif added.delegate is not None:
        from ort_py.engine.device_choice import by_delegate  # few sessions choose devices

        providers, provider_options = [(name, {}) for name in by_delegate(options, source)], None
    elif added.policy is not None:
        from ort_py.engine.device_choice import by_policy

        providers, provider_options = by_policy(added.policy), None
    if entry_of(options, NO_CPU) == "1" and not _is_empty(providers) and CPU_ROLE in _names(providers):
        raise InvalidArgument(
            f"{CPU_ROLE} is requested, but the config entry '{NO_CPU}' forbids it.", fix="Leave one of them out."
        )
    lenient = not strict and compat_mode() and fallback_enabled
    try:
        if not strict and compat_mode() and not fallback_enabled:
            _refuse_unknown(providers)
        return select_providers(
            providers,
            provider_options,
            catalog=default_catalog(),
            strict=strict,
            pin_plain_cpu=options.pin_cpu,
            beside=entry_names(options),
        )
    except (ValueError, RuntimeError) as error:
        if not lenient:
            raise
        what = error.what if isinstance(error, OrtPyError) else str(error)
        warn_user(f"{what} {CPU_ROLE} is used instead.", ProviderFallbackWarning)
        return select_providers([CPU_ROLE], strict=strict, pin_plain_cpu=options.pin_cpu)


def selection_notes(selection: Selection) -> list[str]:
    """Lines for the load report: who was chosen and why, what was left out, which options have no effect."""
    notes = [f"{one.record.name}: {one.origin.value}" for one in selection.selected]
    notes += [f"{record.name}: left out, {record.state.value}: {record.reason}" for record in selection.passed_over]
    if selection.reserve:
        from ort_py.discovery.explanation import why_in_reserve

        reasons = why_in_reserve(selection)
        notes += [f"{one.record.name}: left out, {reasons[one.record.address]}" for one in selection.reserve]
    for one in selection.selected:
        notes += [f"{one.record.name}: option '{key}' ignored: {why}" for key, why in one.ignored_options.items()]
    return notes


def _is_empty(providers: Any) -> bool:
    return providers is None or (isinstance(providers, Sequence) and not providers)


def _names(providers: Any) -> list[str]:
    entries = providers if isinstance(providers, Sequence) and not isinstance(providers, str) else []
    return [entry[0] if isinstance(entry, tuple) and entry else entry for entry in entries]


def _refuse_unknown(providers: Any) -> None:
    """Raise for unknown names, and only for these, as onnxruntime does without fallback."""
    catalog = default_catalog()
    for name in _names(providers):
        if isinstance(name, str) and catalog.record(name) is None and not is_known(name):
            from ort_py.discovery.refusals import misspelt  # only a mistake needs it

            raise misspelt(name, catalog).error


def check_completion(
    assignment: Assignment, providers: Sequence[IExecutionProvider], options: SessionOptions, strictness: Strictness
) -> None:
    """Refuse nodes on the host where that is forbidden.

    Args:
        strictness: In mode ``node``, a session that asked for an accelerator may not run nodes on the host.

    Raises:
        Fail: The config entry forbids the CPU, and there is such a node.
        EPFail: Strict mode ``node`` does.
    """
    devices = {provider.name: provider.device for provider in providers}
    forbidden = entry_of(options, NO_CPU) == "1"
    strict = strictness is Strictness.NODE and any(device != HOST for device in devices.values())
    if not forbidden and not strict:
        return
    on_host = [node for node, assigned in assignment if devices.get(assigned.provider) == HOST]
    if on_host and forbidden:
        raise Fail(
            f"{len(on_host)} node(s) would run on the CPU, which the config entry '{NO_CPU}' forbids.",
            where=on_host[0].location,
            why=(
                "no other provider of the session can run them; the first one would run on "
                f"{assignment.nodes[on_host[0]].provider}"
            ),
            fix="Leave the entry out, or name a provider that runs the whole model.",
        )
    if on_host:
        raise EPFail(
            f"{len(on_host)} node(s) would run on the host, which strict mode 'node' forbids.",
            where=on_host[0].location,
            why=[
                f"{node.name}: {provider}: {reason}"
                for node in on_host[:10]
                for provider, reason in assignment.nodes[node].refusals
            ],
            fix="Use strict mode 'provider', or a model whose operators the provider has.",
        )
