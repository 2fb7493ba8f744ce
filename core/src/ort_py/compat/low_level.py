"""Functions of onnxruntime's C++ binding that have no place in the public surface; `onnxruntime_pybind11_state` has
them all. Those that ort-py does not have yet raise and say so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.compat.not_yet import missing_function
from ort_py.discovery.ep_devices import OrtEpDevice, OrtHardwareDevice, get_ep_devices
from ort_py.files import read_regular
from ort_py.options import SessionOptions
from ort_py.value_enums import ArenaExtendStrategy, OrtCompiledModelCompatibility, OrtDeviceEpIncompatibilityReason

kNextPowerOfTwo = ArenaExtendStrategy.kNextPowerOfTwo  # noqa: N816 - onnxruntime's names
kSameAsRequested = ArenaExtendStrategy.kSameAsRequested  # noqa: N816

_KERNELS = (
    "See `ort-py explain MODEL` for the provider of each node of a model and the reasons of those that refused it."
)
_QUANTISE = "Quantise the weights with the exporter that makes the model, or with onnxruntime itself, and run it here."

get_all_opkernel_def = missing_function("get_all_opkernel_def", _KERNELS)
get_registered_ep_kernel_defs = missing_function("get_registered_ep_kernel_defs", _KERNELS)
quantize_matmul_2bits = missing_function("quantize_matmul_2bits", _QUANTISE)
quantize_matmul_4bits = missing_function("quantize_matmul_4bits", _QUANTISE)
quantize_matmul_8bits = missing_function("quantize_matmul_8bits", _QUANTISE)
quantize_matmul_bnb4 = missing_function("quantize_matmul_bnb4", _QUANTISE)
quantize_qdq_matmul_2bits = missing_function("quantize_qdq_matmul_2bits", _QUANTISE)
quantize_qdq_matmul_4bits = missing_function("quantize_qdq_matmul_4bits", _QUANTISE)


def get_all_operator_schema() -> list[Any]:
    """Every version of every operator's schema that onnx has: ``onnx.defs.OpSchema`` objects."""
    import onnx

    return list(onnx.defs.get_all_schemas_with_history())


def get_default_session_options() -> SessionOptions:
    return SessionOptions()


def get_hardware_devices() -> list[OrtHardwareDevice]:
    """Hardware that a usable provider runs on, each once."""
    found: list[OrtHardwareDevice] = []
    for device in get_ep_devices():
        if device.device not in found:
            found.append(device.device)
    return found


def get_hardware_device_ep_incompatibility_details(ep_name: str, hardware_device: OrtHardwareDevice) -> dict[str, Any]:
    """Explain why a provider cannot use a device.

    Returns:
        Reasons as a mask of `OrtDeviceEpIncompatibilityReason`, notes as text.
    """
    usable = any(one.ep_name == ep_name and one.device == hardware_device for one in get_ep_devices())
    reasons = OrtDeviceEpIncompatibilityReason.NONE if usable else OrtDeviceEpIncompatibilityReason.UNKNOWN
    notes = "" if usable else f"no usable provider {ep_name} has this device; `ort-py doctor` says why"
    return {"reasons_bitmask": int(reasons), "notes": notes, "error_code": 0}


def get_model_compatibility_for_ep_devices(
    ep_devices: Sequence[OrtEpDevice], compatibility_info: str
) -> OrtCompiledModelCompatibility:
    """Return whether a model compiled elsewhere fits devices: no provider here reads models that onnxruntime's
    compiled.
    """
    return OrtCompiledModelCompatibility.EP_NOT_APPLICABLE


def get_compatibility_info_from_model(model_path: str | os.PathLike[str], ep_name: str) -> str | None:
    """The note of a provider in a model that it compiled, or None."""
    return get_compatibility_info_from_model_bytes(read_regular(model_path), ep_name)


def get_compatibility_info_from_model_bytes(model_bytes: bytes, ep_name: str) -> str | None:
    """The same as `get_compatibility_info_from_model`, for a model in memory."""
    import onnx

    model = onnx.load_model_from_string(model_bytes)
    key = f"ep_compatibility_info.{ep_name}"
    return next((entry.value for entry in model.metadata_props if entry.key == key), None)


def is_dlpack_uint8_tensor(dlpack_tensor: Any, /) -> bool:
    """Return whether a DLPack capsule holds bytes, which may be truth values; the capsule is not used up."""
    from ort_py.values.dlpack import is_uint8

    return is_uint8(dlpack_tensor)


def check_and_normalize_provider_args(
    providers: Sequence[str | tuple[str, Mapping[Any, Any]]] | None,
    provider_options: Sequence[Mapping[Any, Any]] | None,
    available_provider_names: Sequence[str],
) -> tuple[list[str], list[dict[str, str]]]:
    """Names and options of providers in two lists of one length.

    Args:
        providers: Names, or (name, options) pairs.
        provider_options: One mapping a provider, where `providers` has names only.
        available_provider_names: Those that are not among them are left out.

    Raises:
        ValueError: The lists do not fit together.
    """
    if providers is None:
        return [], []
    if provider_options is not None and len(providers) != len(provider_options):
        raise ValueError("providers and provider_options have different lengths: give one mapping a provider.")
    if provider_options is not None and not all(isinstance(provider, str) for provider in providers):
        raise ValueError("Options are given twice: as pairs in providers, and in provider_options. Use one of them.")
    pairs = [
        (provider, provider_options[index] if provider_options else {}) if isinstance(provider, str) else provider
        for index, provider in enumerate(providers)
    ]
    chosen: dict[str, dict[str, str]] = {}
    for name, options in pairs:
        if name in available_provider_names:
            chosen.setdefault(name, {str(key): str(value) for key, value in options.items()})
    return list(chosen), list(chosen.values())
