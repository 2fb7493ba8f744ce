"""A factory of a provider that a test has made already, so that the test can look at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ort_py.contracts import Availability, IExecutionProvider, ProviderFactory, SessionContext

__all__ = ["GivenFactory"]


class GivenFactory(ProviderFactory):
    """Gives each session the same provider, under its own name.

    Args:
        provider: The provider.
    """

    def __init__(self, provider: IExecutionProvider) -> None:
        self._provider = provider

    @property
    def name(self) -> str:
        return self._provider.name

    def probe(self) -> Availability:
        return Availability(available=True)

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return self._provider
