"""The recipe of an engine: the model it was made of, by reference or as bytes, with its options and providers.

A recipe makes the engine again: with other providers, for a session that is unpickled, or to verify results. It never
holds a part of the engine itself. `open_again` in `opening` follows a recipe; here is what a recipe holds, and how it
shows that a model's file is still the one that was read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ort_py.errors import InvalidArgument, Location
from ort_py.files import FileIdentity
from ort_py.graph.reading.fingerprint import ContentHash, content_hash
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import human_bytes
from ort_py.options import entry_of

if TYPE_CHECKING:
    from ort_py.graph.reading.given_model import GivenModel
    from ort_py.graph.weights.kept_bytes import KeptBytes
    from ort_py.options import SessionOptions

ProviderArgument: TypeAlias = Sequence[str | tuple[str, Mapping[str, Any]]]
"""Providers as a caller gives them: names, or pairs of a name and options."""

KEEP_BYTES_KEY = "session.keep_model_bytes"
"""Config entry: ``"1"`` keeps the bytes of a model of any size for pickling, ``"0"`` of none."""

KEPT_BYTES = 64 << 20
"""Models given as bytes are kept up to this size. Large constants do not count: the engine has them anyway."""


@dataclass(frozen=True, slots=True)
class FileReference:
    """A model's file, as it was when the engine read it.

    Attributes:
        path: Absolute path.
        external: Path, identity and hash of each file of external data; empty where they are not known.
    """

    path: str
    identity: FileIdentity
    fingerprint: ContentHash = field(default_factory=ContentHash)
    external: tuple[tuple[str, FileIdentity, ContentHash], ...] = ()

    def with_content(self, fingerprint: ContentHash, files: Sequence[tuple[str, FileIdentity]]) -> FileReference:
        """The reference with everything that shows whether the file is the same when it is read again.

        Hashes are computed when they are asked for. Pickling does so, and reads all external data for it.

        Args:
            files: Path and identity of each file of external data that was read.
        """
        external = tuple((path, identity, ContentHash("", path, identity)) for path, identity in files)
        return replace(self, fingerprint=fingerprint, external=external)

    def is_unchanged(self) -> bool:
        """Return whether the file's identity shows that its content is the same. Where it does not, the content
        decides.

        Raises:
            InvalidArgument: The file has another size.
        """
        try:
            found = FileIdentity.of(os.stat(self.path))
        except OSError:
            return True  # loading it says what is wrong with it
        if found.size != self.identity.size:
            raise _changed(self.path, f"it had {self.identity.size} bytes and now has {found.size}")
        return found == self.identity


@dataclass(frozen=True, slots=True)
class Recipe:
    """The arguments that an engine was made with.

    Attributes:
        kept: The file, the bytes, a ModelProto, or None where the model was not kept.
    """

    kept: FileReference | KeptBytes | bytes | Any
    reason: str
    options: SessionOptions
    providers: Any
    provider_options: Any
    fallback_enabled: bool = True

    @property
    def source(self) -> FileReference | bytes | Any:
        """The file, the bytes, a ModelProto, or None."""
        from ort_py.graph.weights.kept_bytes import KeptBytes  # only a session that is made again asks

        return self.kept.content() if isinstance(self.kept, KeptBytes) else self.kept

    def condensed(self, kept: KeptBytes | None) -> Recipe:
        """The recipe with the model's bytes given up for what is left of them beside the constants.

        Args:
            kept: The rest of the bytes, where the engine was made from bytes most of which are constants.
        """
        wanted = entry_of(self.options, KEEP_BYTES_KEY)
        if kept is None or isinstance(self.kept, FileReference) or hasattr(self.kept, "ByteSize") or wanted == "0":
            return self
        if wanted != "1" and kept.nbytes > KEPT_BYTES:
            return self
        return replace(self, kept=kept, reason="")

    def closed(self) -> Recipe:
        """The recipe of a closed engine: the model by its file, or not at all, since bytes would keep its weights."""
        if self.kept is None or isinstance(self.kept, FileReference):
            return self
        return replace(self, kept=None, reason="the session was closed, and released the model that it was made from")

    def to_pickle(
        self, fingerprint: ContentHash, files: Sequence[tuple[str, FileIdentity]], *, fallback_enabled: bool, where: str
    ) -> Recipe:
        """The recipe as another process can follow it: the model by its file, or as bytes.

        Args:
            files: Path and identity of each file of external data that was read.

        Raises:
            InvalidArgument: The model was not kept, or the message that it was made from was changed since.
        """
        source = self.source
        why = self.reason
        fix = f"Create it from a path, or set the session config entry '{KEEP_BYTES_KEY}' to '1'."
        if isinstance(source, FileReference):
            source = source.with_content(fingerprint, files)
        elif source is not None and not isinstance(source, bytes):
            source = source.SerializeToString(deterministic=True)
            if content_hash(source) != fingerprint:
                source, why = None, "the ModelProto that it was created from was changed afterwards"
                fix = "Create it from the bytes of a model, or do not change the message."
        if source is None:
            raise InvalidArgument("This session cannot be pickled or copied deeply.", where=where, why=why, fix=fix)
        return replace(self, kept=source, fallback_enabled=fallback_enabled)


def recipe_of(
    source: GivenModel, options: SessionOptions, providers: Any, provider_options: Any, *, fallback_enabled: bool
) -> Recipe:
    """Write down what an engine is about to be made of.

    Args:
        options: The session's own options, with what further arguments add to them.
        providers: As given; lists are copied.
    """
    kept, reason = _kept(source, options)
    return Recipe(kept, reason, options, _copied(providers), _copied(provider_options), fallback_enabled)


def _kept(source: GivenModel, options: SessionOptions) -> tuple[Any, str]:
    if source.path:
        path = os.path.abspath(source.path)  # links stay as they are, as external data needs
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return None, "the file did not exist"  # loading it says so better
        return FileReference(path, FileIdentity.of(found)), ""
    # A message is kept as it is and made bytes when they are asked for.
    content, size = source.content, source.nbytes
    wanted = entry_of(options, KEEP_BYTES_KEY)
    if wanted == "0" or (wanted != "1" and size > KEPT_BYTES):
        return None, f"its model was passed as {human_bytes(size)} in memory, which were not kept"
    return bytes(content) if isinstance(content, bytearray | memoryview) else content, ""


def _copied(given: Any) -> Any:
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else given


def expect_same_model(
    reference: FileReference, fingerprint: ContentHash, files: Sequence[tuple[str, FileIdentity]]
) -> None:
    """Check that a model which was read again is the one of a reference; a copied or touched file is.

    Args:
        files: Path and identity of each file of external data that was read now.

    Raises:
        InvalidArgument: It is another model, or has other external data.
    """
    if not reference.is_unchanged() and fingerprint != reference.fingerprint:
        raise _changed(reference.path, "its content is different")
    for (path, identity), (_, former, digest) in zip(files, reference.external, strict=False):
        if identity != former and (identity.size != former.size or ContentHash("", path, identity) != digest):
            raise _changed(path, "its content is different")


def _changed(path: str, why: str) -> InvalidArgument:
    return InvalidArgument(
        "The model's file was changed after the session was created.",
        where=Location(file=path),
        why=why,
        fix="Create a new session from the current file.",
    )
