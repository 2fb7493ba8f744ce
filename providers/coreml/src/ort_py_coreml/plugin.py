"""Target of the entry point: registers the factory of CoreMLExecutionProvider.

Discovery imports this module to list providers, so it must not import coremltools. The probe looks at the system and at
installed packages only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_py.contracts import Availability, IExecutionProvider, OptionSpec, ProviderFactory, SessionContext
from ort_py.devices import DeviceClass
from ort_py.hooks import hookimpl
from ort_py_coreml import back_ends
from ort_py_coreml.options import OPTIONS
from ort_py_coreml.writer import PackageWriterFactory

__all__ = ["CoreMLProviderFactory", "ort_py_providers"]

NAME = "CoreMLExecutionProvider"


class CoreMLProviderFactory(ProviderFactory):
    """Describes the provider and makes one for each session."""

    @property
    def name(self) -> str:
        """onnxruntime's name of its Core ML provider."""
        return NAME

    @property
    def vendor(self) -> str:
        """Vendor of the library."""
        return "Apple"

    @property
    def device_class(self) -> DeviceClass:
        """Core ML uses the Neural Engine where there is one."""
        return DeviceClass.NPU

    @property
    def automatic(self) -> bool:
        """True on macOS. Core AI on the processor of another system is slower than the providers for processors."""
        return sys.platform == "darwin"

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """See `options`."""
        return OPTIONS

    def probe(self) -> Availability:
        """See `back_ends`."""
        return back_ends.probe()

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """Make a provider for one session.

        Raises:
            EPFail: coremltools cannot be imported, or does not run models here.
        """
        from ort_py_coreml.provider import CoreMLProvider

        return CoreMLProvider(NAME, options, context)

    def file_writer(self, target: Path) -> ProviderFactory | None:
        """Packages and assets, which are written on every system."""
        return PackageWriterFactory(target) if target.suffix in back_ends.PACKAGES else None


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """Register one factory."""
    return [CoreMLProviderFactory()]
