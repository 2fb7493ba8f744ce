"""Memory that the runs of a program need besides its weights, in bytes: plain values for reports.

Filled by `FramePool.workspace` from what recorded runs left. It does not depend on frames, plans or sessions.
"""

from __future__ import annotations

from ort_py.devices import Device
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory of runs.

    Attributes:
        reserved: Bytes of the arenas that all frames hold at present, idle ones included.
        high_water: The most bytes that intermediate values and results of one run took at once, bodies included, in
            any of the runs that were recorded; 0 where none was. Feeds and weights do not count.
        largest: Largest values at that peak, in descending order: (node and operator, bytes).
    """

    reserved: int = 0
    high_water: int = 0
    largest: tuple[tuple[str, int], ...] = ()
    reserved_by_device: tuple[tuple[Device, int], ...] = ()


NO_WORKSPACE = Workspace()
"""The workspace of a program that has not run."""
