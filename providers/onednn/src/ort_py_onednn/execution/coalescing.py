"""Buffers of a plan that share memory: decided over all of its steps, once they are known.

Steps come in a form in which each writes to buffers of its own. A step may say that its destination could take the
place of one of its arguments, or that it is a copy that need not be made then (`Step`). Here that is proven or refused:
the place must be the arena's, no other argument of the step may lie among the bytes, and no step may read or write any
of them later. A destination for which that cannot be proven keeps a place of its own, and a copy is made: a wrong wish
costs time, and never a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ort_py.contracts import check_time
from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.execution.plan import Buffer, Place, Step, lay_out
from ort_py_onednn.execution.repeat import Repeat
from ort_py_onednn.execution.timeline import Timeline

__all__ = ["Coalesced", "Proof", "Result", "coalesced", "may_share"]


@dataclass(frozen=True, slots=True)
class Result:
    """An output of a plan that lies in a buffer.

    Attributes:
        buffer: Where it lies when all steps are done, from the begin on.
        target: The run's array.
        copy: Makes the step that copies it there; called where the buffer cannot be the array itself.
    """

    buffer: Buffer
    target: Buffer
    copy: Callable[[], Step]


@dataclass(frozen=True, slots=True)
class Coalesced:
    """Steps whose buffers have places.

    Attributes:
        steps: The steps that are left.
        emitted: The steps that went in, and the copies to the run's arrays; their buffers are as they were.
        places: Where each emitted buffer went.
        left_out: The copies that are not made, by identity.
        arena_bytes: Size of the arena.
    """

    steps: tuple[Step, ...]
    emitted: tuple[Step, ...]
    places: Mapping[Buffer, Buffer]
    left_out: frozenset[int]
    arena_bytes: int


def may_share(timeline: Timeline, time: int, step: Step, code: int, home: tuple[Buffer, int]) -> bool:
    """Return whether the destination of a step may take the place of one of its arguments.

    Args:
        timeline: The accesses of all steps, of buffers that share already taken together.
        time: When the step runs.
        step: The step.
        code: The argument.
        home: Place of the argument: a buffer that is not a piece, and the offset.
    """
    target, (root, start) = step.buffers[Argument.DST], home
    if root.place is not Place.ARENA or root.carried or target is root:
        return False
    end = start + target.nbytes
    if end > root.nbytes:
        return False
    own = timeline.of(target)
    if own[0].first != time or (len(own) > 1 and own[1].first == time):
        return False  # it has a content already, or is used in another way by this step
    if own[0].last != time:
        return False  # it is written again in a later round
    for one in timeline.since(root, time):
        if one.last < time or not one.overlaps(start, end):
            continue
        if one.first == one.last == time and one.code == code:
            continue
        return False
    return True


Proof = Callable[[Timeline, int, Step, int, tuple[Buffer, int]], bool]


def coalesced(steps: Sequence[Step], results: Sequence[Result] = (), proof: Proof | None = None) -> Coalesced:
    """Decide which buffers share memory, and give all of them places.

    Args:
        steps: The steps of a plan, in order.
        results: The outputs that are not written to the run's arrays by a step.
        proof: What decides instead of `may_share`, for tests.

    Raises:
        EPFail: A step reaches outside of a buffer, or writes what was read before.
    """
    return _Coalescing(steps, results, may_share if proof is None else proof).done()


class _Coalescing:
    def __init__(self, steps: Sequence[Step], results: Sequence[Result], proof: Proof) -> None:
        self._emitted = list(steps)
        self._results = results
        self._proof = proof
        self._timeline = Timeline(steps, [result.buffer for result in results])
        self._homes: dict[Buffer, tuple[Buffer, int]] = {}
        self._places: dict[Buffer, Buffer] = {}
        self._left_out: set[int] = set()

    def done(self) -> Coalesced:
        for time, step in self._timeline.steps:
            check_time()
            code = Argument.SRC if step.elidable else step.in_place
            if code is not None and self._shares(time, step, code) and step.elidable:
                self._left_out.add(id(step))
        self._return_results()
        steps = tuple(self._placed(step) for step in self._emitted if id(step) not in self._left_out)
        lives: dict[Buffer, tuple[int, int]] = {}
        for root in self._timeline.buffers:
            if root.place is Place.ARENA and (place := self._place(root)).place is Place.ARENA:
                lives[place] = self._timeline.life(root)
        arena = lay_out(lives)
        for place in self._places.values():
            if place.whole is not None:
                place.offset = place.whole.offset + place.start
        return Coalesced(steps, tuple(self._emitted), self._places, frozenset(self._left_out), arena)

    def _shares(self, time: int, step: Step, code: int) -> bool:
        source, target = step.buffers[code], step.buffers[Argument.DST]
        if target.place is not Place.ARENA or target.whole is not None:
            return False
        if step.primitive is not None:
            arguments = step.primitive.arguments
            if not arguments[code].same(arguments[Argument.DST]):
                return False
        root, start = self._home(source)
        if not step.elidable and (start or root.nbytes != target.nbytes):
            return False  # it would keep more alive than it saves
        if not self._proof(self._timeline, time, step, code, (root, start)):
            return False
        self._timeline.join(root, target, start)
        self._homes[target] = root, start
        return True

    def _home(self, buffer: Buffer) -> tuple[Buffer, int]:
        """The root buffer in which a buffer lies, and its offset. A root is not a piece and does not share with an
        earlier buffer.
        """
        whole, start = (buffer, 0) if buffer.whole is None else (buffer.whole, buffer.start)
        root, first = self._homes.get(whole, (whole, 0))
        return root, first + start

    def _place(self, buffer: Buffer) -> Buffer:
        """Address of an emitted buffer."""
        if buffer.place is not Place.ARENA:
            return buffer
        found = self._places.get(buffer)
        if found is None:
            root, start = self._home(buffer)
            if root is buffer:
                found = Buffer(Place.ARENA, buffer.nbytes, carried=buffer.carried)
            elif buffer.whole is None and not start and buffer.nbytes == root.nbytes:
                found = self._place(root)
            else:
                found = Buffer(Place.ARENA, buffer.nbytes, whole=self._place(root), start=start)
            self._places[buffer] = found
        return found

    def _placed(self, step: Step) -> Step:
        check_time()
        places = self._places
        buffers = {code: places.get(buffer) or self._place(buffer) for code, buffer in step.buffers.items()}
        if not isinstance(step, Repeat):
            return Step(step.primitive, buffers, step.threads, step.title)
        body = tuple(self._placed(one) for one in step.body if id(one) not in self._left_out)
        strides = {self._place(buffer): stride for buffer, stride in step.strides.items()}
        return replace(step, buffers=buffers, body=body, strides=strides)

    def _return_results(self) -> None:
        """Let buffers of the arena be arrays of the run where they can be, and copy the others."""
        pinned = self._pinned()
        for result in self._results:
            root, start = self._home(result.buffer)
            free = root.place is Place.ARENA and not start and root not in pinned
            if free and root.nbytes == result.target.nbytes:
                pinned.add(root)
                self._places[root] = result.target
                continue
            step = result.copy()
            self._timeline.append(replace(step, buffers=self._rooted(step)))
            self._emitted.append(step)

    def _rooted(self, step: Step) -> dict[int, Buffer]:
        """A step's buffers, as pieces of those that they share memory with."""
        found: dict[int, Buffer] = {}
        for code, buffer in step.buffers.items():
            root, start = self._home(buffer)
            found[code] = buffer if root is buffer else replace(buffer, whole=root, start=start)
        return found

    def _pinned(self) -> set[Buffer]:
        """Buffers that stay in the arena: addresses of pieces, of copies of bytes and of what own code does again and
        again are counted from its begin."""
        found: set[Buffer] = set()
        again = {id(one) for step in self._emitted if isinstance(step, Repeat) for one in step.body}
        for _, step in self._timeline.steps:
            copies = step.primitive is None and len(step.buffers) > 1 and id(step) not in self._left_out
            copies = copies or (isinstance(step.primitive, OwnCode) and id(step) in again)
            for buffer in step.buffers.values():
                if copies or buffer.whole is not None or buffer in self._homes:
                    root, _ = self._home(buffer)
                    if copies or buffer.whole is not None or buffer.nbytes != root.nbytes:
                        found.add(root)
        return found
