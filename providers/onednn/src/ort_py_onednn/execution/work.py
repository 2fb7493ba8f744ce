"""From the steps of a plan to calls: native memory objects at the addresses of an arena, and what is called with them.

The last thing that is made of a plan, once a frame. It is independent of runs: the arrays of a run get their addresses
in `instance`, in the places that are noted here.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from ort_py.contracts import check_time
from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.calls import Call, Repeated
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import Engine
from ort_py_onednn.binding.flags import INVALID, OVERFLOW, Flags
from ort_py_onednn.binding.openmp import allowed
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.binding.status import check
from ort_py_onednn.execution.plan import Buffer, Place, Plan, Step
from ort_py_onednn.execution.repeat import Repeat

__all__ = ["Memories", "Work", "work_of"]

_BYTES = ((0, Argument.DST), (1, Argument.SRC))
"""Arguments of the calls that fill and copy bytes."""


class Memories:
    """oneDNN's memory objects: a layout at an address, one for each pair; those of a run's arrays get theirs later.

    Attributes:
        moving: Objects of each input and output.
        kept: What their addresses point to.
    """

    def __init__(self, engine: Engine, arena: np.ndarray[Any, Any]) -> None:
        self.moving: dict[tuple[Place, int], list[Any]] = {}
        self.kept: list[Any] = [arena]
        self._engine = engine
        self._base = arena.ctypes.data
        self._known: dict[Any, Any] = {}
        self._made: dict[Buffer, list[Any]] = {}

    def address(self, buffer: Buffer) -> int:
        """Address of a buffer; 0 for an array of the run."""
        if buffer.place is Place.ARENA:
            return int(self._base + buffer.offset)
        return 0 if buffer.data is None else int(buffer.data.ctypes.data)

    def of(self, desc: Desc, buffer: Buffer) -> Any:
        """The object for a layout in a buffer."""
        key = buffer, desc.key
        if desc.key is not None and key in self._known:
            return self._known[key]
        e = self._engine
        place = ffi.new("void **")
        address = ffi.cast("void *", self.address(buffer))
        check(e.c.dnnl_memory_create(place, desc.handle, e.handle, address), "dnnl_memory_create")
        made = self._known[key] = place[0]
        self._made.setdefault(buffer, []).append(made)
        self.kept += [ffi.gc(made, e.c.dnnl_memory_destroy), buffer.data]
        if buffer.place in {Place.INPUT, Place.OUTPUT}:
            self.moving.setdefault((buffer.place, buffer.index), []).append(made)
        return made

    def made_of(self, buffer: Buffer) -> list[Any]:
        """The objects that were made of a buffer so far."""
        return self._made.get(buffer, [])


@dataclass(slots=True)
class Work:
    """The calls of a plan.

    Attributes:
        calls: In order.
        titles: Of each, for errors.
        records: How many calls they are, those that are repeated counted each time.
        bound: Number of each call that is given the address of a buffer itself, the argument, and the buffer.
        lengths: Number of each call that is given what a run says of its past, the argument, and what that depends on.
    """

    calls: list[Call | Repeated] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    records: int = 0
    bound: list[tuple[int, int, Buffer]] = field(default_factory=list)
    lengths: list[tuple[int, int, tuple[int, int, int]]] = field(default_factory=list)

    def add(self, call: Call | Repeated, title: str) -> None:
        """Append a call."""
        self.calls.append(call)
        self.titles.append(title)
        self.records += len(call) if isinstance(call, Repeated) else 1


def work_of(engine: Engine, plan: Plan, memories: Memories, flags: Flags | None = None) -> Work:
    """The calls of a plan's steps.

    Args:
        engine: The engine.
        plan: The plan.
        memories: Places of its buffers.
        flags: Place for the processor's flags; None if they are not checked.
    """
    writer = _Writer(engine, memories, flags)
    work = Work()
    for step in plan.steps:
        check_time()
        if isinstance(step, Repeat):
            writer.again(step, work)
        else:
            writer.once(step, work)
    return work


class _Writer:
    """Calls for steps, on the number of threads that each wants."""

    def __init__(self, engine: Engine, memories: Memories, flags: Flags | None) -> None:
        c = engine.c
        self._flags = flags
        self._stream = engine.stream
        self._memories = memories
        self._execute, self._rebind, self._fill, self._copy = (
            getattr(c, name) for name in ("dnnl_primitive_execute", "dnnl_memory_set_data_handle", "memset", "memcpy")
        )
        self._set_threads = c.omp_set_num_threads if engine.library.threaded else None
        self._current = 0

    def once(self, step: Step, work: Work) -> None:
        """Append a step that is not a `Repeat`."""
        if step.primitive is None:
            if len(step.buffers) == 1:
                work.bound.append((work.records, 0, step.buffers[Argument.DST]))
            work.add(self._bytes(step), step.title)
            return
        if isinstance(step.primitive, OwnCode):
            own, buffers = step.primitive, step.buffers
            work.bound += [(work.records, place, buffers[code]) for place, code in own.bound]
            if own.length is not None:
                work.lengths.append((work.records, own.length, own.grows))
            self._memories.kept += [buffer.data for buffer in buffers.values()]
            addresses = {code: self._memories.address(buffer) for code, buffer in buffers.items()}
            for one in own.calls(addresses, step.threads):
                work.add(one, step.title)
            return
        self._take(step.threads, work)
        descs = step.primitive.arguments
        arguments = ffi.new("dnnl_exec_arg_t[]", len(descs))
        for index, (code, desc) in enumerate(descs.items()):
            arguments[index].arg = code
            arguments[index].memory = self._memories.of(desc, step.buffers[code])
        call = self._execute, (step.primitive.handle, self._stream, len(descs), arguments), True
        hazards, flags = step.primitive.hazards, self._flags
        ahead: list[Call] = []
        behind: list[Call] = []
        if flags is not None and hazards.idle and not hazards.clamps:
            # It raises the flag idly, and loses nothing.
            ahead, behind = [flags.note(INVALID, step.threads)], [flags.forget(INVALID, step.threads)]
        elif flags is not None and hazards.overflows:
            ahead, behind = [flags.forget(OVERFLOW, step.threads)], [flags.note(OVERFLOW, step.threads)]
        if flags is not None and hazards.clamps and hazards.leftovers:
            ahead.append(flags.clean(step.threads))
        for one in (*ahead, call, *behind):
            work.add(one, step.title)

    def again(self, step: Repeat, work: Work) -> None:
        """Append a `Repeat`. Memory objects are moved ahead of each time: they are left elsewhere by the run before."""
        counts = {one.threads for one in step.body if isinstance(one.primitive, Primitive)}
        if len(counts) == 1:
            self._take(step.threads, work)
        else:
            self._current = 0  # each time begins as the last one ends
        body = Work()
        strides: dict[tuple[int, int], int] = {}
        for one in step.body:
            if one.primitive is None or isinstance(one.primitive, OwnCode):
                places_of = _BYTES if one.primitive is None else one.primitive.bound
                moves = [
                    (place, step.strides.get(one.buffers[code])) for place, code in places_of if code in one.buffers
                ]
                strides |= {(len(body.calls), place): stride for place, stride in moves if stride}
                arrays = {Place.INPUT, Place.OUTPUT}
                assert arrays.isdisjoint(one.buffers[code].place for _, code in places_of if code in one.buffers)
            self.once(one, body)
        ahead: list[Call] = []
        places: dict[tuple[int, int], int] = {}
        for buffer, stride in step.strides.items():
            for made in self._memories.made_of(buffer):
                places[len(ahead), 1] = stride
                ahead.append((self._rebind, (made, self._memories.address(buffer)), True))
        places |= {(len(ahead) + call, place): stride for (call, place), stride in strides.items()}
        calls: list[Call] = [call for call in (*ahead, *body.calls) if not isinstance(call, Repeated)]
        work.add(Repeated(calls, step.count, places), step.title)

    def _take(self, threads: int, work: Work) -> None:
        if self._set_threads is not None and threads != self._current:
            self._current = threads
            work.add((self._set_threads, (allowed(threads),), False), "omp_set_num_threads")

    def _bytes(self, step: Step) -> Call:
        target = step.buffers[Argument.DST]
        address = self._memories.address(target)
        if len(step.buffers) == 1:
            return self._fill, (address, 0, target.nbytes), False
        return self._copy, (address, self._memories.address(step.buffers[Argument.SRC]), target.nbytes), False
