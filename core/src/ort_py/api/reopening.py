"""How a session is made again: what pickle, deepcopy and other processes get of it.

A recipe, never the session's state: the model by reference to its file, or its bytes, with the options and providers
as they were asked for. Whoever unpickles it loads the model anew, with the providers of that process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from ort_py.api.options import SessionOptions
from ort_py.errors import InvalidArgument, Location
from ort_py.execution.frame import session_closed
from ort_py.graph.reading.fingerprint import ContentHash, content_hash
from ort_py.graph.weights.kept_bytes import KeptBytes
from ort_py.limits import human_bytes

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession

__all__ = ["KEEP_BYTES_KEY", "FileReference", "Recipe", "Reopenable", "recipe_of", "reopen", "state_of"]

KEEP_BYTES_KEY = "session.keep_model_bytes"
"""Config entry: ``"1"`` keeps the bytes of a model of any size for pickling, ``"0"`` of none."""

KEPT_BYTES = 64 << 20
"""Models given as bytes are kept up to this size, large constants not counted, which the session has anyway."""


@dataclass(frozen=True, slots=True)
class FileReference:
    """A model's file, as it was when the session read it.

    Attributes:
        path: Absolute path.
        size: Its bytes.
        modified_ns: When it was written last.
        fingerprint: Hash of its content, ``""`` where it is not known.
    """

    path: str
    size: int
    modified_ns: int
    fingerprint: str = ""


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
        return FileReference(path, found.st_size, found.st_mtime_ns), ""
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
        source = replace(source, fingerprint=str(fingerprint))
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
    unchanged = reference is None or _same_file(reference)
    # Not type(session)(...): a subclass may take other arguments.
    InferenceSession.__init__(
        session,
        source,
        recipe.options,
        recipe.providers,
        recipe.provider_options,
        enable_fallback=int(recipe.fallback_enabled),
    )
    if reference is not None and not unchanged and session._built.fingerprint != reference.fingerprint:
        session.close()
        raise _changed(reference, "its content is another")
    vars(session).update(state["attributes"])


def _same_file(reference: FileReference) -> bool:
    """Whether size and time tell that the file is the same; where only the time differs, its content decides."""
    try:
        found = Path(reference.path).stat()
    except OSError:
        return True  # loading it says what is wrong with it
    if found.st_size != reference.size:
        raise _changed(reference, f"it had {reference.size} bytes and now has {found.st_size}")
    return found.st_mtime_ns == reference.modified_ns


def _changed(reference: FileReference, why: str) -> InvalidArgument:
    return InvalidArgument(
        "The model's file was changed after the session was pickled.",
        where=Location(file=reference.path),
        why=why,
        fix="Pickle the session again, or create one from the file as it is now.",
    )
