"""The target of the entry point. It is imported whenever providers are listed, so it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ort_py.contracts import ApiRange, Availability, IExecutionProvider, OptionSpec, ProviderFactory, SessionContext
from ort_py.devices import HOST
from ort_py.hooks import hookimpl

__all__ = ["NAME", "CompilingFactory", "ort_py_providers"]

NAME = "CompilingExecutionProvider"


class CompilingFactory(ProviderFactory):
    """Names, describes and probes the provider."""

    @property
    def name(self) -> str:
        """The entry point's name."""
        return NAME

    @property
    def api_range(self) -> ApiRange:
        """Contract versions this was written for and tested with."""
        return ApiRange(1, 1)

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """One option; ort-py checks and converts what users give."""
        return (OptionSpec("min_nodes", int, 2, "shorter chains are left to other providers"),)

    def probe(self) -> Availability:
        """NumPy is everywhere. A provider with a device looks for it here, in at most 20 ms."""
        return Availability(True, devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session. Only now is what it needs imported."""
        from ort_py_compiling.provider import CompilingProvider

        return CompilingProvider(options["min_nodes"])


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """Hand the factory to ort-py."""
    return [CompilingFactory()]
