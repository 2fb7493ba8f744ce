"""A region's engine as bytes for the core's cache and for compiled models: a header with what it fits, and the engine.

The core compares checksums of what it keeps; this file says for whom it was made. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.lazy_dataclass import dataclass
from ort_py_tensorrt.profiles import Profile

__all__ = ["Artifact", "pack", "unpack"]

_MAGIC = b"ortpyTRT1"


@dataclass(frozen=True, slots=True)
class Artifact:
    """An engine and its border.

    Attributes:
        facts: What has to be equal where it is restored.
        profile: Shapes that it was built for.
        inputs: Names of the region's inputs, in order.
        outputs: Names of its outputs.
        engine: The engine.
    """

    facts: Mapping[str, Any]
    profile: Profile
    inputs: Sequence[str]
    outputs: Sequence[str]
    engine: bytes


def pack(artifact: Artifact) -> bytes:
    """Return an artifact as bytes."""
    header = {
        "facts": dict(artifact.facts),
        "profile": artifact.profile.to_json(),
        "inputs": list(artifact.inputs),
        "outputs": list(artifact.outputs),
    }
    text = json.dumps(header, sort_keys=True).encode()
    return b"".join([_MAGIC, len(text).to_bytes(4, "little"), text, artifact.engine])


def unpack(data: bytes) -> Artifact:
    """Read an artifact.

    Raises:
        ValueError: It is none of this provider's.
    """
    if not data.startswith(_MAGIC):
        raise ValueError("this is no engine of ort-py's")
    start = len(_MAGIC) + 4
    end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
    header = json.loads(data[start:end])
    return Artifact(
        header["facts"], Profile.from_json(header["profile"]), header["inputs"], header["outputs"], data[end:]
    )
