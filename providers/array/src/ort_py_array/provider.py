"""The short way to a provider whose device has an array module: bring it, an allocator and a copy, get every operator.

Comes after `library`; a subclass names its device. It does not depend on devices or vendors: what the module's arrays
cannot hold is refused by type, and what else it cannot do its author refuses by node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.contracts import (
    Capability,
    IExecutionProvider,
    Refusal,
)
from ort_py.devices import HOST
from ort_py.dtypes import DataType, TensorType
from ort_py_array.library import LibraryKernels

if TYPE_CHECKING:
    from ort_py.contracts import (
        Claim,
        GraphView,
        IAllocator,
        IDataTransfer,
        IStream,
        KernelCatalog,
        KernelDef,
        KernelLookup,
        NodeSpec,
    )
    from ort_py.devices import Device

__all__ = ["DEVICE_TYPES", "ArrayModuleProvider"]

_KERNELS = LibraryKernels()

DEVICE_TYPES = frozenset(
    {
        DataType.BOOL,
        DataType.INT8,
        DataType.INT16,
        DataType.INT32,
        DataType.INT64,
        DataType.UINT8,
        DataType.UINT16,
        DataType.UINT32,
        DataType.UINT64,
        DataType.FLOAT16,
        DataType.FLOAT,
        DataType.DOUBLE,
        DataType.COMPLEX64,
        DataType.COMPLEX128,
    }
)
"""Element types that array modules of devices have; the narrower ones are NumPy's with `ml_dtypes` alone."""


class ArrayModuleProvider(IExecutionProvider):
    """Runs the operators of the library on the arrays of one module.

    A provider on the host needs no more than its name. One on a device brings its module, device, allocator and copies,
    and the function that makes its streams, where it has streams. A subclass may override `refusal`.

    Args:
        name: As registered by the plug-in.
        xp: The array module: NumPy where None, or one with the names that NumPy and CuPy share.
        device: Device of its arrays.
        allocator: Memory of that device; None for the host's.
        transfers: Copies between the device and the host, both ways; none on the host.
        new_stream: Makes the stream of one frame; None where the device runs in the caller's order.
        element_types: Types that its arrays can hold; all of ONNX's on the host, `DEVICE_TYPES` elsewhere, where None.
    """

    def __init__(
        self,
        name: str,
        xp: Any = None,
        *,
        device: Device = HOST,
        allocator: IAllocator | None = None,
        transfers: Sequence[IDataTransfer] = (),
        new_stream: Callable[[], IStream] | None = None,
        element_types: Collection[DataType] | None = None,
    ) -> None:
        self._name = name
        self._xp = xp
        self._device = device
        self._allocator = allocator
        self._transfers = tuple(transfers)
        self._new_stream = new_stream
        self._types = element_types if element_types is not None or device == HOST else DEVICE_TYPES

    @property
    def name(self) -> str:
        """Name as registered by the plug-in."""
        return self._name

    @property
    def device(self) -> Device:
        """Device of its arrays."""
        return self._device

    @property
    def array_module(self) -> Any:
        """The array module that kernels get as `KernelContext.xp`."""
        return super().array_module if self._xp is None else self._xp

    def kernel_registry(self) -> Sequence[KernelDef] | KernelCatalog:
        """The whole operator library."""
        return _KERNELS

    def refusal(self, node: NodeSpec) -> str | None:
        """Optional. Why a node that has a kernel is not taken: something that the module lacks. None where it is."""
        return None

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Claim nodes that have a kernel, whose values its arrays can hold, and that are not refused."""
        found = super().get_capability(graph, kernels)
        claims: list[Claim] = []
        refusals = list(found.refusals)
        for claim in found.claims:
            (index,) = claim.nodes
            reason = self._foreign(graph.nodes[index]) or self.refusal(graph.nodes[index])
            if reason is None:
                claims.append(claim)
            else:
                refusals.append(Refusal(index, reason))
        return Capability(tuple(claims), tuple(refusals))

    def allocator(self) -> IAllocator | None:
        """The allocator given to the constructor."""
        return self._allocator

    def data_transfers(self) -> Sequence[IDataTransfer]:
        """The transfers given to the constructor."""
        return self._transfers

    def create_stream(self) -> IStream | None:
        """A new stream, where there are streams."""
        return None if self._new_stream is None else self._new_stream()

    def _foreign(self, node: NodeSpec) -> str | None:
        """Explain why the device cannot hold a value of a node. None if it can, and always on the host."""
        if self._types is None:
            return None
        for value in (*node.inputs, *node.outputs):
            if value is None or value.type is None:
                continue
            if not isinstance(value.type, TensorType) or value.type.data_type not in self._types:
                return f"'{value.name}' is {value.type}, which arrays of {self._device} cannot hold"
        return None
