"""Proofs tried on plans: what is read is what was written, whatever shares memory.

Two ways that know nothing of how sharing was decided. `replay` walks a plan's steps twice at once, with a memory of its
own for each buffer as they were emitted, and with the addresses that the plan gave: each byte that a step reads must
have been written by the same step in both. `Watch` also runs plans: on memory that holds nonsense, and once more with
all buffers apart, other nonsense in them, fences around them and no copy left out; the results must be the same bits.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias
from unittest import mock

import numpy as np

from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.execution import instance as instances
from ort_py_onednn.execution.coalescing import Coalesced, Result, coalesced
from ort_py_onednn.execution.instance import DnnlInstance
from ort_py_onednn.execution.large_pages import aligned
from ort_py_onednn.execution.plan import Buffer, Place, Plan, Step
from ort_py_onednn.execution.region import KeptPlan
from ort_py_onednn.execution.repeat import Repeat
from ort_py_onednn.execution.shape_memory import Entry
from ort_py_onednn.lowering import layouts

__all__ = ["Clash", "Watch", "replay", "watched"]

Array: TypeAlias = np.ndarray[Any, Any]
_Bytes: TypeAlias = "Array | slice"

_UNWRITTEN = -1
_FENCE = 256
_NONSENSE, _OTHER = 0xFF, 0x7B
"""Bytes of memory before a run: not-a-number as a float, and a number of 10³⁶."""


class Clash(AssertionError):
    """A plan in which memory is shared that must not be."""


# Steps without running them -------------------------------------------------------------------------------------------


def replay(done: Coalesced, results: Sequence[Result] = ()) -> None:
    """Walk a plan's steps in both memories.

    Raises:
        Clash: A step reads what another one wrote than it should.
    """
    _Replay(done).walk(results)


class _Replay:
    def __init__(self, done: Coalesced) -> None:
        self._done = done
        self._own: dict[Buffer, Array] = {}
        self._arena = np.full(done.arena_bytes, _UNWRITTEN, np.int64)
        self._outputs: dict[int, Array] = {}
        self._stamp = 0

    def walk(self, results: Sequence[Result]) -> None:
        final = iter(self._done.steps)
        for emitted in self._done.emitted:
            if id(emitted) in self._done.left_out:
                self._copied(emitted, 0, {})
                continue
            step = next(final)
            if isinstance(emitted, Repeat):
                assert isinstance(step, Repeat)
                self._again(emitted, step)
            else:
                self._one(emitted, step, 0, {}, {})
        for result in results:
            found = self._place(result.buffer)
            if found.place is Place.OUTPUT:
                self._agree(result.buffer, found, slice(0, result.target.nbytes), "the region's outputs")

    def _again(self, emitted: Repeat, final: Repeat) -> None:
        for number in range(emitted.count):
            left = iter(final.body)
            for inner in emitted.body:
                if id(inner) in self._done.left_out:
                    self._copied(inner, number, emitted.strides)
                else:
                    self._one(inner, next(left), number, emitted.strides, final.strides)

    def _one(self, emitted: Step, final: Step, number: int, strides: Any, others: Any) -> None:
        reads: list[tuple[int, Buffer, Buffer, _Bytes]] = []
        writes: list[tuple[int, Buffer, Buffer, _Bytes]] = []
        for code, chosen in _arguments(emitted):
            written = code in Argument.WRITTEN
            own, real = emitted.buffers[code], final.buffers[code]
            (writes if written else reads).append((code, own, real, chosen))
            if not written or (emitted.accumulates and code == Argument.DST):
                moved = number * strides.get(own, 0), number * others.get(real, 0)
                self._agree(own, real, chosen, f"'{emitted.title}', argument {code}", moved)
        for code, own, real, chosen in writes:
            self._stamp += 1
            memory, start = self._of(own)
            memory[start + number * strides.get(own, 0) :][chosen] = self._stamp
            memory, start = self._of(real)
            memory[start + number * others.get(real, 0) :][chosen] = self._stamp
            for other, _, read, bytes_read in reads:
                if read.place not in {Place.ARENA, Place.OUTPUT}:
                    continue
                if self._same_place(code, other, emitted, final):
                    continue
                memory, start = self._of(read)
                if np.any(memory[start + number * others.get(read, 0) :][bytes_read] == self._stamp):
                    raise Clash(f"'{emitted.title}' writes argument {code} over argument {other}, which it reads.")

    @staticmethod
    def _same_place(code: int, other: int, emitted: Step, final: Step) -> bool:
        """Whether a step may work in place and writes just what it reads, or a loop's state is its own argument."""
        if code != Argument.DST or final.primitive is None or final.buffers[code] is not final.buffers[other]:
            return False
        arguments = final.primitive.arguments
        if not arguments[code].same(arguments[other]):
            return False
        return emitted.in_place == other or emitted.buffers[code].carried

    def _copied(self, step: Step, number: int, strides: Any) -> None:
        """A copy that is not made: what is in the copy is what the original's writer wrote."""
        source, target = step.buffers[Argument.SRC], step.buffers[Argument.DST]
        from_, begin = self._of(source)
        to, start = self._of(target)
        begin += number * strides.get(source, 0)
        to[start : start + target.nbytes] = from_[begin : begin + target.nbytes]

    def _agree(self, own: Buffer, real: Buffer, chosen: _Bytes, what: str, moved: tuple[int, int] = (0, 0)) -> None:
        if own.place in {Place.INPUT, Place.CONSTANT}:
            if real is not own:
                raise Clash(f"{what}: what is given is read elsewhere.")
            return
        memory, start = self._of(own)
        expected = memory[start + moved[0] :][chosen]
        memory, start = self._of(real)
        found = memory[start + moved[1] :][chosen]
        if np.any(expected == _UNWRITTEN):
            raise Clash(f"{what}: {int(np.sum(expected == _UNWRITTEN))} bytes are read that nobody wrote.")
        if not np.array_equal(expected, found):
            raise Clash(f"{what}: {int(np.sum(expected != found))} bytes are not those of whoever made them.")

    def _place(self, buffer: Buffer) -> Buffer:
        return self._done.places.get(buffer, buffer)

    def _of(self, buffer: Buffer) -> tuple[Array, int]:
        """The writer of each byte of the memory that contains a buffer, and the buffer's offset."""
        if buffer.place is Place.OUTPUT:
            memory = self._outputs.setdefault(buffer.index, np.full(buffer.nbytes, _UNWRITTEN, np.int64))
            return memory, 0
        if buffer in self._done.places or buffer.whole in self._done.places:
            root, start = (buffer, 0) if buffer.whole is None else (buffer.whole, buffer.start)
            if root not in self._own:
                self._own[root] = np.full(root.nbytes, _UNWRITTEN, np.int64)
            return self._own[root], start
        return self._arena, buffer.offset


