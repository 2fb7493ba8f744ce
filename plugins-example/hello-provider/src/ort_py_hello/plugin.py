"""The target of the entry point. It is imported whenever providers are listed, so it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ort_py.contracts import ApiRange, Availability, IExecutionProvider, ProviderFactory, SessionContext
from ort_py.devices import HOST, DeviceClass
from ort_py.hooks import hookimpl

__all__ = ["HelloFactory", "ort_py_providers"]


class HelloFactory(ProviderFactory):
    """Names, describes and probes the provider."""

    @property
    def name(self) -> str:
        """The entry point's name."""
        return "HelloExecutionProvider"

    @property
    def api_range(self) -> ApiRange:
        """Contract versions this was written for and tested with."""
        return ApiRange(1, 1)

    @property
    def device_class(self) -> DeviceClass:
        """It computes on the host."""
        return DeviceClass.CPU

    @property
    def default_rank(self) -> int:
        """Above 0: asked before other CPU providers of the default rank."""
        return 10

    def probe(self) -> Availability:
        """NumPy is everywhere. A provider with a device looks for it here, in at most 20 ms."""
        return Availability(True, devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session. Only now is what it needs imported."""
        from ort_py_hello.provider import HelloProvider

        return HelloProvider()


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """Hand the factory to ort-py."""
    return [HelloFactory()]
