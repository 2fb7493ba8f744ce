"""Lifetimes of slots: after which step the content of a slot is not needed any more.

Knows nothing of devices or sizes. Slots that outlive a run (constants, captures, outputs, frames, instances) are
given as `keep`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ort_py.planning.steps import Step

__all__ = ["with_releases"]


def with_releases(steps: Sequence[Step], keep: Collection[int]) -> tuple[Step, ...]:
    """The same steps, each with the slots it uses last, and the outputs nobody reads, as `release`."""
    seen: set[int] = set(keep)
    result: list[Step] = []
    for step in reversed(steps):
        last = [slot for slot in dict.fromkeys((*step.inputs, *step.outputs)) if slot not in seen]
        seen.update(last)
        result.append(replace(step, release=tuple(last)) if last else step)
    result.reverse()
    return tuple(result)
