"""The frame: all that one run may write. Borrowed from a pool, used by one thread at a time.

Slots, streams, child frames of bodies and native instances of regions. Constants are in the slots from the start;
feeds, intermediates and results are gone after each run, so a pooled frame keeps nothing of the caller alive.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import FrameResources
from ort_py.errors import InvalidArgument
from ort_py.execution.admission import admitted
from ort_py.execution.workspace import Workspace
from ort_py.logs import lazy_logger
from ort_py.planning.plan import FRAME_SLOT
from ort_py.platform.forks import ProcessLock, notify_after_fork

if TYPE_CHECKING:
    from ort_py.contracts import IStream, RegionInstance
    from ort_py.devices import Device
    from ort_py.execution.arena import Arena
    from ort_py.execution.planned_runs import PlannedRun, Signature
    from ort_py.execution.program import Program
    from ort_py.execution.shape_results import ShapeResults
    from ort_py.execution.watch import RunWatch
    from ort_py.planning.memory_plan import MemoryPlan
    from ort_py.planning.plan import NestedPlan, RegionStep
    from ort_py.platform.memory_pressure import MemoryPressure

_logger = lazy_logger("ort_py.execution")


class Frame:
    """Writable state of one run of a program.

    Attributes:
        slots: The slots; slot 0 is the frame.
        streams: Stream of each device, the parent's for a body's frame.
        watch: Watches the run between steps; None where nothing is watched.
        thread: Identity of the thread that borrowed it, 0 while it is idle.
        instructions: Instructions of the next run: the program's, or those that `chooser` chose.
        numbers: Number of the step of each of these; None where there is one for each step, in order.
        chooser: Chooses the instructions of the next run; None where there is nothing to choose.
        signature: Shapes of the inputs that the instructions were chosen for, None where the next run chooses again.
        shape_results: Results of the next run that follow from its shapes, where its instructions take them.
        arena: Memory of planned values, made on first use.
        context: Context of the frame's instructions: NumPy's floating-point warnings are off in it, as ONNX has none,
            and the caller's own settings are not touched. Entering it costs a tenth of `np.errstate`.
    """

    __slots__ = (
        *("_children", "_instances", "_planned", "arena", "chooser", "context", "instructions", "numbers", "program"),
        *("shape_results", "shared", "signature", "slots", "streams", "thread", "watch"),
    )

    def __init__(self, program: Program, parent: Frame | None = None) -> None:
        self.program = program
        self.slots: list[Any] = list(program.plan.template)
        self.slots[FRAME_SLOT] = self
        self.watch: RunWatch | None = None
        self.thread = 0
        self.instructions = program.instructions
        self.numbers: Sequence[int] | None = None
        self._planned: PlannedRun | None = None
        self.chooser: Callable[[Frame], None] | None = None if program.runs.over else choose_planned
        self.signature: Signature | None = None
        self.shape_results: Sequence[Any] = ()
        self.arena: Arena | None = None
        self._children: list[Frame] = []
        self._instances: list[tuple[Device, RegionInstance]] = []
        self.streams: dict[Device, IStream] = {}
        self.shared: dict[Any, Any] = {} if parent is None else parent.shared
        self.context: contextvars.Context = contextvars.Context() if parent is None else parent.context
        if parent is not None:
            self.streams = parent.streams
            parent._children.append(self)
        else:
            self.context.run(np.seterr, all="ignore")
            for device, make in program.plan.streams:
                stream = make()
                if stream is not None:
                    self.streams[device] = stream

    def child(self, nested: NestedPlan) -> Frame:
        """The frame of a body, made on first use and kept."""
        frame: Frame | None = self.slots[nested.frame]
        if frame is None:
            frame = Frame(self.program.bodies[nested.frame], self)
            self.slots[nested.frame] = frame
        frame.watch = self.watch
        return frame

    def beside(self, program: Program) -> Frame:
        """A frame of a program that runs within a step of this one; closed with it."""
        return Frame(program, self)

    def instantiate(self, step: RegionStep) -> RegionInstance:
        """Make this frame's instance of a region and keep it in its slot."""

        def make(admit: Any) -> RegionInstance:
            stream, threads = self.streams.get(step.device), self.program.plan.threads
            return step.region.instantiate(FrameResources(stream, threads, admit, self.shared))

        compared = step.region.compared_inputs
        instance = admitted(step.admissions, make, declines=step.stand_in is not None, compared=compared)
        self._instances.append((step.device, instance))
        self.slots[step.instance] = instance
        return instance

    def begin(self, watch: RunWatch) -> None:
        """Check the next run between its steps."""
        self.watch = watch
        watch.before()

    def run_plainly(self, signature: Signature | None = None) -> None:
        """Let the kernels make all arrays in the next run, or in all runs of a signature."""
        self.instructions, self.numbers = self.program.instructions, None
        self.signature = signature
        self.shape_results = ()
        del self.slots[len(self.program.plan.template) :]

    def run_with_results(self, known: ShapeResults, results: Sequence[Any]) -> None:
        """Let the next run take results that follow from its shapes, and make the others as in a plain run."""
        self.instructions, self.numbers = known.instructions, known.numbers
        self.signature = None
        self.shape_results = results
        del self.slots[len(self.program.plan.template) :]

    def run_into_arena(self, planned: PlannedRun, signature: Signature, kept: set[MemoryPlan]) -> None:
        """Let the kernels write into the frame's arena in all runs of a signature."""
        plan = self.program.plan
        if self.arena is None:
            from ort_py.execution.arena import Arena  # the first run records, and needs none

            self.arena = Arena(plan.allocators)
        self.arena.keep_only(kept)
        try:
            arrays = self.arena.cut(planned.plan)
        except MemoryError:
            self.run_plainly()  # it may do with less: not everything is alive at once
            return
        self.slots[len(plan.template) :] = arrays
        # A frame's own list: `go_on_plainly` changes it under the loop that runs it.
        self.instructions = planned.instructions.copy() if planned.plan.checks else planned.instructions
        self.numbers = planned.numbers
        self._planned = planned
        self.signature = signature
        if self.program.runs.poison:
            self.arena.poison()
            self.signature = None

    def run_all_steps(self) -> None:
        """Let the next run, which is planned, have an instruction for each step: something looks at all of them."""
        planned = self._planned
        assert planned is not None, "only planned runs leave steps out"
        self.instructions, self.numbers = planned.whole.copy(), None
        self.signature = None

    def go_on_plainly(self, number: int) -> None:
        """In a planned run: a step made another shape than its plan counts on, so what follows makes its arrays itself.

        What the arena holds stays where it is until the run ends.
        """
        planned, plain = self._planned, self.program.instructions
        assert planned is not None, "only planned runs look at the shapes of results"
        before = range(len(plain)) if self.numbers is None else self.numbers
        behind = before.index(number) + 1  # where the loop that runs them goes on
        self.instructions[behind:] = plain[number + 1 :]
        self.numbers = [*before[:behind], *range(number + 1, len(plain))]
        for slot, result in planned.kept.items():  # the other steps may read them
            self.slots[slot] = result
        self.signature = None
        self.program.runs.found_unsteady(number)

    @contextlib.contextmanager
    def current_streams(self) -> Iterator[None]:
        """Make the frame's streams the current ones of this thread."""
        with contextlib.ExitStack() as stack:
            for stream in self.streams.values():
                stack.enter_context(stream)
            yield

    def clear(self) -> None:
        """Drop feeds and results."""
        slots = self.slots
        for slot in self.program.plan.clear:
            slots[slot] = None

    def close(self) -> None:
        """Close instances, those of child frames too. What they raise is logged: closing must go on."""
        pending = [self]
        while pending:
            frame = pending.pop()
            pending.extend(frame._children)
            for _, instance in frame._instances:
                try:
                    instance.close()
                except Exception:  # a plug-in's code
                    _logger.exception("closing a region instance failed")
            frame._instances.clear()
            # The frame is in its own slots: break the cycle so that memory goes at once.
            frame.slots = []
            frame.arena = None
        self._children.clear()


