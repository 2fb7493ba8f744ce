"""Steps gathered into tasks for several threads: long enough to be worth a thread, cut where threads must meet.

List scheduling with known times (HEFT: Topcuoglu, Hariri and Wu, 2002): chains in the order of the longest way to the
end that begins with them, each on the lane where it would end first; reading what another lane made costs time, so
steps too short to be handed over stay with what they read. A task is what lies on a lane between two meetings; no
thread ever waits inside one. Lanes are only the way to tasks: any thread may run any task.

Comes after `dependencies`. It is independent of slots and threads; times are measured numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py.planning.dependencies import Dependencies

_LONGEST = 500_000
"""Nanoseconds after which a task is cut although no other lane waits: an idle thread can take the rest."""


@dataclass(frozen=True, slots=True)
class LaneTask:
    """Steps that one thread runs one after another.

    Attributes:
        steps: Places in the plan, in an order that respects their dependencies.
        waits: Tasks it waits for; always earlier ones.
        pinned: Whether it belongs to the thread that began the run.
    """

    steps: tuple[int, ...]
    waits: tuple[int, ...]
    pinned: bool


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Tasks of a plan.

    Attributes:
        tasks: The more urgent ones first.
        span: When the last one would end, in nanoseconds.
    """

    tasks: tuple[LaneTask, ...]
    span: int


def arrange(dependencies: Dependencies, times: Sequence[int], lanes: int, exchange: int) -> Arrangement:
    """Gather steps into tasks.

    Args:
        times: Nanoseconds each step takes on one thread.
        exchange: Nanoseconds until a thread begins with what another one made possible.
    """
    chains = _chains(dependencies)
    whole = _contracted(dependencies, chains)
    lengths = [sum(max(1, times[step]) for step in chain) for chain in chains]
    urgency = _urgency(whole, lengths)
    lane_of, span = _place(whole, lengths, urgency, lanes, exchange)
    pieces = _cut(whole, lengths, urgency, lane_of, lanes)
    # A lane's chains are in the order of their urgency, so this one respects what waits for what.
    pieces.sort(key=lambda piece: (-urgency[piece[0]], piece[0]))
    task_of = {chain: number for number, piece in enumerate(pieces) for chain in piece}
    tasks = tuple(
        LaneTask(
            tuple(step for chain in piece for step in chains[chain]),
            tuple(sorted({task_of[before] for chain in piece for before in whole.waits[chain]} - {number})),
            not whole.pinned.isdisjoint(piece),
        )
        for number, piece in enumerate(pieces)
    )
    return Arrangement(tasks, span)


def _chains(dependencies: Dependencies) -> list[list[int]]:
    """Gather steps into chains: each step waits only for the one before it, and nothing else waits for that one. Chains
    are never split.
    """
    readers = [0] * len(dependencies.waits)
    for waits in dependencies.waits:
        for before in waits:
            readers[before] += 1
    chains: list[list[int]] = []
    chain_of: list[list[int]] = []
    for step, waits in enumerate(dependencies.waits):
        goes_on = (
            len(waits) == 1
            and readers[waits[0]] == 1
            and (step in dependencies.pinned) == (waits[0] in dependencies.pinned)
        )
        if not goes_on:
            chains.append([])
        chain_of.append(chain_of[waits[0]] if goes_on else chains[-1])
        chain_of[step].append(step)
    return chains


def _contracted(dependencies: Dependencies, chains: Sequence[Sequence[int]]) -> Dependencies:
    """The dependencies of chains, of which each begins after all it waits for."""
    chain_of = {step: number for number, chain in enumerate(chains) for step in chain}
    return Dependencies(
        tuple(tuple(sorted({chain_of[before] for before in dependencies.waits[chain[0]]})) for chain in chains),
        frozenset(number for number, chain in enumerate(chains) if chain[0] in dependencies.pinned),
    )


def _urgency(dependencies: Dependencies, times: Sequence[int]) -> list[int]:
    """Nanoseconds of the longest way from the beginning of each chain to the end of the plan."""
    after = [0] * len(times)
    urgency = [0] * len(times)
    for step in range(len(times) - 1, -1, -1):
        urgency[step] = times[step] + after[step]
        for before in dependencies.waits[step]:
            after[before] = max(after[before], urgency[step])
    return urgency


def _place(
    dependencies: Dependencies, times: Sequence[int], urgency: Sequence[int], lanes: int, exchange: int
) -> tuple[list[int], int]:
    """The lane of each chain, and when the last one ends."""
    lane_of, end = [0] * len(times), [0] * len(times)
    free = [0] + [exchange] * (lanes - 1)  # the other threads sleep when a run begins
    for step in sorted(range(len(times)), key=lambda one: (-urgency[one], one)):
        best, chosen, fresh = -1, 0, 0
        waits = dependencies.waits[step]
        # With the lane of what it reads last in front, that one is taken where several are as good.
        latest = max(waits, key=end.__getitem__, default=-1)
        order = range(lanes) if latest < 0 else (lane_of[latest], *range(lanes))
        for lane in (0,) if step in dependencies.pinned else order:
            start = free[lane]
            for before in waits:
                ready = end[before] + (exchange if lane_of[before] != lane else 0)
                start = max(start, ready)
            if best < 0 or start < best:
                best, chosen, fresh = start, lane, start + times[step]
        lane_of[step], end[step], free[chosen] = chosen, fresh, fresh
    return lane_of, max(end, default=0)


def _cut(
    dependencies: Dependencies, times: Sequence[int], urgency: Sequence[int], lane_of: Sequence[int], lanes: int
) -> list[list[int]]:
    """The chains of each lane, cut where another lane reads or was read, and where a piece gets long."""
    read_elsewhere = {
        before for step, waits in enumerate(dependencies.waits) for before in waits if lane_of[before] != lane_of[step]
    }
    pieces: list[list[int]] = []
    current: list[list[int]] = [[] for _ in range(lanes)]
    length = [0] * lanes
    for step in sorted(range(len(times)), key=lambda one: (-urgency[one], one)):
        lane = lane_of[step]
        reads_elsewhere = any(lane_of[before] != lane for before in dependencies.waits[step])
        if current[lane] and (reads_elsewhere or length[lane] >= _LONGEST):
            pieces.append(current[lane])
            current[lane], length[lane] = [], 0
        current[lane].append(step)
        length[lane] += times[step]
        if step in read_elsewhere:
            pieces.append(current[lane])
            current[lane], length[lane] = [], 0
    pieces.extend(piece for piece in current if piece)
    return pieces
