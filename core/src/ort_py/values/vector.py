"""OrtValueVector: the list of values that onnxruntime's low-level calls take and fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ort_py.dtypes import DataType
from ort_py.errors import ArgumentTypeError
from ort_py.values.device import OrtDevice, expect_host
from ort_py.values.element_types import element_type_of, shape_of
from ort_py.values.ort_value import OrtValue


class OrtValueVector:
    """Values in order. Grows with `push_back`, and by the runs that fill it."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[OrtValue] = []

    def push_back(self, value: Any, is_bool_tensor: bool = False) -> None:
        """Add a value.

        Args:
            value: An `OrtValue`, or a DLPack capsule or object whose tensor is taken over.
            is_bool_tensor: The bytes of the DLPack tensor are truth values.
        """
        self._values.append(value if isinstance(value, OrtValue) else OrtValue.from_dlpack(value, is_bool_tensor))

    def push_back_batch(
        self,
        tensors: Sequence[Any],
        addresses: Sequence[int],
        element_types: Sequence[Any],
        shapes: Sequence[Sequence[int]],
        devices: Sequence[OrtDevice],
    ) -> None:
        """Add tensors over memory that others own; these must live as long as the values.

        Args:
            tensors: Owners of the memory, kept alive with the values.
            addresses: First byte of each.
            element_types: Element type of each.
            shapes: Shape of each.
            devices: Device of each: the host.
        """
        for owner, address, element_type, shape, device in zip(
            tensors, addresses, element_types, shapes, devices, strict=True
        ):
            expect_host(device)
            value = OrtValue._at(address, element_type_of(element_type), shape_of(shape), owner)
            self._values.append(value)

    def reserve(self, count: int) -> None:
        """Accepted for compatibility."""

    def shrink_to_fit(self) -> None:
        """Accepted for compatibility."""

    def bool_tensor_indices(self) -> list[int]:
        """Positions of the tensors of truth values."""
        return [index for index, value in enumerate(self._values) if value.element_type() == DataType.BOOL]

    def element_type_at(self, idx: int) -> int:
        """Number of the element type of one value."""
        return self[idx].element_type()

    def dlpack_at(self, index: int) -> Any:
        """One tensor as a DLPack capsule."""
        return self[index].to_dlpack()

    def to_dlpacks(self, to_tensor: Callable[[Any], Any] | None) -> list[Any]:
        """Every tensor as a capsule, or as what a function makes of it.

        Args:
            to_tensor: E.g. ``torch.utils.dlpack.from_dlpack``; None for the capsules.
        """
        capsules = [value.to_dlpack() for value in self._values]
        return capsules if to_tensor is None else [to_tensor(capsule) for capsule in capsules]

    def _assign(self, values: Iterable[OrtValue]) -> None:
        self._values[:] = values

    def __getitem__(self, index: int) -> OrtValue:
        if not isinstance(index, int | np.integer) or index < 0:
            raise ArgumentTypeError(f"{index!r} is not a position.", fix="Count from 0.")
        return self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[OrtValue]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"OrtValueVector({self._values!r})"
