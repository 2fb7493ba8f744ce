"""Questions to the parser in a process of its own, which a crash of the parser ends instead of the session's.

Answers are kept beside the engines, so that a session that finds its engines there starts no process. Otherwise the
process that has answered goes on to build, and the start of a session is not longer than it was without questions.
Comes after `workers` and `engine_cache`; before `capability`.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
import weakref

from ort_py.errors import EPFail
from ort_py_cuda.code.cache import code_key
from ort_py_tensorrt.engine_cache import EngineCache
from ort_py_tensorrt.job_files import Request
from ort_py_tensorrt.parsing import Verdict, ask
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.region_model import RegionModel
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.wishes import BuildWishes
from ort_py_tensorrt.workers import Worker, can_start, end_resting, parsed, rest, take_resting

__all__ = ["Asker", "ParserEnded"]

_MOST_ENDS = 16
"""Processes that a session starts again after the parser has ended them: each start takes most of a second."""

_SMALL = 1 << 16
"""Bytes of a weight whose numbers an answer depends on: axes, scales and the like. A wrong answer about a larger one
costs a build that fails, and whose region the next provider runs."""


class ParserEnded(EPFail):
    """The process of the parser ended without an answer, or was ended after its time.

    Attributes:
        reason: Why a node is refused then.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason, fix="Leave the region to the next provider.")
        self.reason = reason


class Asker:
    """Asks the parser for one session.

    Args:
        toolkit: The library.
        cache: Where answers are kept.
        device: Number of the GPU that engines are built on; None if that needs none.
        limit: Seconds that an answer may take; None for no limit.
        detailed: Whether everything is logged.
    """

    def __init__(
        self, toolkit: Toolkit, cache: EngineCache, device: int | None, limit: float | None, *, detailed: bool
    ) -> None:
        self._toolkit = toolkit
        self._cache = cache
        self._device = device
        self._limit = limit
        self._detailed = detailed
        self._lock = threading.Lock()
        self._ends = 0
        self._user = object()
        self._end = weakref.finalize(self, end_resting, self._user)

    def ask(self, model: RegionModel) -> Verdict:
        """Ask about a model.

        Raises:
            ParserEnded: There is no answer.
        """
        if not can_start():  # nothing can be built either, and engines may be in the cache
            return ask(self._toolkit, model)
        key = _key(self._toolkit, model)
        with self._lock:
            found = self._cache.verdict(key)
            if found is None:
                found = self._answer(model)
                self._cache.put_verdict(key, found)
            return found

    def take_worker(self) -> Worker | None:
        """Return a process that has answered, for a build that ends it; None if there is none."""
        return take_resting(self._device)

    def close(self) -> None:
        """End the process, unless another session uses it."""
        self._end()

    def _answer(self, model: RegionModel) -> Verdict:
        title = self._toolkit.variant.title
        if self._ends >= _MOST_ENDS:
            raise ParserEnded(f"{title}'s parser is not asked again: it has ended its process {self._ends} times")
        rested = take_resting(self._device)
        worker = rested or Worker(self._device)
        try:
            with self._toolkit.errors():  # the answer repeats them
                reasons = self._exchange(worker, model)
                if worker is rested and not isinstance(reasons, Verdict) and worker.left:
                    worker.close()
                    worker = Worker(self._device)
                    reasons = self._exchange(worker, model)
        except BaseException:
            worker.close()
            raise
        if isinstance(reasons, Verdict):
            rest(worker, self._user)
            return reasons
        self._ends += 1
        worker.close()
        raise ParserEnded(f"{title}'s parser gave no answer, in a process of its own: {'; '.join(reasons)}")

    def _exchange(self, worker: Worker, model: RegionModel) -> Verdict | list[str]:
        """Return the answer, or why there is none."""
        end = None if self._limit is None else time.monotonic() + self._limit
        worker.send("ask", self._request(model))
        reasons: list[str] = []
        while True:
            try:
                line = worker.lines.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
            except queue.Empty:
                return [f"it took longer than {self._limit:g} seconds"]
            if line is None:
                return reasons or worker.ending()
            said = parsed(line)
            if "verdict" in said:
                return Verdict.from_json(said["verdict"])
            if "error" in said:
                reasons = [str(said["error"]), *map(str, said.get("why", ()))]
            elif "text" in said:
                self._toolkit.report(int(said.get("severity", 3)), str(said["text"]))

    def _request(self, model: RegionModel) -> Request:
        return Request(self._toolkit.variant.provider, model, Profile((), ()), BuildWishes(), self._detailed)


def _key(toolkit: Toolkit, model: RegionModel) -> str:
    digest = hashlib.blake2b(model.proto.SerializeToString(deterministic=True))
    for name, array in model.weights.items():
        digest.update(f"{name} {array.dtype.name} {array.shape} ".encode())
        if array.nbytes <= _SMALL:
            digest.update(array.reshape(-1).view("u1").data)
    return code_key([toolkit.variant.module, toolkit.version, "verdict", digest.hexdigest()])
