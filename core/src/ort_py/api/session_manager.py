"""Many models in one process: requests for the same model share a session, within a memory budget.

Callers borrow sessions. A session that is not borrowed may be closed, the longest unused first. Weights, threads and
caches belong to the process already and are not managed here.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Self

from ort_py.api.request_key import RequestKey, request_key
from ort_py.api.session import InferenceSession
from ort_py.engine.recipe import ProviderArgument
from ort_py.errors import InvalidArgument, UsageError
from ort_py.files import FileSnapshot
from ort_py.graph.ir import Weight
from ort_py.graph.reading.given_model import GivenModel
from ort_py.graph.weights.accounting import named_weights, weight_bytes
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import human_bytes
from ort_py.logs import lazy_logger
from ort_py.options import SessionOptions
from ort_py.platform.forks import ProcessLock, notify_after_fork
from ort_py.suggestions import did_you_mean

_BETWEEN_LOOKS = 1.0
"""Seconds between two sums of the open sessions' memory, which grows with the shapes of their runs. A sum costs
more than a small run."""

_logger = lazy_logger("ort_py.session")


@dataclass(frozen=True, slots=True)
class SessionManagerStats:
    """Statistics of a manager.

    Attributes:
        sessions: Sessions that are open.
        in_use: Those of them that are borrowed.
        memory: Bytes of all of them: constants that several share once, packed forms, and memory for runs.
        budget: Bytes they may take, None for no bound.
        hits: Requests answered by an open session, waiting for one that was being made included.
        created: Sessions made.
        failed: Sessions that could not be made.
        evicted: Sessions closed because of the budget.
    """

    sessions: int
    in_use: int
    memory: int
    budget: int | None
    hits: int
    created: int
    failed: int
    evicted: int

    def __str__(self) -> str:
        bound = f" of {human_bytes(self.budget)}" if self.budget is not None else ""
        return (
            f"{self.sessions} sessions, {self.in_use} in use, {human_bytes(self.memory)}{bound};"
            f" {self.hits} hits, {self.created} created, {self.failed} failed, {self.evicted} evicted"
        )


class SessionLease:
    """A borrowed session. It is given back by `close`, by the end of a ``with``, or by being forgotten.

    Attributes:
        session: The session. Do not close it.
    """

    __slots__ = ("_entry", "_manager", "session")

    def __init__(self, manager: SessionManager, entry: _Entry, session: InferenceSession) -> None:
        self._manager = manager
        self._entry: _Entry | None = entry
        self.session = session

    def close(self) -> None:
        """Give it back. Calling it again does nothing."""
        entry, self._entry = self._entry, None
        if entry is not None:
            self._manager._give_back(entry)

    def __enter__(self) -> InferenceSession:
        return self.session

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The collector may come at any instruction, also of the manager: its next call does the rest.
        entry = getattr(self, "_entry", None)
        if entry is not None:
            self._manager._forgotten.append(entry)


@dataclass(slots=True, eq=False)
class _Entry:
    """One session, or the making of one.

    Attributes:
        key: Key of the request.
        ready: Set when it was made, or could not be.
        session: The session.
        failure: Why it could not be made.
        leases: For each lease the thread that took it.
        used: When it was used last.
        files: The files that the session was made of, as they were then.
    """

    key: RequestKey
    ready: threading.Event = field(default_factory=threading.Event)
    session: InferenceSession | None = None
    failure: Exception | None = None
    leases: list[int] = field(default_factory=list)
    used: float = 0.0
    files: Sequence[FileSnapshot] = ()


class SessionManager:
    """Sessions by model, options and providers.

    Args:
        memory_budget: Bytes that all sessions together may take; None for no bound. Sessions that are not borrowed are
            closed to stay below it, the longest unused first. Borrowed ones are never closed, so the budget may be
            exceeded for a while.
        sess_options, providers, provider_options: Defaults of requests.
        create: Makes a session; `InferenceSession`.

    Usable from any thread, and in a forked child: it keeps its parent's sessions. A context manager.
    """

    def __init__(
        self,
        memory_budget: int | None = None,
        *,
        sess_options: SessionOptions | None = None,
        providers: ProviderArgument | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        create: Callable[..., InferenceSession] = InferenceSession,
    ) -> None:
        if memory_budget is not None and memory_budget < 0:
            raise InvalidArgument(
                f"A memory budget of {memory_budget} bytes is not possible.",
                fix="Pass a number of bytes, or None for no limit.",
            )
        self._budget = memory_budget
        self._usual = (sess_options, providers, provider_options)
        self._create = create
        self._registered: dict[str, tuple[Any, tuple[Any, Any, Any]]] = {}
        self._entries: dict[RequestKey, _Entry] = {}
        self._forgotten: deque[_Entry] = deque()
        self._lock = ProcessLock()
        self._closed = False
        self._due = 0.0
        self._hits = self._created = self._failed = self._evicted = 0
        notify_after_fork(self)

    def register(
        self,
        name: str,
        path_or_bytes: str | os.PathLike[str] | bytes | Any,
        sess_options: SessionOptions | None = None,
        providers: ProviderArgument | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Give a model a name to ask for it by. Nothing is loaded.

        Args:
            name: The name.
            path_or_bytes: As for `InferenceSession`.
            sess_options, providers, provider_options: As for `InferenceSession`; None for the manager's.

        Raises:
            UsageError: The name is taken.
        """
        with self._lock.held():
            if name in self._registered:
                raise UsageError(f"A model is registered as '{name}' already.", fix="Use another name.")
            self._registered[name] = (path_or_bytes, (sess_options, providers, provider_options))

    def get(
        self,
        model: str | os.PathLike[str] | bytes | Any,
        sess_options: SessionOptions | None = None,
        providers: ProviderArgument | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> SessionLease:
        """Borrow a session: ``with manager.get("model.onnx") as session: session.run(...)``.

        Where several threads ask for the same one at once, one of them makes it and the others wait.

        Args:
            model: A name that was registered; else as for `InferenceSession`. Bytes are hashed each time: register
                large models.
            sess_options, providers, provider_options: As for `InferenceSession`; None for the manager's.

        Raises:
            UsageError: The manager is closed.
            ArgumentTypeError: The argument is not a model; a builtin TypeError too.
            NoSuchFile: No model of this name is registered, and no such file exists.
            OrtPyError: The session cannot be made.
        """
        given = (sess_options, providers, provider_options)
        registered = self._registered.get(model) if isinstance(model, str) else None
        source, wishes = (model, (None, None, None)) if registered is None else registered
        choices = zip(given, wishes, self._usual, strict=True)
        arguments: list[Any] = [next((one for one in choice if one is not None), None) for choice in choices]
        looked_at = GivenModel.of(source)
        key = request_key(looked_at, *arguments)
        while True:
            entry, mine = self._entry(key)
            if mine:
                return self._make(entry, source, looked_at, arguments)
            entry.ready.wait()
            if not all(file.holds() for file in entry.files):
                self._set_aside(entry)
                continue
            lease = self._lease(entry)
            if lease is not None:
                return lease

    def run(
        self, model: Any, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Borrow a session for one run; see `get` and `InferenceSession.run`."""
        with self.get(model) as session:
            return session.run(output_names, input_feed, run_options)

    def stats(self) -> SessionManagerStats:
        """Statistics of the manager."""
        with self._lock.held():
            self._settle()
            open_ = [entry for entry in self._entries.values() if entry.session is not None]
            in_use = sum(bool(entry.leases) for entry in open_)
            counts = (self._hits, self._created, self._failed, self._evicted)
            sessions = [entry.session for entry in open_ if entry.session is not None]
        return SessionManagerStats(len(sessions), in_use, _memory_of(sessions), self._budget, *counts)

    def trim(self) -> None:
        """Let all sessions give back what they keep only for speed; see `InferenceSession.trim`."""
        with self._lock.held():
            self._settle()
            sessions = [entry.session for entry in self._entries.values() if entry.session is not None]
        for session in sessions:
            session.trim()

    def close(self) -> None:
        """Close all sessions: those that are borrowed when they are given back. Calling it again does nothing."""
        with self._lock.held():
            self._closed = True
            self._settle()
            idle = [entry for entry in self._entries.values() if entry.session is not None and not entry.leases]
            closing = [self._take_out(entry) for entry in idle]
        for session in closing:
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SessionManager: {'closed, ' if self._closed else ''}{self.stats()}>"

    # -- making and borrowing ----------------------------------------------------------------------------------

    def _entry(self, key: RequestKey) -> tuple[_Entry, bool]:
        """The entry of a key, and whether the caller has to make its session."""
        with self._lock.held():
            if self._closed:
                raise UsageError("The session manager is closed.", fix="Create a new SessionManager.")
            self._settle()
            entry = self._entries.get(key)
            if entry is not None:
                return entry, False
            entry = self._entries[key] = _Entry(key)
            return entry, True

    def _make(self, entry: _Entry, source: Any, looked_at: GivenModel, arguments: Sequence[Any]) -> SessionLease:
        try:
            own = _model_file(looked_at)  # before it is read
            session = self._create(source, *arguments)
        except BaseException as error:
            with self._lock.held():
                self._entries.pop(entry.key, None)
                self._failed += 1
            if isinstance(error, Exception):  # Ctrl-C is for this thread alone: those who wait try for themselves
                entry.failure = error
                if looked_at.path and (hint := did_you_mean(looked_at.path, list(self._registered))):
                    error.add_note(f"No model is registered as '{looked_at.path}'. {hint}")
            entry.ready.set()
            raise
        files = [*own, *_external_data(session)]
        with self._lock.held():
            entry.session, entry.files = session, files
            self._created += 1
            lease = self._lend(entry, session)
        entry.ready.set()
        self._evict()
        return lease

    def _set_aside(self, entry: _Entry) -> None:
        """Set aside a session whose files have changed: it is closed like any other, but no request finds it."""
        with self._lock.held():
            if self._entries.get(entry.key) is entry:
                del self._entries[entry.key]
                entry.key = (*entry.key, id(entry))
                self._entries[entry.key] = entry

    def _lease(self, entry: _Entry) -> SessionLease | None:
        """A lease of an entry that is ready; None where it has to be asked for again."""
        if entry.failure is not None:
            raise entry.failure
        with self._lock.held():
            session = entry.session
            if session is not None and session.state == "closed":  # by a caller who should not have
                self._take_out(entry)
                session = None
            if session is None:
                return None  # or the thread that made it was interrupted, or it was closed before we came
            self._hits += 1
            return self._lend(entry, session)

    def _lend(self, entry: _Entry, session: InferenceSession) -> SessionLease:
        entry.leases.append(threading.get_ident())
        entry.used = time.monotonic()
        return SessionLease(self, entry, session)

    def _give_back(self, entry: _Entry) -> None:
        with self._lock.held():
            self._settle()
            self._return(entry)
            now = time.monotonic()
            if not self._closed and (self._budget is None or now < self._due):
                return
            self._due = now + _BETWEEN_LOOKS
        self._evict()

    def _return(self, entry: _Entry) -> None:
        if entry.leases:
            me = threading.get_ident()
            entry.leases.remove(me if me in entry.leases else entry.leases[0])
        entry.used = time.monotonic()

    def _settle(self) -> None:
        """Under the lock: count what was forgotten."""
        while self._forgotten:
            self._return(self._forgotten.popleft())

    def after_fork(self) -> None:
        """In a forked child: what the parent's other threads borrowed, or were making, they never give back."""
        me = threading.get_ident()
        for entry in list(self._entries.values()):
            entry.leases = [thread for thread in entry.leases if thread == me]
            if entry.session is None:
                self._entries.pop(entry.key, None)

    # -- closing -----------------------------------------------------------------------------------------------

    def _evict(self) -> None:
        """Close sessions that are not borrowed until the budget is kept, or all of them if the manager is closed."""
        while True:
            with self._lock.held():
                open_ = [entry for entry in self._entries.values() if entry.session is not None]
                idle = sorted((entry for entry in open_ if not entry.leases), key=lambda entry: entry.used)
                if not idle or not (self._closed or self._over(open_)):
                    return
                session = self._take_out(idle[0])
                self._evicted += not self._closed
                reason = "the manager is closed" if self._closed else f"the budget is {human_bytes(self._budget or 0)}"
            _logger.info("closing %r: %s", session, reason)
            session.close()

    def _over(self, entries: Sequence[_Entry]) -> bool:
        if self._budget is None:
            return False
        return _memory_of([entry.session for entry in entries if entry.session is not None]) > self._budget

    def _take_out(self, entry: _Entry) -> InferenceSession:
        session, entry.session = entry.session, None
        self._entries.pop(entry.key, None)
        assert session is not None
        return session


def _model_file(source: GivenModel) -> list[FileSnapshot]:
    """Return the model's own file, if it has one."""
    if not source.path:
        return []
    try:
        return [FileSnapshot(os.path.abspath(source.path))]  # links stay as they are
    except (OSError, ValueError):
        return []  # creating the session raises the error


def _external_data(session: InferenceSession) -> list[FileSnapshot]:
    """Return the files of external data that a session read."""
    files = session.engine.external_files
    return [FileSnapshot(os.path.abspath(path), identity) for path, identity in files]


def _memory_of(sessions: Sequence[InferenceSession]) -> int:
    """Add up the bytes of sessions. Constants that several of them share count once."""
    shared: dict[str, Weight] = {}
    own = 0
    for session in sessions:
        report = session.memory_report()
        own += report.total - report.weights
        model = session.engine.model
        if model is not None:
            shared.update((weight.key, weight) for _, weight in named_weights(model).values())
    bytes_of = weight_bytes(shared.values())
    return own + bytes_of.held + bytes_of.mapped
