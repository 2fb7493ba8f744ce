"""The providers of the devices that a policy, or a function of the program, chooses for a session.

Comes before `provider_choice`, which imports it only for sessions that choose devices. It does not know who fills the
role of the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ort_py.discovery import CPU_ROLE, default_catalog
from ort_py.discovery.ep_devices import OrtEpDevice, get_ep_devices, provider_of
from ort_py.enums import OrtExecutionProviderDevicePolicy as Policy
from ort_py.errors import Fail
from ort_py.graph.reading.given_model import GivenModel
from ort_py.options import SessionOptions, additions_of
from ort_py.value_enums import OrtHardwareDeviceType as Kind

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


def by_policy(policy: Policy) -> list[str] | None:
    """Return the providers of the devices that a policy prefers; None where every usable provider is used by rank."""
    kinds = _PREFERRED.get(policy)
    if kinds is None:
        return None
    found = get_ep_devices()
    names = [device.ep_name for kind in kinds for device in found if device.device.type == kind and _answers(device)]
    return [*(name for name in dict.fromkeys(names) if name != CPU_ROLE), CPU_ROLE]


def _answers(device: OrtEpDevice) -> bool:
    """Return whether a policy may choose the provider. The CPU is a role; who fills it is not the policy's business,
    and who runs there only where it is named does not for a policy.
    """
    record = default_catalog().record(device.ep_name)
    if record is None:
        return True
    return record.stands_in_for != CPU_ROLE and (record.automatic or device.device.type != Kind.CPU)


def by_delegate(options: SessionOptions, source: GivenModel | None) -> list[str]:
    """Return the providers of the devices that the program's own function chooses.

    Args:
        source: The model, for a function that wants to know what it says about itself.

    Raises:
        Fail: The function raised, or chose nothing.
    """
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
