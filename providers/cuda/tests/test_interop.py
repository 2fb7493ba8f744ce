"""Device arrays of other libraries: taken without a copy, by either protocol or by address."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.devices import HOST, Device
from ort_py.errors import ArgumentTypeError, UsageError
from ort_py_cuda import interop

from .memory_rooms import opened
from .stand_in.machine import Machine

CUDA = Device("cuda", 0)


class _Torch:
    """A tensor as torch shows it: DLPack."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def on_device() -> Any:
    return opened().transfer.copy(np.arange(6, dtype=np.float32).reshape(2, 3), HOST, CUDA, None)


def test_cupys_own_arrays_are_taken_as_they_are(machine: Machine) -> None:
    array = on_device()
    assert interop.taken(array) is array
    assert interop.device_of(array) == CUDA


def test_dlpack_shares_memory(machine: Machine) -> None:
    """The same address, and the device of the protocol."""
    array = on_device()
    taken = interop.taken(_Torch(array))
    assert taken.data.ptr == array.data.ptr
    assert interop.device_of(_Torch(array)) == CUDA


def test_an_address_is_an_array(machine: Machine) -> None:
    """Over the very memory: what is written there is read here; the owner is kept."""
    array = on_device()
    made = interop.at_address(array.data.ptr, (3, 2), np.float32, CUDA, owner=array)
    assert made.raw.tolist() == [[0, 1], [2, 3], [4, 5]]
    array.raw[0, 0] = 9
    assert made.raw[0, 0] == 9


def test_no_address_for_elements(machine: Machine) -> None:
    """Null is refused; where there are no elements it is right."""
    with pytest.raises(UsageError, match="The address is null"):
        interop.at_address(0, (2,), np.float32, CUDA)
    assert interop.at_address(0, (0, 2), np.float32, CUDA).shape == (0, 2)


def test_what_is_on_the_host_is_refused(machine: Machine) -> None:
    for value in (np.ones(3), "text", None):
        assert not interop.is_device_array(value)
        with pytest.raises(ArgumentTypeError, match="is not an array on a GPU"):
            interop.taken(value)


def test_what_dlpack_cannot_say_is_refused(machine: Machine) -> None:
    """CuPy's words, and what to pass instead."""

    class Odd(_Torch):
        def __dlpack__(self, **_keywords: Any) -> Any:
            raise TypeError("4-bit integers are not supported")

    with pytest.raises(UsageError, match="cannot be taken") as caught:
        interop.taken(Odd(on_device()))
    assert "4-bit integers" in str(caught.value)
