"""How a session is made again: what pickle, deepcopy and other processes get of it.

A recipe, never the session's state: the model by reference to its file, or its bytes, with the options and providers
as they were asked for. Whoever unpickles it loads the model anew, with the providers of that process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, cast

from ort_py.errors import InvalidArgument, Location
from ort_py.execution.frame import session_closed
from ort_py.files import FileIdentity
from ort_py.graph.reading.fingerprint import ContentHash, content_hash
from ort_py.graph.weights.kept_bytes import KeptBytes
from ort_py.limits import human_bytes
from ort_py.options import SessionOptions

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession
    from ort_py.engine.construction import Construction

__all__ = [
    "KEEP_BYTES_KEY",
    "FileReference",
    "Recipe",
    "Reopenable",
    "expect_same_model",
    "external_files",
    "recipe_of",
    "reopen",
    "state_of",
    "with_content",
]

KEEP_BYTES_KEY = "session.keep_model_bytes"
"""Config entry: ``"1"`` keeps the bytes of a model of any size for pickling, ``"0"`` of none."""

KEPT_BYTES = 64 << 20
"""Models given as bytes are kept up to this size, large constants not counted, which the session has anyway."""


@dataclass(frozen=True, slots=True)
class FileReference:
    """A model's file, as it was when the session read it.

    Attributes:
        path: Absolute path.
        identity: Which file it was, with which content.
        fingerprint: Hash of its content.
        external: Path, identity and hash of each file of external data; empty where they are not known.
    """

    path: str
    identity: FileIdentity
    fingerprint: ContentHash = field(default_factory=ContentHash)
    external: tuple[tuple[str, FileIdentity, ContentHash], ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """What ``InferenceSession(...)`` was called with.

    Attributes:
        kept: The file, the bytes, a ModelProto, or None where the model was not kept.
        reason: Why it was not kept.
        options: The session's own copy of the options.
        providers, provider_options: As given.
        fallback_enabled: Whether fallback is on.
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
        return self.kept.content() if isinstance(self.kept, KeptBytes) else self.kept

    def condensed(self, kept: KeptBytes | None) -> Recipe:
        """The recipe with the model's bytes given up for what is left of them beside the constants.

        Args:
            kept: That, where the session was made from bytes most of which are constants.
        """
        wanted = self.options.entry(KEEP_BYTES_KEY)
        if kept is None or isinstance(self.kept, FileReference) or hasattr(self.kept, "ByteSize") or wanted == "0":
            return self
        if wanted != "1" and kept.nbytes > KEPT_BYTES:
            return self
        return replace(self, kept=kept, reason="")


def recipe_of(source: Any, options: SessionOptions, providers: Any, provider_options: Any) -> Recipe:
    """Note what a session is made of, before it is made.

    Args:
        source: What the caller gave as the model.
        options: The session's own options, with what further arguments add to them.
        providers: As given; lists are copied.
        provider_options: As given.
    """
    kept, reason = _kept(source, options)
    return Recipe(kept, reason, options, _copied(providers), _copied(provider_options))


def _kept(source: Any, options: SessionOptions) -> tuple[Any, str]:
    if isinstance(source, str | os.PathLike):
        path = os.path.abspath(os.fsdecode(source))  # noqa: PTH100 - links stay as they are, as external data needs
        try:
            found = os.stat(path)  # noqa: PTH116 - a Path is ten times the cost of the call
        except (OSError, ValueError):
            return None, "the file was not there"  # loading it says so better
        return FileReference(path, FileIdentity.of(found)), ""
    # A message is kept as it is and made bytes when they are asked for.
    size = source.ByteSize() if hasattr(source, "ByteSize") else memoryview(source).nbytes if _is_bytes(source) else 0
    wanted = options.entry(KEEP_BYTES_KEY)
    if wanted == "0" or (wanted != "1" and size > KEPT_BYTES):
        return None, f"its model was given as {human_bytes(size)} of bytes, which were not kept"
    return bytes(source) if isinstance(source, bytearray | memoryview) else source, ""


def _is_bytes(source: Any) -> bool:
    return isinstance(source, bytes | bytearray | memoryview)


def _copied(given: Any) -> Any:
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else given


class Reopenable:
    """Pickling and copying of sessions."""

    def __copy__(self) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        session = _session(self)
        if session.state == "closed":
            raise session_closed()
        return state_of(session, session._recipe, session._built.fingerprint, session._built.policy.enabled)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        reopen(_session(self), state)


