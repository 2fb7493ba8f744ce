"""Known facts about one provider: a record with its state, reason and original exception.

Comes before everything else of this room. *Installed* is known from metadata; the other states are known after its
plug-in was loaded and probed. Records are frozen: a new state is a new record.

`ranked` puts them in the automatic order, the same on every run and every machine with the same packages: device class
first (NPU, GPU, other accelerators, CPU), then the declared rank, then the name. The provider that can run everything,
CPUExecutionProvider, is the last of these; behind it stand those that are used by name only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum

from ort_py.contracts import OptionSpec, ProviderFactory
from ort_py.devices import Device, DeviceClass
from ort_py.hooks.entry_points import InstalledEntryPoint
from ort_py.lazy_dataclass import dataclass

CPU_ROLE = "CPUExecutionProvider"
"""Name of the role that fast CPU providers may fill, and of the provider that completes every session."""


class RecordState(Enum):
    """The state of a provider on this machine."""

    INSTALLED = "installed"
    """Known from metadata; its plug-in has not been loaded, or is being loaded at this moment."""

    AVAILABLE = "available"
    """Loaded and usable."""

    UNAVAILABLE = "unavailable"
    """Loaded, and says that this machine lacks what it needs. Nothing is wrong with it."""

    BROKEN = "broken"
    """Its own code raised, hung or does not fit the hooks."""

    CONFLICT = "conflict"
    """Two distributions claim its name."""

    YIELDED = "yielded"
    """Another distribution owns its name; it is used by its address only."""

    INCOMPATIBLE = "incompatible"
    """Written for contract versions this core does not drive."""

    BLOCKED = "blocked"
    """Kept out by an environment switch; never loaded."""


@dataclass(frozen=True, slots=True)
class ProviderRecord:
    """One provider of one distribution.

    Attributes:
        name: The provider's name.
        distribution: Distribution it comes from, ``""`` for one registered by a program.
        version: Version of the distribution.
        entry_point: Value of the entry point, e.g. ``"ort_py_cpu.plugin"``.
        state: See `RecordState`.
        reason: Why it is not available; may hold a remark where it is.
        fix: Advice to the user.
        exception: The plug-in's own exception, where there was one.
        factory: Its factory, None until loaded.
        device_class: Class of its best device, None until loaded.
        rank: Its declared rank among providers of that class.
        location: Folder its distribution lies in.
        vendor: The maker of the device or library.
        stands_in_for: Role it fills, e.g. ``"CPUExecutionProvider"``.
        automatic: Whether sessions that name no provider use it.
        options: Options it takes.
        devices: Devices its probe found.
    """

    name: str
    distribution: str
    version: str
    entry_point: str
    state: RecordState = RecordState.INSTALLED
    reason: str = ""
    fix: str = ""
    exception: BaseException | None = None
    factory: ProviderFactory | None = None
    device_class: DeviceClass | None = None
    rank: int = 0
    location: str = ""
    vendor: str = ""
    stands_in_for: str | None = None
    automatic: bool = True
    options: tuple[OptionSpec, ...] = field(default=())
    devices: tuple[Device, ...] = field(default=())

    @classmethod
    def of(cls, entry: InstalledEntryPoint) -> ProviderRecord:
        """The record of an entry point that was not loaded yet."""
        return cls(entry.name, entry.distribution, entry.version, entry.value, location=entry.location)

    @property
    def address(self) -> str:
        """``distribution:Name``, which is unambiguous, or the bare name without a distribution."""
        return f"{self.distribution}:{self.name}" if self.distribution else self.name

    @property
    def origin(self) -> str:
        """Distribution, version and folder, for messages."""
        if not self.distribution:
            return "registered by the program"
        version = f" {self.version}" if self.version else ""
        return f"distribution {self.distribution}{version}" + (f" in {self.location}" if self.location else "")

    @property
    def usable(self) -> bool:
        """True if the provider can be used on this machine."""
        return self.state is RecordState.AVAILABLE

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"{self.name} ({self.origin}) is {self.state.value}{reason}"


_CLASSES = (DeviceClass.NPU, DeviceClass.GPU, DeviceClass.ACCELERATOR, DeviceClass.CPU)


def ranked(records: Iterable[ProviderRecord]) -> list[ProviderRecord]:
    """Records in the order in which providers are asked for their nodes."""
    return sorted(records, key=_key)


def _key(record: ProviderRecord) -> tuple[bool, bool, int, int, str, str]:
    device_class = _CLASSES.index(record.device_class or DeviceClass.CPU)
    return not record.automatic, record.name == CPU_ROLE, device_class, -record.rank, record.name, record.distribution
