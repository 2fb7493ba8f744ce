"""Compiled models for the core's cache: OpenVINO's export, with a header that says what it fits.

Data only; OpenVINO's importer checks its own part.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from ort_py.contracts import ArtifactValidity
from ort_py_openvino.properties import Target
from ort_py_openvino.runtime import core

__all__ = ["pack", "unpack", "validity"]

_MAGIC = b"ortpyOV1"


def pack(header: dict[str, Any], blob: bytes, target: Target) -> bytes:
    """One artifact.

    Args:
        header: Names of inputs, number of outputs.
        blob: What OpenVINO exported.
        target: What it was compiled for.
    """
    text = json.dumps({**header, "fits": _fits(target)}).encode()
    return b"".join([_MAGIC, struct.pack("<I", len(text)), text, blob])


def unpack(artifact: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and export.

    Raises:
        ValueError: It is none of ours.
    """
    if artifact[:8] != _MAGIC:
        raise ValueError("this is no artifact of OpenVINOExecutionProvider")
    (length,) = struct.unpack_from("<I", artifact, 8)
    header: dict[str, Any] = json.loads(artifact[12 : 12 + length])
    return header, artifact[12 + length :]


def validity(artifact: bytes, target: Target) -> ArtifactValidity:
    """Whether an artifact can be imported here."""
    try:
        header, _ = unpack(artifact)
    except (ValueError, struct.error):
        return ArtifactValidity.UNSUPPORTED
    return ArtifactValidity.VALID if header.get("fits") == _fits(target) else ArtifactValidity.STALE


def _fits(target: Target) -> str:
    first = target.device.split(":")[0].split(".")[0]
    family = first if first in {"CPU", "GPU", "NPU"} else "CPU"
    found = core().get_versions(family)
    builds = sorted(f"{name} {version.build_number}" for name, version in found.items())
    return f"{'; '.join(builds)}; {_device_name(family)}; {target.key}"


def _device_name(family: str) -> str:
    return str(core().get_property(family, "FULL_DEVICE_NAME"))
