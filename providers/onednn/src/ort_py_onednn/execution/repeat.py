"""Steps that run again and again on memory that moves: the time steps of a recurrent layer as one step of a plan.

Primitives and memory objects of one time serve all. What moves are pieces of buffers in the arena: each time they begin
some bytes further on, or further back. Whatever else the steps use lives as long as all of them, so that one time finds
what the one before it left. It is independent of what is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.execution.plan import Buffer, Place, Step

__all__ = ["Repeat", "repeated"]


@dataclass(frozen=True, slots=True)
class Repeat(Step):
    """Steps that are run `count` times in order; for the plan they are one, with all of their buffers.

    Attributes:
        body: The steps.
        count: How often they run.
        strides: By how many bytes a piece of a buffer moves on each time.
    """

    body: tuple[Step, ...]
    count: int
    strides: Mapping[Buffer, int]


def repeated(body: Sequence[Step], count: int, strides: Mapping[Buffer, int], title: str) -> Repeat:
    """One step of several.

    Args:
        body: The steps; none of them repeats anything itself.
        count: How often they run.
        strides: By how many bytes pieces of buffers move on each time; the others stay where they are.
        title: For errors.
    """
    assert all(buffer.whole is not None and buffer.place is Place.ARENA for buffer in strides), "an array of the run"
    buffers = dict.fromkeys(buffer for step in body for buffer in step.buffers.values())
    threads = max((step.threads for step in body), default=1)
    return Repeat(None, dict(enumerate(buffers)), threads, title, tuple(body), count, dict(strides))
