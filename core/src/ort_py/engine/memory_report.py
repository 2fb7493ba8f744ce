"""Memory of a session: constants, their packed forms, and the memory of its runs.

Plain values with a table and JSON. Comes after planning, whose rooms are asked here.

`settle_memory` checks the bound on all of it when a session is made: what is there already must leave room for a run.
During runs `execution.watch` counts on; before constants are made `limits.budget` does. All three raise the same
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from ort_py.devices import HOST
from ort_py.errors import MemoryLimitError
from ort_py.graph.weights.accounting import named_weights, weight_bytes
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import human_bytes
from ort_py.limits.budget import MEMORY_FIX
from ort_py.platform.heap import give_back
from ort_py.printable import one_line

if TYPE_CHECKING:
    from ort_py.contracts import AllocatorStats
    from ort_py.execution.workspace import Workspace
    from ort_py.graph.ir import Model
    from ort_py.planning.constants import ConstantPool


@dataclass(frozen=True, slots=True)
class DeviceBytes:
    """Bytes on one device.

    Attributes:
        packed: Memory that kernels and compiled regions derived from constants.
        workspace: Memory that is reserved for runs.
    """

    weights: int = 0
    packed: int = 0
    workspace: int = 0


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes a session keeps in memory, at the moment it was asked.

    Attributes:
        weights: The model's constants on the host, each counted once however many sessions share it.
        weights_mapped: Those of them that are pages of a file, which the system takes and drops as it likes.
        weights_released: Constants that are not in memory: when they are needed again they are read from their file, or
            made of what was packed.
        packed: Memory that kernels and compiled regions derived from constants and read in their place, on the host;
            shared between sessions too.
        workspace: Memory reserved for runs, on the host: that of the memory plan, and what instances of regions keep.
        high_water: The most that the intermediate values and results of one run took at once.
        largest: The largest consumers at that moment: (node, bytes), the largest first.
        limit: `SessionOptions.memory_limit_bytes`.
        devices: The same by device, the host included.
        allocators: Figures of each provider's allocator, if it has one.
    """

    weights: int = 0
    weights_mapped: int = 0
    weights_released: int = 0
    packed: int = 0
    workspace: int = 0
    high_water: int = 0
    largest: tuple[tuple[str, int], ...] = ()
    limit: int | None = None
    devices: Mapping[str, DeviceBytes] = field(default_factory=dict)
    allocators: Mapping[str, AllocatorStats] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Weights, packed forms and workspace on all devices."""
        return sum(one.weights + one.packed + one.workspace for one in self.devices.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            **{
                name: getattr(self, name)
                for name in ("weights", "weights_mapped", "weights_released", "packed", "workspace", "high_water")
            },
            "total": self.total,
            "limit": self.limit,
            "largest": [{"node": name, "bytes": size} for name, size in self.largest],
            "devices": {name: asdict(one) for name, one in self.devices.items()},
            "allocators": {name: asdict(stats) for name, stats in self.allocators.items()},
        }

    def __str__(self) -> str:
        rows = [("", "weights", "packed", "workspace")]
        for name, one in self.devices.items():
            rows.append((name, human_bytes(one.weights), human_bytes(one.packed), human_bytes(one.workspace)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(cells))
            for cells in (zip(row, widths, strict=True) for row in rows)
        ]
        lines.append(f"total {human_bytes(self.total)}" + (f" of {human_bytes(self.limit)}" if self.limit else ""))
        if self.weights_mapped:
            lines.append(f"{human_bytes(self.weights_mapped)} of the weights are mapped from files")
        if self.weights_released:
            lines.append(f"{human_bytes(self.weights_released)} of weights are in files only")
        lines.append(f"values of one run took at most {human_bytes(self.high_water)}")
        lines += [f"  {human_bytes(size):>10}  {one_line(name)}" for name, size in self.largest]
        for name, stats in self.allocators.items():
            used, reserved = human_bytes(stats.bytes_in_use), human_bytes(stats.bytes_reserved)
            lines.append(f"allocator of {name}: {used} in use, {reserved} reserved")
        return "\n".join(lines)


def memory_report(
    model: Model | None,
    constants: ConstantPool | None,
    workspace: Workspace,
    allocators: Mapping[str, AllocatorStats],
    limit: int | None = None,
) -> MemoryReport:
    """Ask the rooms.

    Args:
        model: The session's model; None where it is closed.
        workspace: Memory that its runs need.
        allocators: Figures of the providers' allocators.
    """
    weights = weight_bytes([weight for _, weight in named_weights(model).values()] if model is not None else ())
    placed = {HOST: weights.held + weights.mapped} | (constants.device_bytes() if constants is not None else {})
    packed = constants.packed_bytes() if constants is not None else {}
    reserved = dict(workspace.reserved_by_device)
    devices = {
        str(device): DeviceBytes(placed.get(device, 0), packed.get(device, 0), reserved.get(device, 0))
        for device in {**placed, **packed, **reserved}
    }
    host = devices[str(HOST)]
    return MemoryReport(
        weights=host.weights,
        weights_mapped=weights.mapped,
        weights_released=weights.released,
        packed=host.packed,
        workspace=host.workspace,
        high_water=workspace.high_water,
        largest=workspace.largest,
        limit=limit,
        devices=devices,
        allocators=dict(allocators),
    )


_NAMED = 5
"""Constants that the error about too large a session names."""

_WORTH_TRIMMING = 8 << 20
"""Bytes of constants from which what loading and packing them freed is given back: that takes a millisecond."""


def settle_memory(report: MemoryReport, model: Model | None) -> None:
    """Give back what making a session took beside what it keeps, and check that against its limit.

    Raises:
        MemoryLimitError: It keeps more than it may; the largest constants are named.
    """
    if report.weights + report.packed + report.weights_released >= _WORTH_TRIMMING:
        give_back()
    if report.limit is None or report.total <= report.limit:
        return
    weights = named_weights(model).values() if model is not None else ()
    largest = nlargest(_NAMED, ((weight.nbytes, name) for name, weight in weights))
    total = sum(one.weights for one in report.devices.values())
    packed = sum(one.packed for one in report.devices.values())
    raise MemoryLimitError(
        f"The session holds {human_bytes(report.total)} before its first run; {human_bytes(report.limit)} are allowed.",
        why=[
            f"its constants take {human_bytes(total)}, the values that kernels derived from them {human_bytes(packed)}",
            *(f"constant '{name}' has {human_bytes(size)}" for size, name in largest),
        ],
        fix=MEMORY_FIX,
        largest=tuple((name, size) for size, name in largest),
    )
