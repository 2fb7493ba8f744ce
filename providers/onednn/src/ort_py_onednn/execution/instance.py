"""One frame's state of a region: an arena, native handles bound to its addresses, and the list of calls that is a run.

What depends on shapes is made once a set of shapes. A run then writes the addresses of its arrays into the list of
calls, and makes one call. Used by one thread at a time.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import RegionInstance, RequiredOutputs, RunDeclined, current_time_check
from ort_py.errors import EPFail, LimitError
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call, CallList, Repeated
from ort_py_onednn.binding.flags import INVALID, Flags, can_look
from ort_py_onednn.binding.forks import gate
from ort_py_onednn.binding.openmp import prepare
from ort_py_onednn.binding.room import leave_room
from ort_py_onednn.execution.crowding import Pace, Team
from ort_py_onednn.execution.elements import has_buffer, numpy_of
from ort_py_onednn.execution.growth import Grows, Growth, Shapes
from ort_py_onednn.execution.large_pages import aligned
from ort_py_onednn.execution.plan import Place, Plan, Step
from ort_py_onednn.execution.repeat import Repeat
from ort_py_onednn.execution.shape_memory import Entry, shape_memory
from ort_py_onednn.execution.work import Memories, work_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ort_py_onednn.execution.region import DnnlRegion, KeptPlan

    Admit = Callable[[Sequence[Any]], RequiredOutputs]

__all__ = ["DnnlInstance", "Refused"]

_CALL_BYTES = 5500
"""Bytes that a form takes for each of its calls: native objects for the memory of its arguments, most of all."""

_NOTHING = np.empty(0, np.uint8)
_team = Team()

_WHY = {
    INVALID: "a value inside it is not a number, and its functions might turn that into one",
    0: "the extreme element of a window is infinite or as large as float32 can hold, or squares overflow",
}
"""Reasons for declining a run, by the flag that was raised."""

_CONTRADICT = "its numbers of keys contradict each other, the past, or the angles that there are"

# What each run calls, without looking for it.
_data, _empty = ffi.from_buffer, np.empty


class Refused(EPFail):
    """oneDNN has nothing for some shapes; with others the region runs."""


class _Form:
    """A plan bound to an arena.

    Attributes:
        plan: The plan.
        calls: A run.
        inputs: (number, words of `calls` that hold the address of the array).
        opaque: The same for inputs whose arrays do not speak the buffer protocol.
        outputs: (shape, type, whether arrays speak no buffer protocol, words) of each output.
        flags: The processor's flags of a run; None if they are not checked.
        grown: Memory for what code has to know of a run's past, what that depends on besides the run, and the words of
            `calls` that hold its address.
        restore: Word that holds the caller's number of threads; -1 where there are no threads.
        size: Elements of the inputs.
        judged: Whether it is worth asking how many threads it should take.
        long: What may take long and cannot be interrupted, for runs that somebody may end; ``""`` for nothing.
        entry: What stands for it in `shape_memory`; None until it is kept.
        plan_entry: The same for the plan.
    """

    __slots__ = (
        "_kept",
        "calls",
        "entry",
        "flags",
        "grown",
        "inputs",
        "judged",
        "long",
        "opaque",
        "outputs",
        "plan",
        "plan_entry",
        "restore",
        "size",
    )

    def __init__(
        self, region: DnnlRegion, kept: KeptPlan, arena: np.ndarray[Any, Any], *, size: int, judged: bool
    ) -> None:
        plan = self.plan = kept.plan
        self.entry: Entry | None = None
        self.plan_entry = kept.entry
        self.size = size
        self.judged = judged
        self.long = next(
            (_LONG.format(one.title) for one in _inner(plan) if one.primitive and one.primitive.takes_long), ""
        )
        memories = Memories(region.engine, arena)
        flags, threads = _look(region, plan)
        work = work_of(region.engine, plan, memories, flags)
        rebind = region.engine.c.dnnl_memory_set_data_handle
        calls: list[Call | Repeated] = []
        places: dict[tuple[Place, int], list[int]] = {}
        for array, handles in memories.moving.items():
            for handle in handles:
                places.setdefault(array, []).append(CallList.place(len(calls), 1))
                calls.append((rebind, (handle, 0), True))
        ahead = len(calls)
        first = ahead + (flags is not None)
        for number, argument, buffer in work.bound:
            if buffer.place in {Place.INPUT, Place.OUTPUT}:
                place = CallList.place(first + number, argument)
                places.setdefault((buffer.place, buffer.index), []).append(place)
        lengths: dict[Grows, list[int]] = {}
        for number, argument, kind in work.lengths:
            lengths.setdefault(kind, []).append(CallList.place(first + number, argument))
        self.grown = tuple(
            (ffi.new("intptr_t[]", 2 + 2 * max(1, kind[0])), kind, tuple(words)) for kind, words in lengths.items()
        )
        titles = ["an array of the run"] * ahead + work.titles
        records = ahead + work.records
        if flags is not None:
            calls += [flags.forget(INVALID), *work.calls, flags.note(INVALID, threads)]
            titles = [*titles[:ahead], "the processor's flags", *titles[ahead:], "the processor's flags"]
            records += 2
        else:
            calls += work.calls
        self.flags = flags
        self.restore = -1
        if region.engine.library.threaded:
            self.restore = CallList.place(records, 0)
            calls.append((region.engine.c.omp_set_num_threads, (1,), False))
            titles.append("omp_set_num_threads")
        fed = [(number, tuple(words)) for (place, number), words in places.items() if place is Place.INPUT]
        opaque = {
            number
            for number, element in enumerate(region.input_types)
            if element is not None and not has_buffer(numpy_of(element))
        }
        self.inputs = tuple(one for one in fed if one[0] not in opaque)
        self.opaque = tuple(one for one in fed if one[0] in opaque)
        self.outputs: Sequence[tuple[tuple[int, ...], np.dtype[Any], bool, tuple[int, ...]]] = tuple(
            (shape, np.dtype(dtype), not has_buffer(dtype), tuple(places.get((Place.OUTPUT, number), ())))
            for number, (shape, dtype) in enumerate(zip(plan.outputs, plan.dtypes, strict=True))
        )
        self.calls = CallList(calls, titles)
        self._kept = [plan, memories]


def _bytes_of(plan: Plan) -> int:
    """Bytes of a form of a plan, without the plan and its primitives."""
    return _CALL_BYTES * sum(1 + len(step.body) if isinstance(step, Repeat) else 1 for step in plan.steps)


def _drop(instance: weakref.ref[DnnlInstance], keys: Sequence[tuple[Shapes, int]]) -> None:
    """Drop a form, if its frame still exists. Other threads call this, also during a run."""
    found = instance()
    if found is not None:
        for key in keys:
            found._forms.pop(key, None)


def _inner(plan: Plan) -> list[Step]:
    """The steps of a plan, those that are repeated once."""
    return [inner for step in plan.steps for inner in (step.body if isinstance(step, Repeat) else (step,))]


def _look(region: DnnlRegion, plan: Plan) -> tuple[Flags | None, int]:
    """Record of the flags of a plan's runs, None if it loses no NaN; and the number of threads that may raise them."""
    threads = [one.threads for one in _inner(plan) if one.primitive is not None and one.primitive.hazards.clamps]
    if not region.looks or not threads or not can_look(region.engine.library):
        return None, 1
    return Flags(region.engine.library), max(threads)


