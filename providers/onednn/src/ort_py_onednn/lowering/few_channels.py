"""Convolutions of pictures, which have a few channels only: how they are read, and how the result lies.

The code that reads pictures as they come writes channels in blocks. The code for channels that lie last needs a reorder
of the picture, takes up to 1.4 times as long on one thread, and gains little or nothing from a second one; but most of
what follows wants channels last. So blocks are made where one holds all channels, for these lie last all the same, and
where pools follow: they read blocks, and what they leave to be reordered is a quarter.
"""

from __future__ import annotations

from collections.abc import Callable

from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Primitive, Unimplemented
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["has_few", "lying_last", "of_picture"]

_FEW = 8
"""Channels of a picture, not of something computed."""

_POOLS = frozenset({"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"})


def has_few(source: Value) -> bool:
    """Return whether what is convolved has so few channels that it is a picture."""
    return source.dims[1] < _FEW


def of_picture(
    planner: Planner,
    create: Callable[[Desc, Desc], Primitive],
    source: Value,
    reads: Element,
    target: Desc,
    output: str,
) -> Primitive | None:
    """The primitive that is best for a picture; None where oneDNN may choose.

    Args:
        planner: The planner.
        create: Makes a primitive for layouts of the picture and the result.
        source: The picture.
        reads: The type in which it is read.
        target: Dimensions and type of the result.
        output: Name of the result.
    """
    if source.desc.is_plain and source.dtype == reads == target.dtype == F32:
        found = _generated(create, source.desc, Desc.any(target.dims))
        readers = planner.readers.get(output, frozenset())
        if found is not None and ((readers and readers <= _POOLS) or _last(found.arguments[Argument.DST]) is not None):
            return found
    # Left to itself oneDNN writes blocks, which the convolutions behind it read with a reorder.
    return _generated(create, Desc.any(source.dims, reads), Desc.channels_last(target.dims, target.dtype))


def lying_last(planner: Planner, value: Value) -> Value:
    """A value whose channels are one block as one whose channels lie last, which is the same; any other as it is."""
    desc = _last(value.desc)
    return value if desc is None else planner.view(value, desc, value.shape)


def _generated(create: Callable[[Desc, Desc], Primitive], source: Desc, target: Desc) -> Primitive | None:
    try:
        found = create(source, target)
    except Unimplemented:
        return None
    return found if found.implementation.startswith(("jit", "brg")) and not found.is_one_too_many else None


def _last(desc: Desc) -> Desc | None:
    """The layout with channels last that puts each element where this one does, where all channels are one block."""
    if desc.key is None or desc.key[2] != desc.dims or desc.has_offset or desc.blocks != ((desc.dims[1],), (1,)):
        return None
    found = Desc.channels_last(desc.dims, desc.dtype)
    outer = desc.strides[0], *desc.strides[2:]
    return found if outer == (found.strides[0], *found.strides[2:]) and found.nbytes == desc.nbytes else None
