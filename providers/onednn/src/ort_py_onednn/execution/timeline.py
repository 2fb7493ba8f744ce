"""When steps read and write which bytes: each buffer's accesses in order, which is what `coalescing` proves with.

Every address that a plan computes is bounded here: what a layout, a piece of a buffer or a piece that moves would reach
outside of its buffer is refused. So is a step that writes what was read before: steps only ever write to buffers of
their own, and whether two of these share memory is decided afterwards. It does not depend on oneDNN's operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ort_py.contracts import check_time
from ort_py.errors import EPFail
from ort_py.light_tuple import NamedTuple
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.execution.plan import Buffer, Place, Step
from ort_py_onednn.execution.repeat import Repeat

__all__ = ["Access", "Timeline"]

_DST = Argument.DST
_REPORT = "this is a mistake in ort-py-onednn: please report it with the model"


class _Round(NamedTuple):
    """The times of one round of a `Repeat`, and its pieces that move."""

    first: int
    last: int
    step: Repeat


class Access(NamedTuple):
    """Bytes of a buffer that a step reads or writes.

    Attributes:
        begin, end: The bytes, counted from the begin of the whole buffer; bytes that a layout skips are counted.
        first, last: The time of the step; the first and last time of all of a `Repeat` for what outlives one round.
        code: The argument.
        reads, writes: What is done.
        one: The round that the step is in; None outside of a `Repeat`.
        moves: Whether the bytes move from round to round.
    """

    begin: int
    end: int
    first: int
    last: int
    code: int
    reads: bool
    writes: bool
    one: _Round | None = None
    moves: bool = False

    def overlaps(self, begin: int, end: int) -> bool:
        """Return whether any of the bytes are among these."""
        return self.begin < end and begin < self.end


class Timeline:
    """The accesses of steps, each step at a time of its own; those of a `Repeat`'s body have times of their own too.

    A buffer that a body writes before it reads it, and that is not used elsewhere, lives within one round: its accesses
    have exact times. Other buffers of a body count as used for the whole repetition.

    Args:
        steps: The steps, in order.
        results: Buffers that are read after the last step.

    Attributes:
        steps: (time, step) of each step that is not a `Repeat`, in order.
        end: The time after the last step.

    Raises:
        EPFail: A step reaches outside of a buffer, or writes what was read before.
    """

    def __init__(self, steps: Sequence[Step], results: Sequence[Buffer] = ()) -> None:
        self.steps: list[tuple[int, Step]] = []
        self._accesses: dict[Buffer, list[Access]] = {}
        self._over: dict[Buffer, tuple[int, int]] = {}
        time = 0
        for step in steps:
            check_time()
            if isinstance(step, Repeat):
                one = _Round(time, time + len(step.body), step)  # its last time is that of the way back to its begin
                for inner in step.body:
                    self._add(time, inner, one)
                    time += 1
                time += 1
            else:
                self._add(time, step, None)
                time += 1
        self.end = time
        for buffer in results:
            root, start = _whole(buffer)
            access = Access(start, start + buffer.nbytes, time, time, Argument.SRC, reads=True, writes=False)
            self._accesses.setdefault(root, []).append(access)
        for root, found in self._accesses.items():
            if not root.carried:
                self._check_order(found)
            self._accesses[root] = _settled(found)

    @property
    def buffers(self) -> Iterator[Buffer]:
        """Buffers of the arena, and outputs, that are used and are not pieces."""
        return iter(self._accesses)

    def of(self, root: Buffer) -> list[Access]:
        """The accesses of a buffer that is not a piece, the earliest first."""
        return self._accesses[root]

    def since(self, root: Buffer, time: int) -> Iterator[Access]:
        """The accesses of a buffer without the earliest, which are over before a time.

        Questions in the order of time look at each of these once.
        """
        found = self._accesses[root]
        asked, start = self._over.get(root, (0, 0))
        if time < asked:
            start = 0
        while start < len(found) and found[start].last < time:
            start += 1
        self._over[root] = time, start
        return map(found.__getitem__, range(start, len(found)))

    def life(self, root: Buffer) -> tuple[int, int]:
        """The first and last time at which a buffer is used."""
        found = self._accesses[root]
        return found[0].first, max([one.last for one in found])

    def join(self, first: Buffer, second: Buffer, shift: int) -> None:
        """Take the accesses of a second buffer for accesses of a first, from so many bytes on."""
        self._accesses[first] += [
            one._replace(begin=one.begin + shift, end=one.end + shift) for one in self._accesses.pop(second)
        ]

    def append(self, step: Step) -> None:
        """Add a step behind the last: one that reads what is there, and writes an array of the run."""
        self._add(self.end, step, None)
        self.end += 1

    def _check_order(self, found: Sequence[Access]) -> None:
        """Refuse what is written after it was read."""
        written = [one for one in found if one.writes]
        if not written or (
            len(written) == 1 and found[0].writes and (len(found) == 1 or found[1].first > found[0].first)
        ):
            return  # all is written, and read after that
        for access in written:
            earlier = [one for one in found if one is not access and one.reads and one.first <= access.first]
            if any(one.overlaps(access.begin, access.end) for one in earlier):
                raise self._overwritten(access.first)

    def _overwritten(self, time: int) -> EPFail:
        title = next(step.title for when, step in self.steps if when == time)
        return EPFail(f"'{title}' would write over bytes that are read before, or are not its own.", fix=_REPORT)

    def _add(self, time: int, step: Step, one: _Round | None) -> None:
        self.steps.append((time, step))
        buffers, accesses = step.buffers, self._accesses
        for code, low, high, writes in _reach(step):
            buffer = buffers[code]
            if not 0 <= low <= high <= buffer.nbytes:
                raise _outside(step, code, low, high, buffer.nbytes)
            if buffer.place is Place.INPUT or buffer.place is Place.CONSTANT:
                if writes:
                    raise self._overwritten(time)
                continue
            root, begin, end, moves = buffer, low, high, False
            if buffer.whole is not None:
                root, begin, end = buffer.whole, low + buffer.start, high + buffer.start
                if one is not None and (stride := one.step.strides.get(buffer, 0)):
                    way = stride * (one.step.count - 1)
                    begin, end, moves = begin + min(0, way), end + max(0, way), True
                if not 0 <= begin <= end <= root.nbytes:
                    raise _outside(step, code, begin, end, root.nbytes)
            reads = not writes or (step.accumulates and code == _DST)
            access = Access(begin, end, time, time, code, reads, writes, one, moves)
            known = accesses.get(root)
            if known is None:
                accesses[root] = [access]
            else:
                known.append(access)


def _reach(step: Step) -> Sequence[tuple[int, int, int, bool]]:
    if step.primitive is not None:
        return step.primitive.reach
    count = step.buffers[_DST].nbytes
    return [(code, 0, count, code == _DST) for code in step.buffers]


def _whole(buffer: Buffer) -> tuple[Buffer, int]:
    return (buffer, 0) if buffer.whole is None else (buffer.whole, buffer.start)


def _settled(found: list[Access]) -> list[Access]:
    """The accesses of one buffer, with the times of a whole `Repeat` where it outlives a round."""
    one = found[0].one
    same = True
    for other in found:
        if other.one is not one or other.moves:
            same = False
    if same and (one is None or _is_written_first(found)):
        return found
    return [
        access if access.one is None else access._replace(first=access.one.first, last=access.one.last)
        for access in found
    ]


def _is_written_first(found: Sequence[Access]) -> bool:
    """Return whether no byte is read in a round that an earlier step of the round did not write."""
    written: list[tuple[int, int]] = []
    ready: list[tuple[int, int]] = []
    time = -1
    for access in found:
        if access.first > time:
            written, time = [*written, *ready], access.first
            ready = []
        if access.reads and not _covers(written, access):
            return False
        if access.writes:
            ready.append((access.begin, access.end))
    return True


def _covers(ranges: Sequence[tuple[int, int]], access: Access) -> bool:
    place = access.begin
    for begin, end in sorted(ranges):
        if begin <= place < end:
            place = end
    return place >= access.end


def _outside(step: Step, code: int, begin: int, end: int, nbytes: int) -> EPFail:
    return EPFail(
        f"Argument {code} of '{step.title}' would reach from byte {begin} to byte {end} of a place of {nbytes} bytes.",
        fix=_REPORT,
    )
