"""Compiled artifacts of providers: bytes under a key over everything they depend on.

Comes after `store`, which keeps them. It does not depend on providers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ort_py.hashing import blake2b

if TYPE_CHECKING:
    from ort_py.cache.store import FileStore

_KIND = "artifact"


def artifact_key(parts: Iterable[str | bytes]) -> str:
    """A key over everything an artifact depends on: model, provider, versions, device, options, shapes."""
    digest = blake2b(digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


class ArtifactCache:
    """Artifacts in a store.

    Args:
        store: The folder that they are kept in, together with other things.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store

    def get(self, key: str) -> bytes | None:
        """Read an artifact. Returns None if there is none or it is damaged."""
        from ort_py.cache.format import description_of  # sessions without a cache do not need it

        content = self._store.read(key, _KIND)
        return None if content is None else description_of(content)[0]

    def put(self, key: str, artifact: bytes) -> bool:
        """Store an artifact. Returns whether it was stored. A full or read-only disk is not an error."""
        return self._store.put(key, _KIND, artifact)