def _arguments(step: Step) -> Iterator[tuple[int, _Bytes]]:
    """Each argument of a step with the bytes that it takes."""
    if step.primitive is None:
        count = step.buffers[Argument.DST].nbytes
        yield from ((code, slice(0, count)) for code in step.buffers)
        return
    for code, desc in step.primitive.arguments.items():
        yield code, _bytes_of(desc)


def _bytes_of(desc: Desc) -> _Bytes:
    """The bytes of a layout, without those that it skips."""
    begin, end = desc.reach
    dense = desc.key is not None and end - begin == math.prod(desc.key[2]) * desc.dtype.nbytes
    if desc.key is None or len(desc.key) > 7 or dense:
        return slice(begin, end)
    return _chosen(desc.key, desc.strides)


@lru_cache(maxsize=512)
def _chosen(key: Any, strides: tuple[int, ...]) -> _Bytes:
    _, _, padded, (blocks, places), offset, _, dtype = key
    outer, inner = list(padded), math.prod(blocks)
    for block, place in zip(blocks, places, strict=True):
        outer[place] //= block
    found = np.array([offset], np.int64)
    for size, stride in zip(outer, strides, strict=True):
        found = (found[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    found = (found[:, None] + np.arange(inner)).reshape(-1)
    found = (found[:, None] * dtype.nbytes + np.arange(dtype.nbytes)).reshape(-1)
    return np.asarray(found)


# Steps that run -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Watch:
    """Observations of plans.

    Attributes:
        plans: How many were replayed.
        runs: How many were run apart too, once each.
        runs_too: Whether plans are run apart.
        clashes: What was found. Sessions take errors of a region for a reason to run it elsewhere.
    """

    plans: int = 0
    runs: int = 0
    runs_too: bool = True
    clashes: list[Clash] = field(default_factory=list)
    _apart: dict[int, tuple[tuple[Step, ...], Coalesced]] = field(default_factory=dict)

    def coalesced(self, steps: Sequence[Step], results: Sequence[Result] = ()) -> Coalesced:
        """Stands for `coalescing.coalesced`."""
        done = coalesced(steps, results)
        self.plans += 1
        with self._noting():
            replay(done, results)
        if self.runs_too:
            # The steps are kept too, so that their identity stays theirs.
            self._apart[id(done.steps)] = done.steps, coalesced(steps, results, lambda *_: False)
        return done

    def run(self, instance: DnnlInstance, call: Any) -> Sequence[Any]:
        """Stands for a run of an instance."""
        form, inputs = instance._form, instance._inputs
        assert form is not None
        _, apart = self._apart.pop(id(form.plan.steps), (None, None))
        if apart is None:
            found: Sequence[Any] = call(instance)
            return found
        self.runs += 1
        given = [array.copy() for array in inputs]
        held = {id(one): one.data.copy() for one in _constants(form.plan.steps) if one.data is not None}
        instance._arena[:] = _NONSENSE
        found = call(instance)
        with self._noting():
            shapes = zip(form.outputs, form.plan.outputs, strict=True)
            grown = bool(instance._counts) or any(one[0] != shape for one, shape in shapes)
            other = _run_apart(instance._region, form.plan, apart, given, grown=grown)
            for number, (one, two) in enumerate(zip(found, other, strict=True)):
                if one.tobytes() != two.tobytes():
                    raise Clash(f"Output {number} differs where buffers lie apart.")
            for number, (one, two) in enumerate(zip(inputs, given, strict=True)):
                if one.tobytes() != two.tobytes():
                    raise Clash(f"Input {number} was written to.")
            for one in _constants(form.plan.steps):
                if one.data is not None and not np.array_equal(one.data, held[id(one)]):
                    raise Clash("A constant was written to.")
        return found

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except Clash as clash:
            self.clashes.append(clash)


def _constants(steps: Sequence[Step]) -> list[Buffer]:
    return [buffer for step in steps for buffer in step.buffers.values() if buffer.place is Place.CONSTANT]


def _run_apart(region: Any, plan: Plan, apart: Coalesced, inputs: Sequence[Any], *, grown: bool) -> Sequence[Any]:
    """A run with a fence around each buffer, and around each output that has the size of the plan; `grown` if some have
    another one, or a run counts its keys."""
    roots = [place for place in dict.fromkeys(apart.places.values()) if place.place is Place.ARENA and not place.whole]
    end = _FENCE
    fences = []
    for root in roots:
        root.offset = end
        end += root.nbytes
        fences.append((end, -(-end // 64) * 64 + _FENCE))
        end = fences[-1][1]
    for place in apart.places.values():
        if place.whole is not None and place.place is Place.ARENA:
            place.offset = place.whole.offset + place.start
    arena = aligned(end)
    arena[:] = _OTHER
    whole = Plan(apart.steps, end, plan.outputs, plan.dtypes, plan.given)
    runner = DnnlInstance(region, 1)
    form = instances._Form(region, KeptPlan(whole, Entry(0, (), int)), arena, size=1, judged=False)
    runner._adapts = False
    vars(runner)["_form_for"] = lambda *_: form  # one plan, whatever the shapes
    if not grown:
        vars(runner)["_grown"] = lambda *_: form
    outputs, around = [], []
    for shape, dtype in zip(plan.outputs, plan.dtypes, strict=True):
        size = math.prod(shape) * dtype.itemsize
        memory = aligned(size + 2 * _FENCE)
        memory[:] = _OTHER
        outputs.append(memory[_FENCE : _FENCE + size].view(dtype).reshape(shape))
        around += [memory[:_FENCE], memory[_FENCE + size :]]
    runner.bind(inputs, outputs)
    made = DnnlInstance.__call__(runner)
    around += [arena[:_FENCE], *(arena[first:last] for first, last in fences)]
    if any(np.any(fence != _OTHER) for fence in around):
        raise Clash("A step wrote behind the end of a buffer, or in front of one.")
    return made


@contextlib.contextmanager
def watched(*, runs_too: bool = True) -> Iterator[Watch]:
    """Check every plan that is made inside, and every first run of one of them.

    Raises:
        Clash: At the end: memory was shared that must not be.
    """
    watch = Watch(runs_too=runs_too)
    call = DnnlInstance.__call__

    def run(self: DnnlInstance) -> Sequence[Any]:
        return watch.run(self, call) if "_form_for" not in vars(self) else call(self)

    with (
        mock.patch.object(layouts, "coalesced", watch.coalesced),
        mock.patch.object(DnnlInstance, "__call__", run),
    ):
        yield watch
    if watch.clashes:
        raise watch.clashes[0]