def with_content(reference: FileReference, session: InferenceSession) -> FileReference:
    """A session's file with all that tells whether it is the same when it is read again.

    Hashes are computed when they are asked for; pickling does so, and reads all of the external data for it.
    """
    external = tuple(
        (path, identity, ContentHash("", path, identity)) for path, identity in external_files(session._built)
    )
    return replace(reference, fingerprint=session._built.fingerprint, external=external)


def external_files(built: Construction) -> Sequence[tuple[str, FileIdentity]]:
    """Path and identity of each file of external data that a session read."""
    return () if built.model is None else built.model.external_files


def _session(value: Reopenable) -> InferenceSession:
    return cast("InferenceSession", value)  # the only class that has this base


def state_of(
    session: InferenceSession, recipe: Recipe, fingerprint: ContentHash, fallback_enabled: bool
) -> dict[str, Any]:
    """What pickle gets: the recipe, and the attributes a subclass added.

    Args:
        session: The session.
        recipe: Its recipe.
        fingerprint: Hash of its model.
        fallback_enabled: Whether fallback is on now.

    Raises:
        InvalidArgument: The model was not kept.
    """
    source = recipe.source
    if source is None:
        raise InvalidArgument(
            "This session cannot be pickled or copied deeply.",
            where=repr(session),
            why=recipe.reason,
            fix=f"Create it from a path, or set the session config entry '{KEEP_BYTES_KEY}' to '1'.",
        )
    if isinstance(source, FileReference):
        source = with_content(source, session)
    elif not isinstance(source, bytes):
        source = source.SerializeToString(deterministic=True)
        if content_hash(source) != fingerprint:
            raise InvalidArgument(
                "This session cannot be pickled or copied deeply.",
                where=repr(session),
                why="the ModelProto it was made from was changed after that",
                fix="Create it from the bytes of a model, or leave the message as it is.",
            )
    own = session._own_attributes
    return {
        "recipe": replace(recipe, kept=source, fallback_enabled=fallback_enabled),
        "attributes": {name: value for name, value in vars(session).items() if name not in own},
    }


def reopen(session: InferenceSession, state: Mapping[str, Any]) -> None:
    """Make a session from its state.

    Raises:
        InvalidArgument: The model's file is not the one the session had.
        OrtPyError: As for any new session; the providers are those of this process.
    """
    from ort_py.api.session import InferenceSession

    recipe: Recipe = state["recipe"]
    source, reference = recipe.source, None
    if isinstance(source, FileReference):
        reference, source = source, source.path
    if reference is not None:
        _same_file(reference)  # another size is known before it is read
    # Not type(session)(...): a subclass may take other arguments.
    InferenceSession.__init__(
        session,
        source,
        recipe.options,
        recipe.providers,
        recipe.provider_options,
        enable_fallback=int(recipe.fallback_enabled),
    )
    if reference is not None:
        try:
            expect_same_model(reference, session._built.fingerprint, external_files(session._built))
        except InvalidArgument:
            session.close()
            raise
    vars(session).update(state["attributes"])


def _same_file(reference: FileReference) -> bool:
    """Whether the identity tells that the file has the same content; where it does not, the content decides.

    Raises:
        InvalidArgument: The file has another size.
    """
    try:
        found = FileIdentity.of(os.stat(reference.path))  # noqa: PTH116 - as above
    except OSError:
        return True  # loading it says what is wrong with it
    if found.size != reference.identity.size:
        raise _changed(reference, f"it had {reference.identity.size} bytes and now has {found.size}")
    return found == reference.identity


def expect_same_model(
    reference: FileReference, fingerprint: ContentHash, files: Sequence[tuple[str, FileIdentity]]
) -> None:
    """Make sure that a model which was read again is the one that a session had, as a copied or touched file is.

    Args:
        reference: The file, as it was.
        fingerprint: Hash of the content that was read now.
        files: Path and identity of each file of external data that was read now.

    Raises:
        InvalidArgument: It is another model, or has other external data.
    """
    if not _same_file(reference) and fingerprint != reference.fingerprint:
        raise _changed(reference, "its content is another")
    for (path, identity), (_, former, digest) in zip(files, reference.external, strict=False):
        if identity != former and (identity.size != former.size or ContentHash("", path, identity) != digest):
            raise _changed(replace(reference, path=path), "its content is another")


def _changed(reference: FileReference, why: str) -> InvalidArgument:
    return InvalidArgument(
        "The model's file was changed after the session was made.",
        where=Location(file=reference.path),
        why=why,
        fix="Create another session from the file as it is now.",
    )
