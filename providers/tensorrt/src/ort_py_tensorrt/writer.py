"""A provider that writes a whole model as one whose regions are engines; `ort-py compile` makes a session of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_py.contracts import Availability, IExecutionProvider, OptionSpec, ProviderFactory, SessionContext
from ort_py.devices import DeviceClass
from ort_py_tensorrt.availability import examine_compiler
from ort_py_tensorrt.options import options_of
from ort_py_tensorrt.variants import Variant

__all__ = ["EngineWriterFactory"]


class EngineWriterFactory(ProviderFactory):
    """Makes the provider that writes.

    Args:
        variant: The library.
        target: The model to write.
    """

    def __init__(self, variant: Variant, target: Path) -> None:
        self._variant = variant
        self._target = target

    @property
    def name(self) -> str:
        """A name of its own, because it runs nothing."""
        return f"{self._variant.provider}Writer"

    @property
    def device_class(self) -> DeviceClass:
        """The class of the provider that would run the engines."""
        return DeviceClass.GPU

    @property
    def automatic(self) -> bool:
        """False: a session has to name it."""
        return False

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """See `options`."""
        return options_of(self._variant)

    def probe(self) -> Availability:
        """Return whether engines can be built. TensorRT-RTX needs no GPU for that."""
        return examine_compiler(self._variant)

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """Make the provider of one session.

        Raises:
            EPFail: The library does not import, or needs a GPU that is not there.
        """
        from ort_py_tensorrt.writing import EngineWriter

        return EngineWriter(self._variant, self.name, options, context, self._target)
