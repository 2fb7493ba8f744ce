"""Shape, Size, Reshape, Flatten, Squeeze, Unsqueeze, Identity: a tensor's shape read, or changed without moving data.

All but the first two return views where the array module can. Models run hundreds of these on tiny tensors, so the
factories do what they can once: where the shape or axes are constant, only one method call is left.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np  # Shape and Size make host arrays, whatever the array module is

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.errors import InvalidArgument, Location
from ort_py_array.checks import MOST_AXES, constant_input, host_ints, normalized_axes, normalized_axis

_VIEW: dict[str, Any] = {"views": ((0, 0),), "strided": True}
_WHOLE = slice(None)


def shape_of(ctx: KernelContext) -> KernelCallable:
    """Shape-1..25: int64 sizes of the axes in ``[start, end)`` (from 15), cut to the axes that exist."""
    axes = slice(ctx.node.attributes.get("start", 0), ctx.node.attributes.get("end"))
    array, int64 = np.array, np.int64
    if axes == slice(0, None):
        return lambda x: array(x.shape, int64)
    return lambda x: array(x.shape[axes], int64)


@kernel("Size", since=1, until=25, strided=True, host_outputs=frozenset({0}))
def size_of(_ctx: KernelContext, x: Array) -> Array:
    """Size-1..25: number of elements as an int64 scalar."""
    return np.array(x.size, np.int64)


def _itself(x: Any) -> Any:
    return x


def identity(_ctx: KernelContext) -> KernelCallable:
    """Identity-1..25: the value itself; sequences and optionals too."""
    return _itself


# ---------------------------------------------------------------------------------------------------------- Reshape


def _target(shape: tuple[int, ...], wanted: tuple[int, ...], allow_zero: bool, where: Location) -> tuple[int, ...]:
    """`wanted` with its zeros replaced by the sizes of `shape` at the same place.

    Raises:
        InvalidArgument: A size is below -1, is copied from an axis that is not there, or is -1 beside a 0.
    """
    why = fix = ""
    target = wanted
    if min(wanted, default=0) < -1:  # NumPy takes any negative size for -1
        why, fix = "a size is below -1", "One size may be -1, which is worked out; all others must be 0 or more."
    elif 0 in wanted and not allow_zero:
        if any(dim == 0 for dim in wanted[len(shape) :]):
            why = f"a 0 copies the size at its place, and the input has {len(shape)} axes"
            fix = "Write the size out, or set the attribute allowzero where a size of 0 is meant."
        else:
            target = tuple(shape[axis] if dim == 0 else dim for axis, dim in enumerate(wanted))
    if not why and -1 in target and 0 in target:
        why = f"the target, read as {target}, has as many elements whatever stands for -1"
        fix = "Write the sizes out where an axis may have the size 0."
    if why:
        raise InvalidArgument(
            f"A tensor of shape {tuple(shape)} cannot be reshaped to {wanted}.", where=where, why=why, fix=fix
        )
    return target


def _reshaped(x: Array, wanted: tuple[int, ...], allow_zero: bool, where: Location) -> Array:
    target = _target(tuple(x.shape), wanted, allow_zero, where)
    try:
        return x.reshape(target)
    except ValueError as error:
        raise InvalidArgument(
            f"A tensor of shape {tuple(x.shape)} cannot be reshaped to {wanted}.",
            where=where,
            why=f"it has {x.size} elements; the target, read as {target}, does not",
            fix="Check the shape input; a model exported for a fixed size accepts only that size.",
        ) from error


def reshape(ctx: KernelContext) -> KernelCallable:
    """Reshape-5..25: data and a host int64 shape; 0 copies a size (unless `allowzero`), one -1 is computed.

    Raises:
        InvalidArgument: The number of elements differs, a size is below -1 or copied from an axis that is not there,
            or -1 stands beside a size of 0, so that any number would do for it.
    """
    where = ctx.node.location
    allow_zero = bool(ctx.node.attributes.get("allowzero", 0))
    wanted = host_ints(constant_input(ctx, 1))
    if wanted is None:

        def run(x: Array, shape: Array) -> Array:
            if shape.ndim == 1 and 0 < shape.size <= MOST_AXES:
                sizes = shape.tolist()
                if 0 not in sizes and min(sizes) >= -1:  # such sizes need no look at the input
                    try:
                        return x.reshape(sizes)
                    except ValueError:
                        pass  # for its message
            return _reshaped(x, host_ints(shape) or (), allow_zero, where)

        return run
    return _known_reshape(wanted, allow_zero, where)


def _known_reshape(wanted: tuple[int, ...], allow_zero: bool, where: Location) -> KernelCallable:
    if min(wanted, default=1) < -1 or 0 in wanted:
        return lambda x, _shape=None: _reshaped(x, wanted, allow_zero, where)

    def run(x: Array, _shape: Array | None = None) -> Array:
        try:
            return x.reshape(wanted)
        except ValueError:
            return _reshaped(x, wanted, allow_zero, where)  # for its message

    return run


def reshape_1(ctx: KernelContext) -> KernelCallable:
    """Reshape-1: the shape is an attribute."""
    return _known_reshape(tuple(ctx.node.attributes.get("shape", ())), False, ctx.node.location)


def flatten(ctx: KernelContext) -> KernelCallable:
    """Flatten-1..25: a matrix of the axes before `axis` by the axes from it on.

    Raises:
        InvalidArgument: `axis` is out of range.
    """
    axis, where = ctx.node.attributes.get("axis", 1), ctx.node.location

    def run(x: Array) -> Array:
        shape = x.shape
        first = normalized_axis(axis, len(shape), where, inclusive=True)
        return x.reshape((prod(shape[:first]), prod(shape[first:])))

    return run


# -------------------------------------------------------------------------------------------- Squeeze and Unsqueeze


def _squeezed(x: Array, axes: tuple[int, ...], where: Location) -> Array:
    found = normalized_axes(axes, x.ndim, where)
    wrong = [axis for axis in found if x.shape[axis] != 1]
    if wrong:
        raise InvalidArgument(
            f"Axes {tuple(wrong)} of shape {tuple(x.shape)} cannot be squeezed: their size is not 1.",
            where=where,
            fix="Name only axes of size 1, or none to drop all of those.",
        )
    return x.squeeze(found)


def squeeze(ctx: KernelContext) -> KernelCallable:
    """Squeeze-1..25: without the axes named (attribute, from 13 host input), or without all of size 1.

    Raises:
        InvalidArgument: An axis is out of range, given twice, or of another size.
    """
    where = ctx.node.location
    given = ctx.node.attributes.get("axes")
    known = tuple(given) if given is not None else host_ints(constant_input(ctx, 1))
    if known:
        axes = known

        def run_known(x: Array, _axes: Array | None = None) -> Array:
            try:
                return x.squeeze(axes)
            except ValueError:
                return _squeezed(x, axes, where)  # for its message

        return run_known

    def run(x: Array, axes_input: Array | None = None) -> Array:
        wanted = host_ints(axes_input)
        return x.squeeze() if wanted is None else _squeezed(x, wanted, where)

    return run


def _new_axes_index(axes: tuple[int, ...], rank: int | None, where: Location) -> tuple[Any, ...] | None:
    """Index that puts new axes in; None where `rank` is None and has to be known first.

    Raises:
        InvalidArgument: An axis is out of range for `rank`, or the result would have more axes than arrays can have.
    """
    if rank is not None:
        if rank + len(axes) > MOST_AXES:
            raise InvalidArgument(
                f"A tensor of rank {rank} with {len(axes)} new axes has more than {MOST_AXES} axes.",
                where=where,
                fix="Add fewer axes.",
            )
        axes = normalized_axes(axes, rank + len(axes), where)
    if len(set(axes)) != len(axes):
        raise InvalidArgument(
            f"Axes {axes} name a new axis twice.",
            where=where,
            fix="Name each position in the result once; negative ones count from its end.",
        )
    if any(not -MOST_AXES <= axis < MOST_AXES for axis in axes):
        return None
    if all(axis >= 0 for axis in axes):
        return tuple(None if axis in axes else _WHOLE for axis in range(max(axes, default=-1) + 1))
    if all(axis < 0 for axis in axes):
        return (Ellipsis, *(None if axis in axes else _WHOLE for axis in range(min(axes), 0)))
    return None


def unsqueeze(ctx: KernelContext) -> KernelCallable:
    """Unsqueeze-1..25: with new axes of size 1 where `axes` (attribute, from 13 host input) say, in the result's count.

    Raises:
        InvalidArgument: An axis is out of range or given twice.
    """
    where = ctx.node.location
    given = ctx.node.attributes.get("axes")
    known = tuple(given) if given is not None else host_ints(constant_input(ctx, 1))
    index = None if known is None else _new_axes_index(known, None, where)

    def run(x: Array, axes_input: Array | None = None) -> Array:
        axes = known if known is not None else host_ints(axes_input) or ()
        found = _new_axes_index(axes, x.ndim, where)
        return x[found] if found else x

    if not index:
        return run

    def run_known(x: Array, _axes: Array | None = None) -> Array:
        try:
            return x[index]
        except IndexError:
            return run(x)  # for its message

    return run_known


def _definition(op_type: str, factory: Any, since: int, until: int, *, host: bool = False) -> KernelDef:
    return KernelDef(
        op_type,
        factory,
        since=since,
        until=until,
        host_inputs=frozenset({1}) if host else frozenset(),
        implementation=f"{__name__}:{factory.__name__}",
        **_VIEW,
    )


KERNELS: list[KernelDef] = [
    KernelDef(
        "Shape",
        shape_of,
        since=1,
        until=25,
        strided=True,
        host_outputs=frozenset({0}),
        implementation=f"{__name__}:shape_of",
    ),
    _definition("Identity", identity, 1, 25),
    _definition("Reshape", reshape, 5, 25, host=True),
    _definition("Reshape", reshape_1, 1, 1),
    _definition("Flatten", flatten, 1, 25),
    _definition("Squeeze", squeeze, 1, 11),
    _definition("Squeeze", squeeze, 13, 25, host=True),
    _definition("Unsqueeze", unsqueeze, 1, 11),
    _definition("Unsqueeze", unsqueeze, 13, 25, host=True),
]