def choose_planned(frame: Frame) -> None:
    """Choose the instructions of the next run of a frame by the shapes in its slots."""
    if frame.watch is not None and (frame.watch.bounds_memory or frame.shape_results):
        # Arrays that are alive are counted, so nothing may be reserved in advance, and each step is looked at.
        frame.run_plainly()
        return
    slots, runs = frame.slots, frame.program.runs
    signature: Signature
    if runs.only:  # the common case, without a loop: tiny plans run in two microseconds
        signature = slots[runs.only].shape
    else:
        signature = tuple([getattr(slots[slot], "shape", None) for slot in runs.asked])
    if signature != frame.signature:
        _switch(frame, signature)
    if frame.watch is not None and frame.numbers is not None:
        frame.run_all_steps()


def _switch(frame: Frame, signature: Signature) -> None:
    runs = frame.program.runs
    if runs.over:
        frame.chooser = None
        frame.run_plainly()
        return
    # Watched runs execute each step: their profile and their limits are those of the steps.
    results = None if frame.watch is not None or None in signature else runs.results
    if results is not None and runs.takes_results(signature):
        found = results.of(signature, frame.slots)
        if found is not None:
            runs.last = signature
            frame.run_with_results(results, found)
            return
    choice = runs.choice(signature)
    if choice.planned is not None:
        frame.run_into_arena(choice.planned, signature, choice.plans)
        return
    frame.run_plainly(signature if choice.final else None)
    if choice.record:
        recording = runs.recording(signature, frame.slots, frame.program.peak_of_body)
        if recording is not None:
            frame.instructions = recording
    elif results is not None and (found := results.of(signature, frame.slots)) is not None:
        frame.run_with_results(results, found)


