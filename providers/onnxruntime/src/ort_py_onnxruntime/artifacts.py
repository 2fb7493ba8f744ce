"""Compiled forms of a provider, for the core's cache: a model with EPContext nodes, and a header with what it fits.

Comes after `settings`, before `provider`. onnxruntime's providers keep what their compilers made in the attributes of
such nodes. The core compares checksums of what it keeps; this file says for whom it was made.
"""

from __future__ import annotations

import json
from importlib import metadata
from typing import Any

from ort_py.contracts import ArtifactValidity
from ort_py_onnxruntime.installed import find
from ort_py_onnxruntime.native import native
from ort_py_onnxruntime.settings import Settings

__all__ = ["pack", "unpack", "validity"]

_MAGIC = b"ortpyORT1"


def pack(model: bytes, settings: Settings) -> bytes:
    """One artifact.

    Args:
        model: With EPContext nodes, and the data in them.
        settings: What it was compiled for.
    """
    text = json.dumps(_fits(settings), sort_keys=True).encode()
    return b"".join([_MAGIC, len(text).to_bytes(4, "little"), text, model])


def unpack(artifact: bytes) -> tuple[Any, bytes]:
    """Header and model.

    Raises:
        ValueError: It is none of the bridge's.
    """
    if not artifact.startswith(_MAGIC):
        raise ValueError("this is not an artifact of the bridge to onnxruntime")
    start = len(_MAGIC) + 4
    end = start + int.from_bytes(artifact[len(_MAGIC) : start], "little")
    return json.loads(artifact[start:end]), artifact[end:]


def validity(artifact: bytes, settings: Settings) -> ArtifactValidity:
    """Return whether an artifact was made by this onnxruntime, with these providers, for these devices."""
    try:
        fits, _ = unpack(artifact)
    except ValueError:
        return ArtifactValidity.UNSUPPORTED
    return ArtifactValidity.VALID if fits == _fits(settings) else ArtifactValidity.STALE


def _fits(settings: Settings) -> dict[str, Any]:
    return {
        "onnxruntime": native().get_version_string(),
        "providers": [
            {
                "name": used.name,
                "version": _version_of(used.name),
                "options": dict(used.options),
                "devices": [_told(device) for device in used.devices],
            }
            for used in settings.providers
        ],
    }


def _version_of(name: str) -> str:
    """Version of the package of the plug-in; empty where the provider is built in."""
    plugin = find().plugin(name)
    try:
        return "" if plugin is None else metadata.version(plugin.module.replace("_", "-"))
    except metadata.PackageNotFoundError:  # a folder on the path that no installer wrote
        return ""


def _told(device: Any) -> str:
    """A device, as far as onnxruntime tells one from another."""
    hardware = device.device
    return f"{hardware.type.name} {hardware.vendor} {hardware.vendor_id:x}:{hardware.device_id:x}"
