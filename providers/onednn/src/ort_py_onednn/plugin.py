"""Target of the entry point: registers the factory of DnnlExecutionProvider.

Light on purpose: discovery imports this file to list providers. The probe opens the library, which starts no thread and
creates nothing, and takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ort_py.contracts import Availability, IExecutionProvider, OptionSpec, ProviderFactory, SessionContext
from ort_py.devices import HOST
from ort_py.hooks import hookimpl
from ort_py_onednn.options import OPTIONS

__all__ = ["DnnlProviderFactory", "ort_py_providers"]

NAME = "DnnlExecutionProvider"
_RANK = 100
"""Above the CPU providers that only run where it cannot."""


class DnnlProviderFactory(ProviderFactory):
    """Describes the provider and makes one for each session."""

    @property
    def name(self) -> str:
        """onnxruntime's name of its oneDNN provider."""
        return NAME

    @property
    def vendor(self) -> str:
        """Vendor of the library."""
        return "oneDNN"

    @property
    def default_rank(self) -> int:
        """Asked before the provider that completes."""
        return _RANK

    @property
    def stands_in_for(self) -> str | None:
        """Role of the provider: a request for the CPU gets this one."""
        return "CPUExecutionProvider"

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """See `options`."""
        return OPTIONS

    def probe(self) -> Availability:
        """Return whether the library opens here: its version and instruction sets, or what is missing and how to get
        it.
        """
        from ort_py_onednn.binding.library import Missing, find

        found = find()
        if isinstance(found, Missing):
            return Availability(False, reason=found.reason, fix=found.fix)
        return Availability(True, reason=found.description, devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session."""
        from ort_py_onednn.provider import DnnlProvider

        return DnnlProvider(
            NAME, context, claim_small=bool(options["claim_small"]), precision=str(options.get("precision", ""))
        )


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """The hook: one factory."""
    return [DnnlProviderFactory()]
