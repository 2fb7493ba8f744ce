"""Target of the entry point: registers the factory of OpenVINOExecutionProvider.

Light on purpose: discovery imports this file to list providers. The probe looks at files and metadata only; OpenVINO's
own import takes a third of a second and starts threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ort_py.contracts import Availability, IExecutionProvider, OptionSpec, ProviderFactory, SessionContext
from ort_py.devices import HOST
from ort_py.hooks import hookimpl
from ort_py_openvino.installed import Missing, find
from ort_py_openvino.options import OPTIONS, computes_on_cpu

__all__ = ["OpenVINOProviderFactory", "ort_py_providers"]

NAME = "OpenVINOExecutionProvider"
_RANK = 50
"""Between the provider that is made for the processor and the one that completes."""


class OpenVINOProviderFactory(ProviderFactory):
    """Describes the provider and makes one for each session."""

    @property
    def name(self) -> str:
        """onnxruntime's name of its OpenVINO provider."""
        return NAME

    @property
    def vendor(self) -> str:
        """Vendor of the library."""
        return "Intel"

    @property
    def default_rank(self) -> int:
        """Asked before the provider that completes."""
        return _RANK

    @property
    def stands_in_for(self) -> str | None:
        """On its processor device, which is the default one."""
        return "CPUExecutionProvider"

    def fills_role(self, options: Mapping[str, Any]) -> bool:
        """Return whether the device of the option `device_type` is the processor, or may be it."""
        return computes_on_cpu(str(options["device_type"]))

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """See `options`."""
        return OPTIONS

    def probe(self) -> Availability:
        """Return whether OpenVINO is installed as a whole, and new enough: its version, or what is wrong and the
        fix.
        """
        found = find()
        if isinstance(found, Missing):
            return Availability(False, reason=found.reason, fix=found.fix)
        return Availability(True, reason=f"OpenVINO {found.version}", devices=(HOST,))

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """A provider for one session.

        Raises:
            OptionError: OpenVINO does not accept the value of an option.
            EPFail: OpenVINO does not start, or has no such device.
        """
        from ort_py_openvino.provider import OpenVINOProvider

        return OpenVINOProvider(NAME, options, context)


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """The hook: one factory."""
    return [OpenVINOProviderFactory()]
