"""Sessions and values where onnxruntime keeps them; applications import some from here, mostly for annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ort_py import (
    AdapterFormat,
    InferenceSession,
    IOBinding,
    ModelCompiler,
    OrtDevice,
    OrtValue,
    SparseTensor,
    copy_tensors,
    get_all_providers,
    get_available_providers,
)

__all__ = [
    "AdapterFormat",
    "IOBinding",
    "InferenceSession",
    "ModelCompiler",
    "OrtDevice",
    "OrtValue",
    "Session",
    "SparseTensor",
    "check_and_normalize_provider_args",
    "copy_tensors",
    "get_all_providers",
    "get_available_providers",
]

Session = InferenceSession
"""onnxruntime's base of sessions; here there is one class."""


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
