"""Constants of a region in the hands of its compiler: read, packed, and released once they are packed.

A region gets a `RegionWeight` for each initializer and may keep it, unlike the view it came from. The region packs
through `PackedForms`, so that all sessions of the process share one form and reports count it. It then reports the
constant as replaced, and the engine releases the original. This module does not depend on any compiler: a form is
whatever a function returned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ort_py.contracts.graph_view import Array
    from ort_py.dtypes import DataType


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
        """The tensor as a read-only, C-contiguous NumPy array: in memory, a file's pages, or a new array for the
        caller.

        Raises:
            Fail: The file it is read from again has changed.
        """

    @abstractmethod
    def held(self) -> object:
        """Something to keep as long as the region may still ask for the array.

        Once the session is made, the engine holds only what plans read, and a file may be gone later. All regions share
        it; it holds the array, and once one of them has packed that, what restores it.

        Raises:
            Fail: As `array`.
        """

    @abstractmethod
    def replaced(self, restore: Callable[[], Array] | None = None) -> None:
        """Report that the region has packed the constant and no longer holds the array.

        The engine gives it up too, where it can be had again and no other plan reads it.

        Args:
            restore: Rebuilds the same tensor, bit for bit, from the packed form; None if packing lost information. It
                may be called on any thread, even after the region was closed, when the original is needed again. The
                region keeps the function as long as it keeps the packed form; the engine keeps it only if it cannot
                read the tensor from a file.
        """


class PackedForms(ABC):
    """Packed forms that a session's regions make of constants. The engine implements it. Regions may keep it and use it
    from any thread.
    """

    @abstractmethod
    def packed(self, keys: Sequence[str], form: str, make: Callable[[], Any]) -> Any:
        """Return a form made of constants. It is made at the first request and kept as long as the session.

        Args:
            keys: Keys of its constants: `RegionWeight.key`, or any string that says as much about the content.
            form: Name of the result, with everything it depends on; begins with the provider's name.
            make: Makes an array, or a tuple or list of arrays, which are never written to again. On the host, sessions
                share it; two threads that ask at once may both make it, and get the same.
        """
