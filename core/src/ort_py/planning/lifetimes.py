"""Lifetimes of slots: after which step the content of a slot is not needed any more.

It is independent of devices or sizes. Slots that outlive a run (constants, captures, outputs, frames, instances) are
given as `keep`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ort_py.planning.plan import Step


def with_releases(steps: Sequence[Step], keep: Collection[int]) -> tuple[Step, ...]:
    """Return the steps, each with `release`: the slots that it uses last, and its outputs that are never read.

    The planner has just made them and holds the only references, so they are completed in place: copying frozen records
    is slow.
    """
    seen: set[int] = set(keep)
    for step in reversed(steps):
        last = [slot for slot in dict.fromkeys((*step.inputs, *step.outputs)) if slot not in seen]
        if last:
            seen.update(last)
            object.__setattr__(step, "release", tuple(last))
    return tuple(steps)
