"""Constants of a region as its compiler takes them over: read, packed, and given up once they are packed.

A region gets a `RegionWeight` for each initializer and may keep it, unlike the view it came from. What it packs it asks
`PackedForms` for, so that all sessions of the process share one form and reports count it; then it says so, and the
engine lets go of the original. Knows no compiler: a form is whatever a function returned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.dtypes import DataType

__all__ = ["PackedForms", "RegionWeight"]


class RegionWeight(ABC):
    """One constant of a region. Implemented by the engine; may be kept as long as the compiled region.

    All of it may be used from any thread.
    """

    @property
    @abstractmethod
    def key(self) -> str:
        """Identity of the content: constants with equal keys are equal tensors, in all sessions of the process.

        It costs nothing: it is the place in a file, or a hash that was made when the model was loaded.
        """

    @property
    @abstractmethod
    def data_type(self) -> DataType:
        """Element type."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape."""

    @abstractmethod
    def array(self) -> Array:
        """The tensor as a read-only, C-contiguous NumPy array: in memory, a file's pages, or made anew for the caller.

        Raises:
            Fail: The file it is read from again is not what it was.
        """

    @abstractmethod
    def held(self) -> object:
        """Something to keep as long as the region may still ask for the array.

        Once the session is made, the engine holds only what plans read, and a file may be gone later. All regions share
        it; it holds the array, and once one of them has packed that, what makes it anew.

        Raises:
            Fail: As `array`.
        """

    @abstractmethod
    def replaced(self, restore: Callable[[], Array] | None = None) -> None:
        """Say that the region has packed the constant and holds the array no longer.

        The engine gives it up too, where it can be had again and no other plan reads it.

        Args:
            restore: Makes the same tensor, bit for bit, of what was packed; None where packing lost something. It is
                called on any thread, perhaps after the region was closed, for whoever needs the original again. The
                region keeps the function itself as long as it keeps what was packed; the engine does so only where it
                has no file to read the tensor from.
        """


class PackedForms(ABC):
    """What a session's regions make of constants. Implemented by the engine; may be kept, and used from any thread."""

    @abstractmethod
    def packed(self, keys: Sequence[str], form: str, make: Callable[[], Any]) -> Any:
        """What is made of constants, made the first time it is asked for and held as long as the session.

        Args:
            keys: What it is made of: `RegionWeight.key`, or any string that says as much about the content.
            form: What is made of them, with everything this depends on; begins with the provider's name.
            make: Makes an array, or a tuple or list of arrays, which are never written to again. On the host, sessions
                share it; two threads that ask at once may both make it, and get the same.
        """
