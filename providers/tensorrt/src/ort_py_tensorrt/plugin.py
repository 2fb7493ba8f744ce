"""Target of the entry points: registers the factories of the two providers.

Discovery imports this file to list providers, so it must not import TensorRT, CuPy or onnx.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ort_py.contracts import (
    Availability,
    IDeviceMemory,
    IExecutionProvider,
    OperatorSchema,
    OptionSpec,
    ProviderFactory,
    SessionContext,
)
from ort_py.devices import Device, DeviceClass
from ort_py.hooks import hookimpl
from ort_py_tensorrt import availability
from ort_py_tensorrt.options import options_of
from ort_py_tensorrt.variants import VARIANTS, Variant

__all__ = ["EngineProviderFactory", "ort_py_operator_schemas", "ort_py_providers"]

_RANK = 100
"""Before the provider that runs every operator of the same GPU, with kernels."""


class EngineProviderFactory(ProviderFactory):
    """Describes one of the providers and makes one for each session.

    Args:
        variant: The library.
    """

    def __init__(self, variant: Variant) -> None:
        self._variant = variant

    @property
    def name(self) -> str:
        """onnxruntime's name of the provider."""
        return self._variant.provider

    @property
    def vendor(self) -> str:
        """Vendor of the library."""
        return "NVIDIA"

    @property
    def device_class(self) -> DeviceClass:
        """GPUs."""
        return DeviceClass.GPU

    @property
    def default_rank(self) -> int:
        """Place among providers for GPUs."""
        return _RANK

    @property
    def automatic(self) -> bool:
        """False: building engines takes minutes, and nothing has measured yet that it pays."""
        return False

    @property
    def option_schema(self) -> Sequence[OptionSpec]:
        """See `options`."""
        return options_of(self._variant)

    def probe(self) -> Availability:
        """Return whether the library and a GPU are there, or what is missing, with the fix."""
        return availability.examine(self._variant)

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """Create a provider for one session.

        Raises:
            OptionError: An option has an invalid value, or two contradict each other.
            EPFail: The library does not import, or there is no GPU.
        """
        from ort_py_tensorrt.provider import EngineProvider

        return EngineProvider(self._variant, options, context)

    def file_writer(self, target: Path) -> ProviderFactory | None:
        """Models whose nodes are engines, which end in ``.onnx``."""
        from ort_py_tensorrt.writer import EngineWriterFactory

        return EngineWriterFactory(self._variant, target) if target.suffix == ".onnx" else None

    def device_memory(self, device: Device) -> IDeviceMemory | None:
        """Memory of a GPU for users' values: that of ort-py-cuda."""
        from ort_py_cuda.plugin import CUDAProviderFactory

        return CUDAProviderFactory().device_memory(device)


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """Register a factory for each library."""
    return [EngineProviderFactory(variant) for variant in VARIANTS]


@hookimpl
def ort_py_operator_schemas() -> Iterable[OperatorSchema]:
    """Declare the operator that holds an engine."""
    from ort_py_tensorrt.context_schema import CONTEXT_SCHEMA

    return [CONTEXT_SCHEMA]
