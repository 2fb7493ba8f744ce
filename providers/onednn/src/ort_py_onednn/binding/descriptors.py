"""Memory descriptors: dimensions and layout of a tensor, without its data.

A `Desc` owns a handle and is never changed. Descriptors that describe the same layout have the same `key`, which is
plain data: it serves in dictionaries and may outlive the handle. The type of the elements is part of the layout.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

from ort_py.errors import EPFail
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import BLOCKED, F32, TAG_ANY, TAGS_BLOCKED, Element, Query
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.status import Unimplemented, check

__all__ = ["Desc", "Key", "row_major"]

Key = tuple[Any, ...]
MAX_RANK = 12
_KEPT = 2048
"""Layouts that are remembered: they are asked for again and again, and never change."""

_MOST_IN_A_DIMENSION = 2**31 - 1
_MOST_BYTES = 1 << 40
"""What no memory holds. oneDNN makes its code before anybody asks for memory, divides by sizes that it holds in 32
bits, and ends the process where they wrap to 0."""

_ALIKE = 8
"""Layouts of one size that are remembered of those that primitives choose: neighbours mostly choose the same, and a
comparison is ten times faster than asking what a layout is like."""


class Desc:
    """A descriptor.

    Attributes:
        handle: The C object.
        dims: Logical dimensions.
        dtype: Type of the elements.
        nbytes: Bytes the data take, padding included; 0 for a part of a larger tensor, whose place `reach` tells.
        key: Everything about the layout; None where it is open or oneDNN's secret.
        is_plain: Whether data lie as in a C-contiguous array.
        identity: The same for what describes the same: the key, where it is open dimensions and type.
        threads: For a layout that is oneDNN's secret, the OpenMP threads that its primitive was made for; else 0.
            Packed weights of products consist of a part for each thread, so as many must bring data there.
    """

    __slots__ = (
        *("_blocks", "_reach", "dims", "dtype", "handle", "identity", "is_plain", "key", "nbytes", "strides"),
        "threads",
    )

    def __init__(
        self, handle: Any, dims: tuple[int, ...], dtype: Element | None = None, strides: tuple[int, ...] | None = None
    ) -> None:
        """Own a handle.

        Args:
            handle: The C object.
            dims: Dimensions.
            dtype: The type of the elements where it is known.
            strides: Strides where the layout is known to consist of nothing else, () where it is open; else it is
                asked for, which takes longer.
        """
        c = engine().c
        self.handle = ffi.gc(handle, c.dnnl_memory_desc_destroy)
        self.dims = dims
        self.dtype = Element(_int(c, handle, Query.DATA_TYPE)) if dtype is None else dtype
        self.nbytes = int(c.dnnl_memory_desc_get_size(handle))
        self.strides = strides or ()
        self.key: Key | None = None
        self._blocks: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self._reach: tuple[int, int] | None = None
        if strides:
            self._describe(dims, 0)
        elif strides is None and _int(c, handle, Query.FORMAT_KIND) == BLOCKED:
            rank = len(dims)
            self.strides = _dims(c, handle, Query.STRIDES, rank)
            inner = _int(c, handle, Query.INNER_NBLKS)
            if inner:
                self._blocks = (_dims(c, handle, Query.INNER_BLKS, inner), _dims(c, handle, Query.INNER_IDXS, inner))
            offset = _long(c, handle, Query.OFFSET)
            if offset:
                self.nbytes = 0  # oneDNN 3.2 says so itself, 3.13 counts bytes as if the data began at their address
            self._describe(_dims(c, handle, Query.PADDED_DIMS, rank), offset)
        self.is_plain = False
        if self.key is not None and self.key[2] == dims and not self._blocks[0] and not self.key[4]:
            self.is_plain = _usual(dims, self.strides) == row_major(dims)
        # Strides of dimensions of 1 belong to it: primitives that were made for others may read them.
        self.identity: Hashable = None if self.key is None else (self.key, self.strides)
        self.threads = 0
        if self.key is None:
            self.identity = ("any", dims, self.dtype) if strides == () else object()
            if strides is None:
                self.threads = _threads()

    def _describe(self, padded: tuple[int, ...], offset: int) -> None:
        # The stride of a dimension of 1 means nothing: layouts that differ in it only are the same.
        steps = tuple([0 if size == 1 else stride for size, stride in zip(padded, self.strides, strict=True)])
        # The size tells layouts apart that differ in whether sums for integers stand behind the data; of which kind
        # they are only a comparison says.
        plain = padded == self.dims and not self._blocks[0]
        size = self.dtype.nbytes * math.prod(self.dims) if plain else self.nbytes
        self.key = (self.dims, steps, padded, self._blocks, offset, size, self.dtype)
        if not plain and size > self.dtype.nbytes * math.prod(padded):
            self.key = (*self.key, _kind(self.key, self.handle))

    @classmethod
    def strided(cls, dims: Sequence[int], strides: Sequence[int], dtype: Element = F32) -> Desc:
        """A layout of strides, in elements.

        Raises:
            Unimplemented: It has more elements than oneDNN can count, as all functions that take dimensions do.
        """
        return _strided(tuple(dims), _usual(tuple(dims), tuple(strides)), dtype)

    @classmethod
    def plain(cls, dims: Sequence[int], dtype: Element = F32) -> Desc:
        """The layout of a C-contiguous array; a scalar is a tensor of one element."""
        return _plain(tuple(dims) or (1,), dtype)

    @classmethod
    def channels_last(cls, dims: Sequence[int], dtype: Element = F32) -> Desc:
        """Dimension 1 innermost, the others in order: how fast convolutions read and write."""
        _, channels, *spatial = dims
        strides = [channels * stride for stride in row_major(spatial)]
        return cls.strided(dims, (channels * math.prod(spatial), 1, *strides), dtype)

    @classmethod
    def picture(cls, matrix: Sequence[int], dtype: Element = F32) -> Desc:
        """A plain matrix as a picture one pixel high, whose channels are its columns: channels last, also of one row,
        which code for convolutions tells by the strides of dimensions of 1."""
        rows, columns = matrix
        return _strided((1, columns, 1, rows), (columns * rows, 1, columns * rows, columns), dtype)

    @classmethod
    def blocked(cls, dims: Sequence[int], dtype: Element = F32) -> Desc:
        """Pictures of three to five dimensions with eight channels in each block."""
        return _tagged(tuple(dims), dtype, TAGS_BLOCKED[len(dims)])

    @classmethod
    def any(cls, dims: Sequence[int], dtype: Element = F32) -> Desc:
        """Dimensions for which a primitive chooses the layout."""
        return _tagged(tuple(dims), dtype, TAG_ANY)

    @classmethod
    def borrowed(cls, handle: Any) -> Desc | None:
        """The layout of a descriptor that belongs to a primitive; None for the empty one.

        Descriptors are compared by oneDNN, which leaves out the strides of dimensions of 1. What is found may therefore
        have been the choice of another primitive, and is made regular like every layout that oneDNN made.
        """
        if handle == ffi.NULL:
            return None
        c = engine().c
        known = _borrowed.setdefault(int(c.dnnl_memory_desc_get_size(handle)), deque(maxlen=_ALIKE))
        for one in tuple(known):
            if c.dnnl_memory_desc_equal(handle, one.handle) and (not one.threads or one.threads == _threads()):
                return one
        rank = _int(c, handle, Query.NDIMS)
        if rank == 0:
            return None
        made = ffi.new("md_t *")
        check(c.dnnl_memory_desc_clone(made, handle), "dnnl_memory_desc_clone")
        found = _regular(cls(made[0], _dims(c, handle, Query.DIMS, rank)))
        known.appendleft(found)
        if len(_borrowed) > _KEPT:
            _borrowed.clear()
        return found

    @property
    def is_blocked(self) -> bool:
        """True if dimensions are cut into inner blocks."""
        return bool(self._blocks[0])

    @property
    def blocks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes of the inner blocks, the innermost last, and the dimension that each cuts."""
        return self._blocks

    @property
    def has_offset(self) -> bool:
        """True if the data begin behind the address: a part of a larger tensor."""
        return self.key is not None and bool(self.key[4])

    @property
    def reach(self) -> tuple[int, int]:
        """The first byte of the data, counted from their address, and the one behind the last.

        Bytes in between that strides skip are counted, and so are padding and what stands behind the elements."""
        if self._reach is None:
            self._reach = self._reached()
        return self._reach

    def _reached(self) -> tuple[int, int]:
        if 0 in self.dims:
            return 0, 0
        if self.key is None:
            return 0, self.nbytes
        outer, inner = list(self.key[2]), 1
        for block, place in zip(*self._blocks, strict=True):
            outer[place] //= block
            inner *= block
        steps = [(size - 1) * stride for size, stride in zip(outer, self.strides, strict=True)]
        begin, size = self.key[4], self.dtype.nbytes
        last = begin + sum(step for step in steps if step > 0) + inner
        begin += sum(step for step in steps if step < 0)
        behind = self.nbytes if len(self.key) > 7 else 0  # sums that stand behind the elements
        return begin * size, max(last * size, begin * size + behind)

    @property
    def is_channels_last(self) -> bool:
        """True if neighbours in memory are channels rather than pixels."""
        if self.key is None or self.is_blocked or len(self.dims) < 3:
            return False
        steps = [stride for dim, stride in zip(self.dims[1:], self.strides[1:], strict=True) if dim > 1]
        return len(steps) > 1 and steps[-1] > min(steps)

    @property
    def is_dense(self) -> bool:
        """True if the data have no gaps but those of blocks."""
        return self.nbytes == self.dtype.nbytes * math.prod(self.key[2] if self.key else self.dims)

    def of(self, dtype: Element) -> Desc | None:
        """The same strides for elements of another type; None where dimensions are cut into blocks or have gaps."""
        if dtype == self.dtype:
            return self
        if self.key is None or self.is_blocked or not self.is_dense or self.key[4]:
            return None
        return Desc.strided(self.dims, self.strides, dtype)

    def permuted(self, order: Sequence[int]) -> Desc | None:
        """The same data with dimension ``order[i]`` in place i; None where the layout does not allow it."""
        if self.key is None:
            return None
        inverse = [0] * len(order)
        for place, source in enumerate(order):
            inverse[source] = place
        made = ffi.new("md_t *")
        if engine().c.dnnl_memory_desc_permute_axes(made, self.handle, inverse):
            return None
        return _regular(Desc(made[0], tuple(self.dims[source] for source in order)))

    def reshaped(self, dims: Sequence[int]) -> Desc | None:
        """The same data with other dimensions; None where the layout does not allow it."""
        if self.is_plain and self.is_dense and math.prod(dims) == math.prod(self.dims):
            return Desc.plain(dims, self.dtype)
        made = ffi.new("md_t *")
        if self.key is None or engine().c.dnnl_memory_desc_reshape(made, self.handle, len(dims), list(dims)):
            return None
        found = _regular(Desc(made[0], tuple(dims)))
        if not self._keeps_blocks(found):
            return None
        return found if found.is_plain or len(dims) >= len(self.dims) else found._afresh()

    def _afresh(self) -> Desc | None:
        """The same layout, made from its numbers alone; None where it consists of more than strides.

        Where oneDNN 3.2 makes a layout of fewer dimensions of another, the sizes of the lost dimensions stay behind the
        new ones. Its reference code reads them: for slopes of PRelu that broadcast, it then leaves its arrays.
        """
        if self.key is None or self.is_blocked or self.key[2] != self.dims:
            return None
        begin, sizes, offsets = self.key[4], list(self.dims), [0] * len(self.dims)
        for place in sorted(range(len(sizes)), key=lambda place: -self.strides[place]):
            if begin and self.strides[place]:
                offsets[place], begin = divmod(begin, self.strides[place])
                sizes[place] += offsets[place]
        if begin:
            return None
        try:
            whole = Desc.strided(sizes, self.strides, self.dtype)
        except (EPFail, Unimplemented):
            return None
        return whole.part(self.dims, offsets) if any(offsets) else whole

    def _keeps_blocks(self, other: Desc) -> bool:
        """Return whether the dimensions that are cut into blocks are dimensions of a reshaped layout, too.

        oneDNN 3.2 forgets a dimension of 1 that is padded to a block where its neighbours become one.
        """
        (blocks, places), (kept, targets) = self._blocks, other._blocks
        if blocks != kept or self.key is None or other.key is None:
            return blocks == kept
        return all(
            target < len(other.dims)
            and (self.dims[place], self.key[2][place]) == (other.dims[target], other.key[2][target])
            and math.prod(self.dims[:place]) == math.prod(other.dims[:target])
            for place, target in zip(places, targets, strict=True)
        )

    def part(self, dims: Sequence[int], offsets: Sequence[int]) -> Desc | None:
        """A rectangular part of the same data; None where the layout does not allow it."""
        made = ffi.new("md_t *")
        status = engine().c.dnnl_memory_desc_create_submemory(made, self.handle, list(dims), list(offsets))
        found = None if status else Desc(made[0], tuple(dims))
        return None if found is None or found._cuts_blocks() else _regular(found)

    def _cuts_blocks(self) -> bool:
        """Return whether a dimension does not consist of whole blocks: oneDNN 3.2 describes a part of a block like
        that.
        """
        if self.key is None:
            return False
        widths: dict[int, int] = {}
        for block, place in zip(*self._blocks, strict=True):
            widths[place] = widths.get(place, 1) * block
        return any(self.key[2][place] % width for place, width in widths.items())

    def same(self, other: Desc) -> bool:
        """Return whether data of one are data of the other."""
        if self.key is not None:
            return self.key == other.key
        return self.threads == other.threads and bool(engine().c.dnnl_memory_desc_equal(self.handle, other.handle))


