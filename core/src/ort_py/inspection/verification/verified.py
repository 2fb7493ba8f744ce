"""The part of a session that verification knows."""

from __future__ import annotations

from typing import Protocol

from ort_py.engine.engine import Engine
from ort_py.engine.recipe import ProviderArgument


class Verified(Protocol):
    """A session whose runs are verified."""

    @property
    def engine(self) -> Engine:
        """The engine that runs the model now."""

    def set_providers(self, providers: ProviderArgument | None = None) -> None:
        """Build another engine with other providers, and use it from now on."""