class FramePool:
    """Idle frames of a program. Bounded: what is given back beyond `size` is closed.

    `deque` operations are atomic, so taking and giving back need no lock; making a frame and closing the pool do.
    """

    def __init__(self, program: Program, size: int = 16) -> None:
        self._program = program
        self._size = size
        self._idle: deque[Frame] = deque()
        self._made: set[Frame] = set()
        self._lock = ProcessLock()
        self._closed = False
        self._when_empty: Callable[[], object] | None = None
        self._annexes: list[FramePool] = []
        notify_after_fork(self)

    def annex(self, program: Program) -> FramePool:
        """A pool for another program of the same session: counted, trimmed, closed and waited for with this one."""
        made = FramePool(program, self._size)
        with self._lock.held():
            self._annexes.append(made)
            made._closed = self._closed
        return made

    def take(self) -> Frame:
        """An idle frame, or a new one.

        Raises:
            InvalidArgument: The pool is closed.
        """
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = Frame(self._program)
            with self._lock.held():
                self._made.add(frame)
        frame.thread = threading.get_ident()
        if self._closed:
            self.discard(frame)
            raise session_closed()
        return frame

    def give_back(self, frame: Frame) -> None:
        """Return a frame that ran to its end."""
        if self._closed or len(self._idle) >= self._size:
            self.discard(frame)
            return
        frame.thread = 0
        self._idle.append(frame)
        if self._closed:
            self.trim()  # the pool was closed between the question and the answer

    def discard(self, frame: Frame) -> None:
        """Close a borrowed frame instead of returning it, because its run failed or it is no longer needed."""
        try:
            frame.close()
        finally:  # closing may be interrupted too, and no caller must then wait for this frame
            frame.thread = 0
            with self._lock.held():
                self._made.discard(frame)
                call = None if self._made else self._when_empty
                if call is not None:
                    self._when_empty = None
            if call is not None:
                call()

    def trim(self) -> None:
        for annex in self._annexes:
            annex.trim()
        while self._idle:
            try:
                self.discard(self._idle.pop())
            except IndexError:
                return

    def workspace(self) -> Workspace:
        """Memory that the runs need: the arenas of all present frames, and the peak of the recorded runs."""
        pending = self._all_made()
        reserved: dict[Device, int] = {}
        while pending:
            frame = pending.pop()
            pending.extend(frame._children)
            arena = frame.arena
            sizes = [] if arena is None else list(arena.sizes.items())
            sizes += [(device, _reserved_by(instance)) for device, instance in list(frame._instances)]
            for device, size in sizes:
                reserved[device] = reserved.get(device, 0) + size
        runs = self._program.runs
        return Workspace(sum(reserved.values()), runs.high_water, runs.largest, tuple(reserved.items()))

    def _all_made(self) -> list[Frame]:
        with self._lock.held():
            made, annexes = list(self._made), list(self._annexes)
        return made + [frame for annex in annexes for frame in annex._all_made()]

    def after_fork(self) -> None:
        """In a forked child: frames that the parent's other threads had do not come back."""
        idle, me = set(self._idle), threading.get_ident()
        self._made = {frame for frame in list(self._made) if frame in idle or frame.thread == me}

    def close(self) -> None:
        """Close idle frames now and borrowed ones when they come back; no frame can be taken any more."""
        with self._lock.held():
            self._closed = True
            annexes = list(self._annexes)
        for annex in annexes:
            annex.close()
        self.trim()

    def when_empty(self, call: Callable[[], object]) -> None:
        """Call once, when the last frame has come back: now, or on the thread that brings it. Only after `close`."""
        for annex in self._annexes:  # one after the other: closed pools stay empty
            call = partial(annex.when_empty, call)
        with self._lock.held():
            if self._made:
                self._when_empty = call
                return
        call()

    def wait(self) -> None:
        """Block until no other thread runs a frame. Only after `close`; a run of this very thread is not waited for."""
        me = threading.get_ident()
        while True:
            # A thread that was ended from outside gives nothing back.
            others = sys._current_frames().keys() - {me}
            if not any(frame.thread in others for frame in self._all_made()):
                return
            time.sleep(0.001)

    def __del__(self) -> None:
        # Frames are in their own slots: without this, those of a forgotten session wait for the cyclic collector.
        self.trim()


class WatchedPool(FramePool):
    """A pool that checks after a run whether memory is short."""

    def __init__(self, program: Program, pressure: MemoryPressure) -> None:
        super().__init__(program)
        self._pressure = pressure

    def give_back(self, frame: Frame) -> None:
        """Return a frame that ran to its end; then check, if the last check is long enough ago."""
        super().give_back(frame)
        if time.monotonic() >= self._pressure.due:
            self._pressure.check()


def _reserved_by(instance: RegionInstance) -> int:
    try:
        return instance.reserved_bytes()
    except Exception:  # a plug-in's code: a report goes on without it
        _logger.exception("asking a region instance for its memory failed")
        return 0


def session_closed() -> InvalidArgument:
    return InvalidArgument("The session is closed.", fix="Create a new InferenceSession.")
