"""Constants where their readers are: each weight once on each device, however many plans read it.

One pool a session; a weight that is read on the host is the array of its `Weight`, never a copy. What kernels and
compiled regions make of constants is held here too: on the host it is shared with all sessions of the process, on a
device it belongs to the session, whose allocator owns the memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ort_py.devices import HOST
from ort_py.graph.weights.region_weights import HeldForms
from ort_py.graph.weights.weight_store import process_store

if TYPE_CHECKING:
    from ort_py.contracts import Array, IStream
    from ort_py.devices import Device
    from ort_py.graph.ir import Weight
    from ort_py.graph.weights.packed_forms import PackedFormCache
    from ort_py.graph.weights.weight_store import WeightStore
    from ort_py.memory.transfer import TransferTable


class ConstantPool:
    """Arrays of constants by device. Filled on the thread that plans, packed forms of regions also in runs."""

    def __init__(
        self,
        transfers: TransferTable,
        streams: Mapping[Device, Callable[[], IStream | None]] | None = None,
        store: WeightStore | None = None,
        kept: PackedFormCache | None = None,
    ) -> None:
        self._store = store or process_store()
        self.transfers = transfers
        self.streams = dict(streams or {})
        self._opened: dict[Device, IStream | None] = {}
        self._copies: dict[tuple[str, Device], Any] = {}
        self._packed: dict[Device, HeldForms] = {}
        self._kept = kept

    def array(self, weight: Weight, device: Device) -> Array:
        """The weight on a device, copied there the first time it is asked for."""
        if device == HOST:
            return weight.array()
        key = (weight.key, device)
        if key not in self._copies:
            stream = self._stream(device)
            array: Array = weight.array()
            for hop in self.transfers.route(HOST, device):
                array = hop.transfer.copy(array, hop.source, hop.target, stream)
            if stream is not None:
                stream.synchronize()
            self._copies[key] = array
        return self._copies[key]

    def packed(self, weights: Sequence[Weight], device: Device, form: str, make: Callable[[], Any]) -> Any:
        """Return a packed form of constants, shared by all requests for the same form.

        Args:
            form: Name of the packed form; see `KernelContext.packed`.
        """
        arrays = partial(_arrays_in_memory, weights) if device == HOST else tuple
        return self.forms(device).packed([weight.key for weight in weights], form, make, arrays)

    def forms(self, device: Device) -> HeldForms:
        found = self._packed.get(device)
        if found is None:
            found = self._packed[device] = HeldForms(
                self._store, shared=device == HOST, kept=self._kept if device == HOST else None
            )
        return found

    def packed_bytes(self) -> dict[Device, int]:
        """Bytes of packed forms this session uses, by device."""
        return {device: size for device, forms in self._packed.items() if (size := forms.nbytes)}

    @contextlib.contextmanager
    def current_streams(self) -> Iterator[None]:
        """Make the pool's streams the current ones, and wait for them at the end.

        Kernel factories may make arrays on their device: those must be there before any run reads them.
        """
        with contextlib.ExitStack() as stack:
            opened = [stream for stream in map(self._stream, self.streams) if stream is not None]
            for stream in opened:
                stack.enter_context(stream)
            yield
            for stream in opened:
                stream.synchronize()

    def _stream(self, device: Device) -> IStream | None:
        if device not in self._opened:
            maker = self.streams.get(device)
            self._opened[device] = maker() if maker is not None else None
        return self._opened[device]

    def device_bytes(self) -> dict[Device, int]:
        """Bytes of constants held on each device other than the host."""
        found: dict[Device, int] = {}
        for (_, device), array in self._copies.items():
            # Any module's arrays: the contract asks for no such attribute, though all have it.
            found[device] = found.get(device, 0) + int(getattr(array, "nbytes", 0))
        return found


def _arrays_in_memory(weights: Sequence[Weight]) -> list[Array]:
    return [weight.array() for weight in weights]
