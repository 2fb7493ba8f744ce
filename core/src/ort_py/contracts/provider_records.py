"""Records that providers and the engine exchange: availability, options, a session's wishes, whether an artifact fits.

Comes before `provider`, whose members take and return them. Data only.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.devices import Device


@dataclass(frozen=True, slots=True)
class Availability:
    """The provider's usability on this machine at this moment.

    Attributes:
        available: The answer.
        reason: Why not, in words a user can act on; may name the version found where it is available.
        fix: Advice to the user, e.g. ``pip install`` and the missing package.
        devices: Devices found.
    """

    available: bool
    reason: str = ""
    fix: str = ""
    devices: tuple[Device, ...] = ()

    def __bool__(self) -> bool:
        return self.available


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """One option of a provider. The table of options of sessions and runs is made of the same records.

    Attributes:
        name: Name as users write it.
        kind: ``str``, ``int``, ``float`` or ``bool``; strings are converted, as onnxruntime passes only strings.
        default: Value where the user gives none.
        help: One sentence.
        choices: Allowed values, empty where any is.
    """

    name: str
    kind: type
    default: Any
    help: str = ""
    choices: tuple[Any, ...] = ()

    @property
    def title(self) -> str:
        """The type of its values in words, for messages and documentation."""
        return self.kind.__name__


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Facts about the session that a provider is created for.

    Attributes:
        threads: Threads it may use for one run.
        precision: ``"float32"``, ``"bfloat16"`` or ``"float16"``: what it may compute float32 models in.
        cache_folder: Folder that the program names for compiled artifacts, None where it names none.
        deterministic: Results must not depend on timing.
        fast_math: Whether it may give a number for NaN, and merge constants though intermediate results may overflow,
            underflow or be rounded: the session's program said that it does not matter.
        caches: Whether it may keep what it compiles on disk: neither the program nor the environment forbids it.
    """

    threads: int = 1
    precision: str = "float32"
    cache_folder: str | None = None
    deterministic: bool = False
    caches: bool = True
    fast_math: bool = False


class ArtifactValidity(Enum):
    """The verdict whether a compiled artifact fits this provider, its libraries and its device."""

    VALID = "valid"
    STALE = "stale"
    UNSUPPORTED = "unsupported"
