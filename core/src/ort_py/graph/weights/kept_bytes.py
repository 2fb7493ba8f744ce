"""Bytes of a model that its constants make up, kept without holding them twice.

A session made from bytes can be pickled and made again; what it keeps for that is what lies between the large tensors,
and the tensors themselves, which it has anyway. It is independent of protobuf.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ort_py.graph.weights.unpack import stored_as_is
from ort_py.graph.weights.weights import ArrayWeight


class KeptBytes:
    """Bytes in parts, some of which are constants.

    Args:
        parts: In order: bytes, or the constant that they were and its bytes. Those that are other bytes in memory than
            in a file, being packed there, are kept as bytes.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Iterable[bytes | tuple[ArrayWeight | None, memoryview]]) -> None:
        self._parts: list[bytes | ArrayWeight] = []
        for part in parts:
            if isinstance(part, bytes):
                self._parts.append(part)
                continue
            weight, raw = part
            as_is = weight is not None and stored_as_is(weight.data_type)
            self._parts.append(weight if weight is not None and as_is else bytes(raw))

    @property
    def nbytes(self) -> int:
        """Memory it takes beside the constants."""
        return sum(len(part) for part in self._parts if isinstance(part, bytes))

    @property
    def weights(self) -> list[ArrayWeight]:
        return [part for part in self._parts if not isinstance(part, bytes)]

    def content(self) -> bytes:
        return b"".join(
            part if isinstance(part, bytes) else part.array().reshape(-1).view(np.uint8).data for part in self._parts
        )
