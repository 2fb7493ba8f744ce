"""The parts of a session's options that methods add: initializers, dimensions, providers, callbacks.

Plain data with copies. They are used elsewhere: `replaced_values` for initializers and dimensions, `provider_choice`
for providers, `ep_context` for callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Any

from ort_py.enums import OrtExecutionProviderDevicePolicy
from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ort_py.values.ort_value import OrtValue


class LoadFlag:
    """A flag that stops loading. Options share it with the copies that sessions make of them, so that another thread
    can stop the creation of a session.
    """

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False


@dataclass(slots=True)
class Added:
    """Everything that methods of `SessionOptions` have added.

    Attributes:
        initializers: Values by the name of the initializer they replace; kept alive here.
        external_initializers: Values by the name of an initializer whose data lies in a file.
        files: Content by location of files of external data.
        dimensions: Sizes by the name of a symbolic dimension.
        providers: (name, options) in the order they were added.
        delegate: Function that chooses the devices.
        read_context: (function, largest size) that reads the data of compiled nodes.
    """

    initializers: dict[str, OrtValue] = field(default_factory=dict)
    external_initializers: dict[str, OrtValue] = field(default_factory=dict)
    files: dict[str, memoryview] = field(default_factory=dict)
    dimensions: dict[str, int] = field(default_factory=dict)
    denotations: dict[str, int] = field(default_factory=dict)
    providers: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    policy: OrtExecutionProviderDevicePolicy | None = None
    delegate: Callable[..., Any] | None = None
    load_flag: LoadFlag = field(default_factory=LoadFlag)
    read_context: tuple[Callable[..., Any], int] | None = None

    @property
    def has_providers(self) -> bool:
        """True if something here chooses providers."""
        return bool(self.providers) or self.policy is not None or self.delegate is not None

    def copied(self) -> Added:
        """A copy that holds the same values and the same flag."""
        return replace(
            self,
            initializers=dict(self.initializers),
            external_initializers=dict(self.external_initializers),
            files=dict(self.files),
            dimensions=dict(self.dimensions),
            denotations=dict(self.denotations),
            providers=list(self.providers),
        )

    def to_state(self) -> dict[str, Any]:
        """State for pickle: buffers as bytes, without the flag, which belongs to one process."""
        state = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "load_flag"}
        return {**state, "files": {name: bytes(content) for name, content in self.files.items()}}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Added:
        """The reverse of `to_state`."""
        files = {name: memoryview(content) for name, content in state["files"].items()}
        return cls(**{**state, "files": files})

    def __str__(self) -> str:
        parts = [
            f"{len(found)} {title}"
            for title, found in (
                ("initializers", self.initializers),
                ("external initializers", self.external_initializers),
                ("files in memory", self.files),
            )
            if found
        ]
        parts += [f"{name}={size}" for name, size in {**self.dimensions, **self.denotations}.items()]
        parts += [name for name, _ in self.providers]
        parts += [] if self.policy is None else [str(self.policy)]
        return ", ".join(parts)
