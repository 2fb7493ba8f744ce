"""Calls of kernels in blocks, between which a run with a time limit looks at the clock.

A call is cut where its operator computes each entry for itself, so it need not know of time. Sessions without such a
limit bind their kernels as they are. Comes before `binding`; which operators can be cut is in `independent_axes`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import Array, KernelCallable, KernelContext, NodeSpec
from ort_py.kernels.independent_axes import Cut, rule_of
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import in_checked_parts

WORTH_CUTTING = 1 << 18
"""Elements that take less than a second, whatever is done with each."""


def in_blocks(
    node: NodeSpec,
    context: KernelContext,
    known: Collection[int],
    call: KernelCallable,
    into: KernelCallable | None,
    *,
    strided: bool,
) -> tuple[KernelCallable, KernelCallable | None]:
    """Both forms of a kernel, cut into blocks where its operator allows it.

    Args:
        node: The node. The kernel makes all of its outputs and no others.
        context: The context that the kernel was bound with, on the host.
        into: ``f(*inputs, *outputs)``, None where there is no such form.
        strided: Whether the kernel takes inputs that are not contiguous.
    """
    rule = rule_of(node)
    if rule is None:
        return call, into

    def place(inputs: Sequence[Any]) -> Cut | None:
        if inputs[0] is None:
            return None
        cut = rule(node, inputs)
        if cut is None or cut.size < WORTH_CUTTING or cut.length < 2:
            return None
        # A kernel may have prepared the content of a constant, so that it cannot be given a part of it.
        return None if any(_is_cut(cut, inputs, one) for one in known) else cut

    kernel = _Cut(context, place, call, into, len(node.inputs), strided)
    return kernel.call, None if into is None else kernel.into


@dataclass(frozen=True, slots=True, eq=False)
class _Cut:
    _context: KernelContext
    _place: Callable[[Sequence[Any]], Cut | None]
    _call: KernelCallable
    _into: KernelCallable | None
    _inputs: int
    _strided: bool

    def call(self, *inputs: Any) -> Any:
        """The kernel's first form."""
        cut = self._place(inputs) if _is_long(inputs) else None
        return self._call(*inputs) if cut is None else self._in_blocks(cut, inputs, ())

    def into(self, *arrays: Any) -> Any:
        """The kernel's second form."""
        assert self._into is not None
        inputs = arrays[: self._inputs]
        cut = self._place(inputs) if _is_long(inputs) else None
        return self._into(*arrays) if cut is None else self._in_blocks(cut, inputs, arrays[self._inputs :])

    def _in_blocks(self, cut: Cut, inputs: Sequence[Any], given: Sequence[Array]) -> Any:
        """The results, block by block.

        Args:
            given: Arrays for the results; new ones where there are none.
        """
        outputs = list(given)
        moved = [_is_cut(cut, inputs, place) for place in range(len(inputs))]
        several = False

        def block(start: int, stop: int) -> None:
            nonlocal several
            some = [
                self._part(value, cut.axis - cut.rank + value.ndim, start, stop) if is_cut else value
                for value, is_cut in zip(inputs, moved, strict=True)
            ]
            places = [_at(out, cut.results, start, stop) for out in outputs]
            if places and self._into is not None and all(place.flags.c_contiguous for place in places):
                self._into(*some, *places)
                return
            made = self._call(*some)
            several = isinstance(made, tuple)
            results = made if isinstance(made, tuple) else (made,)
            if not outputs:
                for result in results:
                    shape = (*result.shape[: cut.results], cut.length, *result.shape[cut.results + 1 :])
                    self._context.check_allocation(shape, result.dtype)
                    outputs.append(np.empty(shape, result.dtype))
                places = [_at(out, cut.results, start, stop) for out in outputs]
            for place, result in zip(places, results, strict=True):
                place[...] = result

        in_checked_parts(max(1, WORTH_CUTTING * cut.length // cut.size), block)(0, cut.length)
        return tuple(outputs) if several or len(outputs) > 1 else outputs[0]

    def _part(self, array: Array, axis: int, start: int, stop: int) -> Array:
        part = _at(array, axis, start, stop)
        return part if self._strided else np.ascontiguousarray(part)


def _is_long(inputs: Sequence[Any]) -> bool:
    size = 1
    for value in inputs:
        if value is not None:
            size = min(size * value.size, WORTH_CUTTING)  # the whole product of many is a number of many digits
    return size >= WORTH_CUTTING


def _is_cut(cut: Cut, inputs: Sequence[Any], place: int) -> bool:
    """Whether an input has more than one entry at the place of a cut."""
    value = inputs[place]
    if value is None or not (cut.broadcasts or place == 0):
        return False
    axis = cut.axis - cut.rank + value.ndim
    return bool(axis >= 0 and value.shape[axis] != 1)


def _at(array: Array, axis: int, start: int, stop: int) -> Array:
    return array[(slice(None),) * axis + (slice(start, stop),)]
