"""Compiled models for the core's cache: OpenVINO's export, with a header that says what it fits.

Data only. OpenVINO's importer takes a changed byte for a weight, or ends the process: what it reads is compared with a
checksum before.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

from ort_py.contracts import ArtifactValidity
from ort_py_openvino.properties import Target
from ort_py_openvino.runtime import core

__all__ = ["pack", "unpack", "validity"]

_MAGIC = b"ortpyOV4"
_DIGEST_BYTES = 16
_START = len(_MAGIC) + _DIGEST_BYTES


def pack(header: dict[str, Any], blob: bytes, target: Target) -> bytes:
    """One artifact.

    Args:
        header: Names of inputs, number of outputs.
        blob: What OpenVINO exported.
        target: What it was compiled for.
    """
    text = json.dumps({**header, "fits": _fits(target)}).encode()
    length = struct.pack("<I", len(text))
    return b"".join([_MAGIC, _digest(length, text, blob), length, text, blob])


def unpack(artifact: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and export. Only `validity` compares the checksum: the core asks for it before.

    Raises:
        ValueError: It is none of ours.
    """
    if len(artifact) < _START + 4 or artifact[: len(_MAGIC)] != _MAGIC:
        raise ValueError("this is not an artifact of OpenVINOExecutionProvider")
    (length,) = struct.unpack_from("<I", artifact, _START)
    end = _START + 4 + length
    header: dict[str, Any] = json.loads(artifact[_START + 4 : end])
    return header, artifact[end:]


def validity(artifact: bytes, target: Target) -> ArtifactValidity:
    """Return whether an artifact can be imported here."""
    if artifact[len(_MAGIC) : _START] != _digest(memoryview(artifact)[_START:]):
        return ArtifactValidity.UNSUPPORTED
    try:
        header, _ = unpack(artifact)
    except ValueError:
        return ArtifactValidity.UNSUPPORTED
    return ArtifactValidity.VALID if header.get("fits") == _fits(target) else ArtifactValidity.STALE


def _digest(*parts: bytes | memoryview) -> bytes:
    content = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        content.update(part)
    return content.digest()


def _fits(target: Target) -> str:
    first = target.device.split(":")[0].split(".")[0]
    family = first if first in {"CPU", "GPU", "NPU"} else "CPU"
    found = core().get_versions(family)
    builds = sorted(f"{name} {version.build_number}" for name, version in found.items())
    return f"{'; '.join(builds)}; {_device_name(family)}; {target.key}"


def _device_name(family: str) -> str:
    return str(core().get_property(family, "FULL_DEVICE_NAME"))
