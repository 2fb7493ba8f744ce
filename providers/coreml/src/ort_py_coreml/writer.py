"""A provider that writes a whole model to a package, on every system; `ort-py compile` makes a session of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ort_py.contracts import Availability, IExecutionProvider, OptionSpec, ProviderFactory, SessionContext
from ort_py.devices import DeviceClass
from ort_py_coreml.back_ends import PACKAGES, find
from ort_py_coreml.options import OPTIONS

if TYPE_CHECKING:
    from ort_py_coreml.provider import CoreMLProvider

__all__ = ["PackageWriterFactory"]

_NAME = "CoreMLPackageWriter"


class PackageWriterFactory(ProviderFactory):
    """Makes the provider that writes.

    Args:
        target: The package to write.
    """

    def __init__(self, target: Path) -> None:
        self._target = target

    @property
    def name(self) -> str:
        """A name of its own, because it runs nothing."""
        return _NAME

    @property
    def device_class(self) -> DeviceClass:
        """The class of the provider that would run the package."""
        return DeviceClass.NPU

    @property
    def automatic(self) -> bool:
        """False: a session has to name it."""
        return False

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """See `options`."""
        return OPTIONS

    def probe(self) -> Availability:
        """Return whether the library is there that writes such files, on every system."""
        return find(PACKAGES[self._target.suffix])

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """Make the provider of one session."""
        return _writer(self._target, options, context)


def _writer(target: Path, options: Mapping[str, Any], context: SessionContext) -> CoreMLProvider:
    from ort_py_coreml.writing import PackageWriter  # imports coremltools

    return PackageWriter(_NAME, options, context, target)
