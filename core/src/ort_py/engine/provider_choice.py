"""The providers that a session requests from `discovery`: its arguments, else its options, else a policy or a delegate.

Comes before `provider_set`, which creates what is chosen. Here is also what compatibility mode makes of a request that
onnxruntime would refuse and then answer with its CPU provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.discovery import CPU_ROLE, Selection, default_catalog, select_providers
from ort_py.discovery.environment import compat_mode
from ort_py.discovery.ep_devices import OrtEpDevice, get_ep_devices, provider_of
from ort_py.discovery.explanation import why_in_reserve
from ort_py.discovery.known_names import is_known
from ort_py.discovery.refusals import misspelt
from ort_py.discovery.user_warnings import warn_user
from ort_py.engine.tuned_placement import entry_names
from ort_py.enums import OrtExecutionProviderDevicePolicy as Policy
from ort_py.enums import OrtHardwareDeviceType as Kind
from ort_py.errors import Fail, InvalidArgument, OrtPyError, ProviderFallbackWarning
from ort_py.graph.reading.given_model import GivenModel
from ort_py.options import SessionOptions, additions_of, entry_of

__all__ = ["NO_CPU", "choose", "selection_notes"]

NO_CPU = "session.disable_cpu_ep_fallback"
"""Config entry: ``"1"`` forbids that nodes run on the CPU."""

_MOST_DEVICES = 8
"""Number of devices that a delegate may choose, as in onnxruntime."""

_PREFERRED: dict[Policy, tuple[Kind, ...]] = {
    Policy.PREFER_CPU: (Kind.CPU,),
    Policy.PREFER_NPU: (Kind.NPU, Kind.CPU),
    Policy.PREFER_GPU: (Kind.GPU, Kind.CPU),
    Policy.MAX_EFFICIENCY: (Kind.NPU, Kind.GPU, Kind.CPU),
    Policy.MIN_OVERALL_POWER: (Kind.NPU, Kind.CPU),
}
"""Kinds of devices each policy takes, in order; those not named take every usable provider by rank."""


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
        providers, provider_options = [(name, {}) for name in _delegated(options, source)], None
    elif added.policy is not None:
        providers, provider_options = _by_policy(added.policy), None
    if entry_of(options, NO_CPU) == "1" and not _is_empty(providers) and CPU_ROLE in _names(providers):
        raise InvalidArgument(
            f"{CPU_ROLE} is requested, but the config entry '{NO_CPU}' forbids it.",
            fix="Leave one of them out.",
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
            raise misspelt(name, catalog).error


def _by_policy(policy: Policy) -> list[str] | None:
    kinds = _PREFERRED.get(policy)
    if kinds is None:
        return None
    found = get_ep_devices()
    names = [device.ep_name for kind in kinds for device in found if device.device.type == kind]
    # The CPU is a role; who fills it is not the policy's business.
    chosen = [name for name in dict.fromkeys(names) if not _stands_in(name)]
    return [*(name for name in chosen if name != CPU_ROLE), CPU_ROLE]


def _stands_in(name: str) -> bool:
    record = default_catalog().record(name)
    return record is not None and record.stands_in_for == CPU_ROLE


def _delegated(options: SessionOptions, source: GivenModel | None) -> list[str]:
    delegate = additions_of(options).delegate
    assert delegate is not None  # the caller has looked
    assert source is not None  # without a model, no delegate is called
    devices = get_ep_devices()
    model = _described(options, source)
    try:
        chosen = list(delegate(devices, model, {}, _MOST_DEVICES))
        names = list(dict.fromkeys(provider_of([device]) for device in chosen))
    except Exception as error:  # the program's own function: whatever it raises is reported as onnxruntime reports it
        raise Fail(
            "The function that chooses the session's devices failed.",
            why=f"{type(error).__name__}: {error}",
            fix="Return a list of OrtEpDevices from those that were passed to it.",
        ) from error
    if not names:
        raise Fail(
            "The function that chooses the session's devices chose none.",
            why=f"it was given {_shown(devices)}",
            fix="Return at least one device.",
        )
    return names


def _shown(devices: Sequence[OrtEpDevice]) -> str:
    return ", ".join(f"{device.ep_name} on {device.device.type.name}" for device in devices) or "no device"


def _described(options: SessionOptions, source: GivenModel) -> Mapping[str, str]:
    """The description in the model's file. It is read once more for this, since a delegate is asked before loading."""
    from ort_py.graph.reading.sources import read_source

    proto = read_source(source.content, options.limits, None).proto
    return {
        "doc_string": proto.doc_string,
        "domain": proto.domain,
        "graph_description": proto.graph.doc_string,
        "graph_name": proto.graph.name,
        "model_version": str(proto.model_version or 2**63 - 1),
        "producer_name": proto.producer_name,
        "producer_version": proto.producer_version,
        **{entry.key: entry.value for entry in proto.metadata_props},
    }
