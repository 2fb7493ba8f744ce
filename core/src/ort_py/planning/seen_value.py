"""The form of a value that a recorded run made: what the plan of a run's memory is made of.

Stands alone, because every first run makes such records, and few programs have memory to plan.
"""

from __future__ import annotations

from typing import Any

from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SeenValue:
    """The value that a recorded run left in a slot.

    Attributes:
        nbytes: Bytes of its elements.
        plain: It is C-contiguous, and memory of its form can be made of bytes.
    """

    shape: tuple[int, ...]
    dtype: Any
    nbytes: int
    plain: bool
