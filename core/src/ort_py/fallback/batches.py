"""A run that is too large for the memory, in parts along one axis of its inputs.

The caller names the axis, and says with it that what is computed of one part does not depend on the others. What can be
checked is: which inputs have the axis, that all of them are as long, and that each output of a part is as long as the
part. It does not depend on sessions: it is handed a function that runs a feed. Feeds are sliced, never written to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.lazy_dataclass import dataclass


class CannotSplit(Exception):
    """The run cannot be split along this axis; the text says why. Caught where it is asked for."""


@dataclass(frozen=True, slots=True)
class Declared:
    """An input or output as the model declares it.

    Attributes:
        dims: int for a fixed dimension, str for a symbolic one, None for an unknown one; None for an unknown rank.
    """

    name: str
    dims: Sequence[int | str | None] | None
    tensor: bool = True

    def lacks(self, axis: int) -> str:
        """Explain why a value cannot be split along an axis; ``""`` if it can."""
        if not self.tensor:
            return f"'{self.name}' is not a tensor"
        if self.dims is None:
            return ""
        if axis >= len(self.dims):
            return f"'{self.name}' has {len(self.dims)} axes"
        return f"axis {axis} of '{self.name}' always has {size}" if isinstance(size := self.dims[axis], int) else ""


@dataclass(frozen=True, slots=True)
class Batch:
    """A feed that can be split.

    Attributes:
        names: Inputs that have it; the others go into each part whole.
    """

    feed: Mapping[str, Any]
    axis: int
    size: int
    names: frozenset[str]

    def part(self, start: int, stop: int) -> dict[str, Any]:
        """The feed of a part; views of the whole."""
        where = (slice(None),) * self.axis + (slice(start, stop),)
        return {name: value[where] if name in self.names else value for name, value in self.feed.items()}


def batch_of(axis: int, inputs: Sequence[Declared], outputs: Sequence[Declared], feed: Mapping[str, Any]) -> Batch:
    """Determine which inputs are split.

    Args:
        feed: An array, list, dict or None for each input.

    Raises:
        CannotSplit: An output lacks the axis, no input has it, or inputs differ in it.
    """
    for output in outputs:
        if reason := output.lacks(axis):
            raise CannotSplit(f"output {reason}")
    found = [one for one in inputs if not one.lacks(axis) and getattr(feed.get(one.name), "ndim", 0) > axis]
    if not found:
        raise CannotSplit(f"no input has an axis {axis} whose size may vary")
    symbols = {one.dims[axis]: one.name for one in found if one.dims is not None and one.dims[axis] is not None}
    if len(symbols) > 1:
        raise CannotSplit(
            f"axis {axis} is not the same for all inputs: "
            + ", ".join(f"'{symbol}' of '{name}'" for symbol, name in symbols.items())
        )
    sizes = {feed[one.name].shape[axis]: one.name for one in found}
    if len(sizes) > 1:
        raise CannotSplit(
            f"axis {axis} has several sizes: " + ", ".join(f"{size} in '{name}'" for size, name in sizes.items())
        )
    (size,) = sizes
    if size < 2:
        raise CannotSplit(f"axis {axis} has {size}, which is too small to split")
    return Batch(feed, axis, size, frozenset(one.name for one in found))


def run_in_parts(
    batch: Batch,
    names: Sequence[str],
    run: Callable[[Mapping[str, Any]], list[Any]],
    may_shrink: Callable[[Exception], bool],
    size: int = 0,
) -> tuple[list[Any], int]:
    """Run parts, of half the size after each memory failure, and join the results in order.

    Args:
        may_shrink: Called with the exception of a part's run. Gives memory back and returns whether a smaller part is
            worth trying.
        size: Size of the first parts; 0 means half of everything.

    Returns:
        The results, and the size of the last parts.

    Raises:
        CannotSplit: An output of a part does not have the part's size, or parts differ in other axes.
        Exception: A run raised an error that smaller parts would not avoid.
    """
    size, start = size or (batch.size + 1) // 2, 0
    results: list[Any] = []
    while start < batch.size:
        stop = min(batch.size, start + size)
        try:
            found = run(batch.part(start, stop))
        except Exception as error:
            if size == 1 or not may_shrink(error):
                raise
            size = (size + 1) // 2
            continue
        if not results:
            results = [_whole(batch, name, value, stop) for name, value in zip(names, found, strict=True)]
        for name, whole, value in zip(names, results, found, strict=True):
            _put(batch, name, whole, value, start, stop)
        start = stop
    return results, size


def _whole(batch: Batch, name: str, part: Any, size: int) -> np.ndarray[Any, Any]:
    """Room for all of an output, of which there is a part."""
    shape = getattr(part, "shape", ())
    if not isinstance(part, np.ndarray) or len(shape) <= batch.axis or shape[batch.axis] != size:
        found = f"has shape {list(shape)}" if isinstance(part, np.ndarray) else f"is a {type(part).__name__}"
        raise CannotSplit(f"output '{name}' of a part of {size} {found}: it does not follow axis {batch.axis}")
    return np.empty((*shape[: batch.axis], batch.size, *shape[batch.axis + 1 :]), part.dtype)


def _put(batch: Batch, name: str, whole: np.ndarray[Any, Any], part: Any, start: int, stop: int) -> None:
    where = (slice(None),) * batch.axis + (slice(start, stop),)
    if getattr(part, "shape", None) != whole[where].shape:
        raise CannotSplit(
            f"output '{name}' of a part of {stop - start} has shape {list(getattr(part, 'shape', ()))}, "
            f"where {list(whole[where].shape)} follows from the first"
        )
    whole[where] = part
