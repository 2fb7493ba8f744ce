"""Target of the entry point: registers the factory of XnnpackExecutionProvider.

Light on purpose: discovery imports this file to list providers. The probe looks at files only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ort_py.contracts import Availability, IExecutionProvider, OptionSpec, ProviderFactory, SessionContext
from ort_py.devices import HOST
from ort_py.hooks import hookimpl
from ort_py_xnnpack.options import OPTIONS

__all__ = ["XnnpackProviderFactory", "ort_py_providers"]

NAME = "XnnpackExecutionProvider"
_RANK = 40
"""Behind the other providers that compute on the processor: on x86-64 they are faster on most models, and on ARM, whose
kernels are XNNPACK's best, nothing has been measured yet."""


class XnnpackProviderFactory(ProviderFactory):
    """Describes the provider and makes one for each session."""

    @property
    def name(self) -> str:
        """onnxruntime's name of its XNNPACK provider."""
        return NAME

    @property
    def vendor(self) -> str:
        """Vendor of the library."""
        return "Google"

    @property
    def default_rank(self) -> int:
        """Place among the providers that compute on the processor."""
        return _RANK

    @property
    def stands_in_for(self) -> str | None:
        """Role of the provider: a request for the CPU may get this one."""
        return "CPUExecutionProvider"

    @property
    def assisting_options(self) -> Mapping[str, Any] | None:
        """Products of weights of few bits: others may lack them, and NumPy takes ten times as long."""
        return {"few_bits_only": True}

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """See `options`."""
        return OPTIONS

    def probe(self) -> Availability:
        """Return whether the libraries are there, or what is missing and the fix."""
        from ort_py_xnnpack.binding.library import Missing, files

        found = files()
        if isinstance(found, Missing):
            return Availability(False, reason=found.reason, fix=found.fix)
        try:
            own = version("ort-py-xnnpack")
        except PackageNotFoundError:
            own = "of a source tree"
        return Availability(True, reason=f"XNNPACK in ort-py-xnnpack {own}", devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session.

        Raises:
            EPFail: XNNPACK does not load.
        """
        from ort_py_xnnpack.provider import XnnpackProvider

        return XnnpackProvider(NAME, options, context)


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """The hook: one factory."""
    return [XnnpackProviderFactory()]
