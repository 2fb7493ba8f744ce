"""Costs of a provider's calls, arithmetic and copies on this machine: figures measured once, or orders of magnitude.

Data only. Comes before `work_table`, which prices nodes with them. They are measured and kept elsewhere
(`ort_py.inspection.calibration`). Without measurements, the figures here suffice to refuse placements that are plainly
wrong.
"""

from __future__ import annotations

import math
from collections.abc import ItemsView, Mapping
from dataclasses import asdict, fields
from typing import Any

from ort_py.contracts import IExecutionProvider
from ort_py.devices import HOST
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rates:
    """One provider on one machine. All times are microseconds.

    Attributes:
        launch_us: One call of a kernel, or of a compiled region.
        node_us: Microseconds that one more node of a region takes besides its arithmetic.
        flops_per_us: Multiplications and additions of products, in a microsecond.
        bytes_per_us: Bytes that other operators read and write.
        copy_us: One copy between the provider's device and the host, however small; 0 on the host.
        copy_bytes_per_us: Bytes that such a copy moves; infinite on the host.
        measured: Whether these are this machine's figures.
    """

    launch_us: float
    node_us: float
    flops_per_us: float
    bytes_per_us: float
    copy_us: float = 0.0
    copy_bytes_per_us: float = math.inf
    measured: bool = False

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data. Infinite values are left out, since JSON cannot express them."""
        return {name: value for name, value in asdict(self).items() if value != math.inf}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Rates | None:
        """Read from plain data; None if the data have another form."""
        names = {one.name for one in fields(cls)}
        numbers = {key: value for key, value in data.items() if key in names and key != "measured"}
        if not all(isinstance(value, int | float) and value >= 0 for value in numbers.values()):
            return None
        try:
            found = cls(**{key: float(value) for key, value in numbers.items()}, measured=True)
        except TypeError:
            return None
        speeds = (found.flops_per_us, found.bytes_per_us, found.copy_bytes_per_us)
        return found if all(speed > 0 for speed in speeds) else None


HOST_RATES = Rates(launch_us=2.0, node_us=2.0, flops_per_us=20_000.0, bytes_per_us=5_000.0)
"""One core and NumPy."""

DEVICE_RATES = Rates(
    launch_us=6.0, node_us=6.0, flops_per_us=400_000.0, bytes_per_us=100_000.0, copy_us=12.0, copy_bytes_per_us=10_000.0
)
"""An accelerator that is twenty times as fast, behind a bus."""


class Calibration:
    """Rates by provider.

    Args:
        measured: Measurements of this machine, by the provider's name.
    """

    def __init__(self, measured: Mapping[str, Rates] | None = None) -> None:
        self._measured = dict(measured or {})

    def of(self, provider: IExecutionProvider) -> Rates:
        """Rates of a provider: figures of this machine, else those of its kind."""
        found = self._measured.get(provider.name)
        return found or (HOST_RATES if provider.device == HOST else DEVICE_RATES)

    def items(self) -> ItemsView[str, Rates]:
        """Measured rates by the provider's name."""
        return self._measured.items()
