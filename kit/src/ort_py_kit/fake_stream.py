"""Streams and events of the fake device: work is queued, and done only when a caller waits for it.

Two streams have no order but the one events make: waiting for one leaves the other's work undone. So a wait that the
engine forgot is not a matter of luck here; the reader finds poison every time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from ort_py.contracts import IStream
from ort_py.devices import Device

if TYPE_CHECKING:
    from ort_py_kit.fake_memory import FakeDevice


class FakeStream(IStream):
    """An order of work on a fake device.

    Nothing here takes a lock: memory is given back, and its poison queued, wherever the garbage collector strikes.
    Appending to a deque is atomic, and only the one thread that uses the stream does its work.
    """

    def __init__(self, owner: FakeDevice) -> None:
        self.owner = owner
        self._queue: deque[Callable[[], None]] = deque()
        self._error: BaseException | None = None

    @property
    def device(self) -> Device:
        return self.owner.device

    @property
    def pending(self) -> int:
        """Pieces of work that are queued and not done."""
        return len(self._queue)

    def enqueue(self, work: Callable[[], None]) -> None:
        """Queue work; its error is raised at the next wait."""
        self._queue.append(work)

    def run_until(self, event: FakeEvent) -> None:
        """Do the queued work, in order, up to an event."""
        while not event.done and self._queue:
            work = self._queue.popleft()
            try:
                work()
            except Exception as error:  # reported at the next wait, as on a device
                self._error = self._error or error

    def synchronize(self) -> None:
        self.run_until(self.record_event())
        error, self._error = self._error, None
        if error is not None:
            raise error

    def record_event(self) -> FakeEvent:
        """An event behind the work that is queued."""
        event = FakeEvent(self)
        self.enqueue(event.mark)
        return event

    def wait_event(self, event: FakeEvent) -> None:
        """Later work waits for the event."""
        self.enqueue(event.synchronize)

    def __enter__(self) -> FakeStream:
        self.owner.push_stream(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.owner.pop_stream(self)


class FakeEvent:
    """A point in a stream's queue.

    Attributes:
        done: Whether the stream got there.
    """

    def __init__(self, stream: FakeStream) -> None:
        self._stream = stream
        self.done = False

    def mark(self) -> None:
        self.done = True

    def synchronize(self) -> None:
        """Do the stream's work up to here."""
        self._stream.run_until(self)
