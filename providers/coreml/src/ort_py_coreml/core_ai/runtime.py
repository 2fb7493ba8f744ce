"""Runs assets. Core AI's interface is asynchronous: a thread with a loop of its own serves the regions of a session.

Core AI ends the process where an input has another type or shape than the program can take, so that nothing else may
reach it: a region compares all shapes first. It also ends a process whose interpreter ends while one of its threads
calls Python: the interpreter ends such threads by unwinding their stacks, which Swift does not survive. Therefore the
interpreter waits here for the runs that are left.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from coreai.authoring import AIModelAsset
from coreai.runtime import NDArray

from ort_py.errors import EPFail
from ort_py.platform.forks import native_threads_rest, notify_after_fork
from ort_py_coreml.back_end import Array, Model

__all__ = ["LoadedAsset", "Loop", "check_process"]

T = TypeVar("T")
_PERIOD = 0.05
"""Seconds between two looks at the time of a run."""
_REST = 0.01
"""Seconds between two looks at Core AI's threads when the interpreter ends."""
_LOOKS = 200
"""The most looks at these threads."""


class _Process:
    """Whether this process got a Core AI that was running from its parent, and whether the interpreter ends."""

    def __init__(self) -> None:
        self.started = self.inherited = self.ends = False
        self.loops: WeakSet[Loop] = WeakSet()
        notify_after_fork(self)

    def after_fork(self) -> None:
        self.inherited = self.inherited or self.started

    def start(self, loop: Loop) -> None:
        """Note that a loop has a thread from now on."""
        if not self.started:
            atexit.register(self.end)
        self.started = True
        self.loops.add(loop)

    def end(self) -> None:
        """Wait until no thread of Core AI calls Python any longer; new work is refused from now on."""
        self.ends = True
        loops = list(self.loops)
        for loop in loops:
            loop.finish()
        resting = 0
        for _ in range(_LOOKS if loops else 0):
            time.sleep(_REST)  # also gives them the interpreter, which those that wait for it need
            resting = 0 if native_threads_rest() is False else resting + 1
            if resting == 3:
                break


_process = _Process()


def check_process() -> None:
    """Return whether assets can be loaded here.

    Raises:
        EPFail: The parent had loaded some: one of the child's loads in ten waits forever for threads of the parent.
    """
    if _process.inherited:
        raise EPFail(
            "This process was forked from one that had started Core AI, whose threads it does not have.",
            fix="start processes with multiprocessing's 'spawn', or fork before the first session",
        )


class Loop:
    """A thread that runs coroutines of Core AI. It is started by the first one."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()
        notify_after_fork(self)

    @property
    def ended(self) -> bool:
        """Whether no more work is taken, because the interpreter ends."""
        return _process.ends

    def after_fork(self) -> None:
        """Begin without a thread: a child does not have its parent's. Their common loop is never closed here."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._loop))
        self._loop = self._thread = None
        self._lock = threading.Lock()
        self._running = set()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the thread of the loop. Any thread may do so.

        Raises:
            EPFail: The interpreter ends.
        """
        with self._lock:
            if self.ended:
                work.close()
                raise EPFail(
                    "Core AI runs nothing while the interpreter ends.", fix="end the threads that run sessions"
                )
            running = asyncio.run_coroutine_threadsafe(work, self._started())
            self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    def finish(self) -> None:
        """Wait for all work that was started, and end the thread."""
        with self._lock:
            left = list(self._running)
        wait(left)
        self.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            _process.start(self)
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="ort-py-coreai", daemon=True)
            self._thread.start()
        return self._loop

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


class LoadedAsset(Model):
    """An asset that is ready to run. Core AI copies arrays where they come in.

    Args:
        asset: The asset.
        loop: Runs Core AI's coroutines.
    """

    def __init__(self, asset: Path, loop: Loop) -> None:
        self._loop = loop
        self._opened = AsyncExitStack()
        self._late: list[Future[Any]] = []
        self._function = loop.start(self._load(asset)).result()

    async def _load(self, asset: Path) -> Any:
        model = await self._opened.enter_async_context(AIModelAsset.load(asset).executable())
        return model.load_function("main")

    def predict(self, feeds: Mapping[str, Array], check: Callable[[], None] | None) -> Mapping[str, Array]:
        """Run once. A run that is over its time goes on without a reader."""
        running = self._loop.start(self._run({name: NDArray(array) for name, array in feeds.items()}))
        try:
            return _waited(running, check)
        except BaseException:
            self._late = [*(one for one in self._late if not one.done()), running]
            raise

    async def _run(self, inputs: Mapping[str, NDArray]) -> dict[str, Array]:
        found = await _Released(self._function(inputs))
        return {name: result.numpy() for name, result in found.items()}

    def close(self) -> None:
        """Release the model, when no run is left. At the interpreter's end, the process takes it along."""
        if self._loop.ended:
            return
        wait(self._late)
        self._function = None
        self._loop.start(self._opened.aclose()).result()


class _Released:
    """Awaits a run, and takes its results out of the future that Core AI's binding never releases.

    Without it each run would leave the memory of its outputs behind.
    """

    def __init__(self, run: Coroutine[Any, Any, Any]) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, None, Any]:
        steps, last = self._run.__await__(), None
        while True:
            try:
                last = steps.send(None)
            except StopIteration as end:
                kept = last.result() if isinstance(last, asyncio.Future) and last.done() else None
                if isinstance(kept, dict):
                    kept.clear()
                return end.value
            yield last


def _waited(running: Future[T], check: Callable[[], None] | None) -> T:
    """Return what a coroutine returns, and look at the time of the run meanwhile."""
    while check is not None:
        done, _ = wait([running], _PERIOD)
        if done:
            break
        check()
    return running.result()
