"""The memory that a frame keeps for planned values: one block per device, and the arrays cut from it.

A block belongs to one frame, whose runs use it one after the other, on the host's thread or on the frame's stream of
the device, so a later write always comes after the last read. Does not depend on signatures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.devices import HOST
from ort_py.planning.memory_plan import ALIGNMENT

if TYPE_CHECKING:
    from ort_py.contracts import IAllocator
    from ort_py.devices import Device
    from ort_py.planning.memory_plan import MemoryPlan

_POISON = 0xFF
"""NaN in every floating type, -1 in the signed integers."""


class Arena:
    """Blocks of one frame.

    Args:
        allocators: Allocator of the block of each device but the host.
    """

    def __init__(self, allocators: Mapping[Device, IAllocator]) -> None:
        self._allocators = allocators
        self._blocks: dict[Device, Any] = {}
        self._sizes: dict[Device, int] = {}
        self._cut: dict[MemoryPlan, list[Any]] = {}

    def cut(self, plan: MemoryPlan) -> list[Any]:
        """An array for each value of a plan, in order. Blocks grow if necessary; arrays that were cut earlier stay
        valid.

        Raises:
            MemoryError: There is not enough memory.
        """
        for device, size in plan.sizes.items():
            if size > self._sizes.get(device, -1):
                # The old block goes first, so that the two are not needed at once.
                self._cut.clear()
                self._blocks.pop(device, None)
                self._sizes.pop(device, None)
                self._blocks[device] = self._block(device, size)
                self._sizes[device] = size
        arrays = self._cut.get(plan)
        if arrays is None:
            # Values of one form in one place share an array: small ones cost less when their objects stay in the cache.
            forms = [(one.device, one.offset, one.seen.shape, one.seen.dtype) for one in plan.values]
            made = {form: self._array(*form) for form in dict.fromkeys(forms)}
            arrays = self._cut[plan] = [made[form] for form in forms]
        return arrays

    def keep_only(self, plans: set[MemoryPlan]) -> None:
        """Forget the arrays of other plans, and drop blocks that are larger than any of these plans needs."""
        self._cut = {plan: arrays for plan, arrays in self._cut.items() if plan in plans}
        for device, size in list(self._sizes.items()):
            if all(plan.sizes.get(device, 0) < size for plan in self._cut):
                del self._blocks[device], self._sizes[device]
                self._cut.clear()

    def poison(self) -> None:
        """Overwrite everything, so that reads of values that no longer exist show up."""
        for block in self._blocks.values():
            block[...] = _POISON

    @property
    def sizes(self) -> Mapping[Device, int]:
        return self._sizes

    def _array(self, device: Device, offset: int, shape: tuple[int, ...], dtype: Any) -> Any:
        nbytes = math.prod(shape) * dtype.itemsize
        return self._blocks[device][offset : offset + nbytes].view(dtype).reshape(shape)

    def _block(self, device: Device, size: int) -> Any:
        if device != HOST:
            return self._allocators[device].empty((size,), np.uint8)
        raw = np.empty(size + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + size]
