"""Target of the entry point: registers the factory of CPUExecutionProvider.

Light on purpose: discovery imports this file to list providers, so it loads neither the operators nor anything slower
than the contracts. Before it comes discovery, after it `provider`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ort_py.contracts import (
    Availability,
    IExecutionProvider,
    OperatorSchema,
    OptionSpec,
    ProviderFactory,
    SessionContext,
)
from ort_py.devices import HOST
from ort_py.hooks import hookimpl
from ort_py_cpu.options import OPTIONS

__all__ = ["CpuProviderFactory", "ort_py_operator_schemas", "ort_py_providers"]

NAME = "CPUExecutionProvider"

_LAST = -1000
"""Rank below every provider: it completes what the others leave."""


class CpuProviderFactory(ProviderFactory):
    """Describes the NumPy provider and makes one for each session."""

    @property
    def name(self) -> str:
        """onnxruntime's name of its CPU provider, which applications ask for."""
        return NAME

    @property
    def default_rank(self) -> int:
        """The last of all CPU providers."""
        return _LAST

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """No options; see `options` for why."""
        return OPTIONS

    def probe(self) -> Availability:
        """Usable wherever Python and NumPy run."""
        return Availability(available=True, devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session; the operator library is imported here, on first use."""
        from ort_py_cpu.provider import CpuProvider

        return CpuProvider(NAME)


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """The hook: one factory."""
    return [CpuProviderFactory()]


@hookimpl
def ort_py_operator_schemas() -> Iterable[OperatorSchema]:
    """The hook: operators of domains ONNX does not define that the library has kernels for."""
    from ort_py_array.contrib.schemas import schemas

    return list(schemas())
