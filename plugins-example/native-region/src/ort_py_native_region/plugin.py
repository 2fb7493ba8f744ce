"""The target of the entry point. It is imported whenever providers are listed, so it does not load the C module."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from typing import Any

from ort_py.contracts import ApiRange, Availability, IExecutionProvider, ProviderFactory, SessionContext
from ort_py.devices import HOST
from ort_py.hooks import hookimpl

__all__ = ["NAME", "NativeFactory", "ort_py_providers"]

NAME = "NativeExecutionProvider"


class NativeFactory(ProviderFactory):
    """Names, describes and probes the provider."""

    @property
    def name(self) -> str:
        """The entry point's name."""
        return NAME

    @property
    def api_range(self) -> ApiRange:
        """Contract versions this was written for and tested with."""
        return ApiRange(1, 1)

    def probe(self) -> Availability:
        """Whether the C module was built for this interpreter; it is not loaded."""
        if importlib.util.find_spec("ort_py_native_region._native") is None:
            reason = "its C module is not built for this version of Python"
            return Availability(False, reason, "pip install --force-reinstall ort-py-native-region")
        return Availability(True, devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session. Only now is the C module loaded."""
        from ort_py_native_region.provider import NativeProvider

        return NativeProvider()


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """Hand the factory to ort-py."""
    return [NativeFactory()]