def row_major(dims: Sequence[int]) -> tuple[int, ...]:
    """Strides of a C-contiguous array, in elements."""
    strides = [1] * len(dims)
    for place in range(len(dims) - 2, -1, -1):
        strides[place] = strides[place + 1] * max(1, dims[place + 1])
    return tuple(strides)


def _usual(dims: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a C-contiguous array for those that differ from them in dimensions of 1 alone; others as they are.

    Such strides mean nothing, and layouts that differ in them only are taken for the same, here and by oneDNN. It reads
    them all the same: where they are not the usual ones it has reference code only for some functions, and its
    recurrent layers take them for the distance of rows and jump to code that was never made.
    """
    wanted = row_major(dims)
    same = all(dim == 1 or stride == want for dim, stride, want in zip(dims, strides, wanted, strict=True))
    return wanted if same else strides


def _regular(desc: Desc) -> Desc:
    """A layout that oneDNN made of another: the plain one, with the usual strides, where it is the same."""
    return Desc.plain(desc.dims, desc.dtype) if desc.is_plain else desc


@functools.lru_cache(maxsize=_KEPT)
def _plain(dims: tuple[int, ...], dtype: Element) -> Desc:
    return _strided(dims, row_major(dims), dtype)


@functools.lru_cache(maxsize=_KEPT)
def _strided(dims: tuple[int, ...], strides: tuple[int, ...], dtype: Element) -> Desc:
    _refuse_endless(dims, dtype)
    made = ffi.new("md_t *")
    status = engine().c.dnnl_memory_desc_create_with_strides(made, len(dims), list(dims), dtype, list(strides))
    check(status, "dnnl_memory_desc_create_with_strides", f"dimensions {dims} and strides {strides}")
    return Desc(made[0], dims, dtype, strides)


@functools.lru_cache(maxsize=_KEPT)
def _tagged(dims: tuple[int, ...], dtype: Element, tag: int) -> Desc:
    _refuse_endless(dims, dtype)
    made = ffi.new("md_t *")
    status = engine().c.dnnl_memory_desc_create_with_tag(made, len(dims), list(dims), dtype, tag)
    check(status, "dnnl_memory_desc_create_with_tag", f"dimensions {dims}")
    return Desc(made[0], dims, dtype, () if tag == TAG_ANY else None)


def _refuse_endless(dims: tuple[int, ...], dtype: Element) -> None:
    if max(dims, default=1) > _MOST_IN_A_DIMENSION or math.prod(dims) * dtype.nbytes > _MOST_BYTES:
        raise Unimplemented(f"dimensions {dims} are more than oneDNN can count")


_borrowed: dict[int, deque[Desc]] = {}
_kinds_lock = threading.Lock()
_kinds: dict[Key, list[Any]] = {}


def _threads() -> int:
    """The OpenMP threads that the calling thread uses now."""
    e = engine()
    return int(e.c.omp_get_max_threads()) if e.library.threaded else 1


def _kind(key: Key, handle: Any) -> int:
    """Number of a layout among those that are the same in all that can be asked for."""
    with _kinds_lock:
        known = _kinds.setdefault(key, [])
        for number, other in enumerate(known):
            if engine().c.dnnl_memory_desc_equal(handle, other):
                return number
        made = ffi.new("md_t *")
        check(engine().c.dnnl_memory_desc_clone(made, handle), "dnnl_memory_desc_clone")
        known.append(ffi.gc(made[0], engine().c.dnnl_memory_desc_destroy))
        return len(known) - 1


def _int(c: Any, handle: Any, what: int) -> int:
    found = ffi.new("int *")
    if status := c.dnnl_memory_desc_query(handle, what, found):
        check(status, "dnnl_memory_desc_query", f"query {what}")
    return int(found[0])


def _long(c: Any, handle: Any, what: int) -> int:
    found = ffi.new("int64_t *")
    if status := c.dnnl_memory_desc_query(handle, what, found):
        check(status, "dnnl_memory_desc_query", f"query {what}")
    return int(found[0])


def _dims(c: Any, handle: Any, what: int, count: int) -> tuple[int, ...]:
    found = ffi.new("int64_t **")
    if status := c.dnnl_memory_desc_query(handle, what, found):
        check(status, "dnnl_memory_desc_query", f"query {what}")
    return tuple(ffi.unpack(found[0], count))
