"""Target of the entry point: registers the factory of CUDAExecutionProvider.

Light on purpose: discovery imports this file to list providers. The probe asks metadata, folders and the driver; CuPy's
own import takes a sixth of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ort_py.contracts import (
    Availability,
    IDeviceMemory,
    IExecutionProvider,
    OptionSpec,
    ProviderFactory,
    SessionContext,
)
from ort_py.devices import Device, DeviceClass
from ort_py.hooks import hookimpl
from ort_py_cuda import availability
from ort_py_cuda.options import OPTIONS

__all__ = ["CUDAProviderFactory", "ort_py_providers"]

NAME = "CUDAExecutionProvider"
_RANK = 50
"""Behind a provider that compiles whole models for the same GPU, before one that is not tuned for it."""


class CUDAProviderFactory(ProviderFactory):
    """Describes the provider and makes one for each session."""

    @property
    def name(self) -> str:
        """onnxruntime's name of its CUDA provider."""
        return NAME

    @property
    def vendor(self) -> str:
        """Vendor of the devices and libraries."""
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
    def option_schema(self) -> Sequence[OptionSpec]:
        """See `options`."""
        return OPTIONS

    def probe(self) -> Availability:
        """Return whether driver, GPU, CuPy and libraries are there and fit each other; every lack with its fix."""
        return availability.examine()

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        """Create a provider for one session.

        Raises:
            OptionError: An option has an invalid value, or two contradict each other.
            EPFail: CuPy does not import, CUDA does not start, or there is no GPU of this number.
        """
        from ort_py_cuda.provider import CUDAProvider

        return CUDAProvider(NAME, options, context)

    def device_memory(self, device: Device) -> IDeviceMemory | None:
        """Memory of a GPU for users' values.

        Raises:
            EPFail: As `create`.
        """
        if device.kind != availability.DEVICE_KIND:
            return None
        from ort_py_cuda.values import CudaMemory

        return CudaMemory(device)


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """The hook: one factory."""
    return [CUDAProviderFactory()]