_LONG = "one call of oneDNN for {!r} may take long, and cannot be ended with the time of the run"


class DnnlInstance(RegionInstance):
    """A frame's state.

    Args:
        region: The region.
        threads: Threads of a run.
        admit: See `FrameResources`.
    """

    def __init__(
        self,
        region: DnnlRegion,
        threads: int,
        admit: Admit | None = None,
    ) -> None:
        self._region = region
        self._admit = admit
        self._threads = max(1, threads)
        self._pace = Pace()
        self._looked_at = region.looked_at
        self._counts = () if region.growth is None else region.growth.counts
        self._counted: Sequence[list[int]] = ()
        self._forms: dict[tuple[Shapes, int], _Form] = {}
        self._adapts = self._threads > 1 and not region.steady
        self._arena = _NOTHING
        self._shapes: Shapes | None = None
        self._taken = self._threads
        self._form: _Form | None = None
        self._outputs: list[Any] = []
        self._inputs: Sequence[Any] = ()
        self._bits: list[Any] = []
        self._max_threads: Any = region.engine.c.omp_get_max_threads if region.engine.library.threaded else None

    @property
    def admits_shapes(self) -> bool:
        """Shapes are compared here anyway, to find their plan."""
        return True

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any | None]) -> None:
        """Note this run's arrays.

        Raises:
            RunDeclined: oneDNN has nothing for these shapes, or they do not fit the operators.
            EPFail: It failed otherwise while their plan was made.
            Exception: What `FrameResources.admit` raises.

        Args:
            inputs: C-contiguous, of the region's types; kept alive until the run is over.
            outputs: Arrays to write to, or None for new ones; one of another shape is left alone.
        """
        shapes: Shapes = tuple([array.shape for array in inputs])
        if self._looked_at:
            shapes += tuple([tuple(inputs[number].reshape(-1).tolist()) for number in self._looked_at])
        counts = [inputs[number].reshape(-1).tolist() for number in self._counts] if self._counts else ()
        if (
            shapes != self._shapes
            or counts != self._counted
            or self._form is None
            or (self._form.judged and self._turns())
        ):
            growth = self._region.growth
            if growth is None:
                self._form = self._form_for(shapes, lambda: inputs)
            else:
                self._shapes = None  # a run that is declined half-way leaves numbers of two runs
                self._form = self._grown(growth, shapes, counts, inputs)
            self._shapes, self._counted = shapes, counts
        form = self._form
        assert form is not None
        if form.long and current_time_check() is not None:
            raise RunDeclined(form.long, early=True)
        pointers = form.calls.pointers
        for number, places in form.inputs:
            data = _data(inputs[number])
            for place in places:
                pointers[place] = data
        held = self._bits = []
        for number, places in form.opaque:
            # A kernel may give a NumPy scalar for a tensor without axes; the bits of one are a copy, which must live.
            bits = np.asarray(inputs[number]).view(np.uint16)
            held.append(bits)
            data = _data(bits)
            for place in places:
                pointers[place] = data
        made = self._outputs = []
        for given, (shape, dtype, opaque, places) in zip(outputs, form.outputs, strict=True):
            array = _empty(shape, dtype) if given is None or given.shape != shape else given
            made.append(array)
            data = _data(array.view(np.uint16) if opaque else array)
            for place in places:
                pointers[place] = data
        for number, array in form.plan.given:
            made[number][...] = array
        self._inputs = inputs

    def _turns(self) -> bool:
        """Return whether the next run takes another number of threads than the last one."""
        return self._adapts and self._pace.threads(self._threads) != self._taken

    def __call__(self) -> Sequence[Any]:
        """Run; one array an output."""
        form = self._form
        assert form is not None, "bind() comes before the call"
        if form.restore >= 0:
            form.calls.words[form.restore] = self._max_threads()
        check = current_time_check()
        if check is not None:
            self._run_watched(form, check)
        elif form.judged:
            shared = self._taken > 1  # asking what a thread worked is a call of the system
            begun, before = time.perf_counter(), time.thread_time() if shared else 0.0
            form.calls.run()
            worked = time.thread_time() - before if shared else 0.0
            ended = time.perf_counter()
            self._pace.note(self._taken, ended - begun, worked, form.size, begun - _team.ended)
            if shared:
                _team.ended = ended
        else:
            form.calls.run()
        self._inputs = ()
        self._bits = []
        made, self._outputs = self._outputs, []
        if form.flags is not None and (raised := form.flags.raised()):
            raise RunDeclined(_WHY[raised & INVALID])
        return made

    def _run_watched(self, form: _Form, time_check: Callable[[], None]) -> None:
        """Run call by call, so that a run can end between two of them."""
        try:
            form.calls.run_watched(time_check)
        except BaseException:
            if form.restore >= 0:  # the calls that were not made include the one that restores the number of threads
                self._region.engine.c.omp_set_num_threads(self._max_threads())
            raise

    def reserved_bytes(self) -> int:
        """The arena."""
        return int(self._arena.nbytes)

    def close(self) -> None:
        """Let go of handles and memory."""
        self._drop_forms()
        self._arena = _NOTHING

    def _drop_forms(self) -> None:
        dropped, self._forms = self._forms, {}
        self._form, self._shapes = None, None
        for form in dropped.values():
            if form.entry is not None:
                shape_memory.remove(form.entry)

    def _grown(self, growth: Growth, shapes: Shapes, counts: Sequence[Sequence[int]], inputs: Sequence[Any]) -> _Form:
        """The form for a run with a past, with the length of that."""
        held = growth.held(shapes, counts)
        if held is None:
            if counts:
                raise RunDeclined(_CONTRADICT, early=True)
            return self._form_for(shapes, lambda: inputs)
        whole, rows, more = held
        try:
            form = self._form_for(whole, lambda: growth.stand_ins(inputs, whole))
        except LimitError:  # of as many rows as there may be; those that there are may keep the limit
            held = growth.held(shapes, counts, exact=True)
            assert held is not None, "there is a plan for more rows"
            exact, rows, more = held
            form = self._form_for(exact, lambda: growth.stand_ins(inputs, exact))
        words = form.calls.words
        for memory, kind, places in form.grown:
            said = growth.said(rows, counts, kind)
            if said is None:
                raise RunDeclined(_CONTRADICT, early=True)
            memory[0 : len(said)] = said
            address = int(ffi.cast("intptr_t", memory))
            for place in places:
                words[place] = address
        planned, made = form.plan.outputs, list(form.outputs)
        for number in growth.presents:
            made[number] = (growth.made(planned[number], more), *made[number][1:])
        for number in growth.buffers:
            made[number] = (growth.buffer(planned[number], rows, counts), *made[number][1:])
        form.outputs = made
        return form

    def _form_for(self, shapes: Shapes, inputs: Callable[[], Sequence[Any]]) -> _Form:
        self._taken = threads = self._pace.threads(self._threads) if self._adapts else self._threads
        key = shapes, threads
        found = self._forms.get(key)
        if found is not None:
            if found.entry is not None:
                found.entry.used = found.plan_entry.used = True
            return found
        required = None if self._admit is None else self._admit(inputs())
        leave_room()
        prepare(self._region.engine.library, max(threads, self._threads))
        with gate.making():  # this takes locks that a forked child must not find closed
            try:
                kept = self._region.plan(shapes, threads)
            except Refused as error:
                raise RunDeclined(error.what) from error
            plan = kept.plan
            if required is not None:
                required.check(plan.outputs, plan.dtypes)
            if plan.arena_bytes > self._arena.nbytes:
                # The addresses of the old arena are in the handles of every form.
                self._drop_forms()
                self._arena = aligned(plan.arena_bytes)
            shared = any(step.threads > 1 for step in plan.steps)
            size = sum(math.prod(shape) for shape in shapes)
            found = _Form(self._region, kept, self._arena, size=size, judged=self._adapts and (shared or threads == 1))
            keys = (key,) if shared else (key, (shapes, 1))  # work that is never shared is the same on one thread
            self._forms.update(dict.fromkeys(keys, found))
            found.entry = Entry(_bytes_of(plan), kept.entry.shared, partial(_drop, weakref.ref(self), keys))
            shape_memory.add(found.entry)
        return found
