"""MaxUnpool: maxima put back where MaxPool found them, zeros elsewhere.

Comes after `pooling_indices`, whose positions it takes. One scatter, whatever the number of axes.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument, Location
from ort_py_array.checks import host_ints, index_error, shape_error

__all__ = ["KERNELS", "max_unpool"]


def max_unpool(ctx: KernelContext) -> KernelCallable:
    """MaxUnpool-9..22: X and flat indices, both ``(n, c, *pooled)``, [output shape (host)] → ``(n, c, *size)``.

    Indices count the elements of the tensor that `kernel_shape`, `strides` and `pads` give back, the batch and the
    channels included. With an output shape, that tensor is the first part of the output along each axis, as in the
    suite's case; onnxruntime counts the output's own elements instead. Of several equal indices, one wins.

    Raises:
        InvalidArgument: Shapes or attributes that do not fit, or an index out of range.
        LimitError: Through the context.
    """
    xp, where = ctx.xp, ctx.node.location
    attributes = ctx.node.attributes
    kernel = tuple(attributes["kernel_shape"])
    rank = len(kernel)
    strides = tuple(attributes.get("strides", ())) or (1,) * rank
    pads = tuple(attributes.get("pads", ())) or (0,) * (2 * rank)
    for name, values, length, least in (
        ("kernel_shape", kernel, rank, 1),
        ("strides", strides, rank, 1),
        ("pads", pads, 2 * rank, 0),
    ):
        if len(values) != length or any(value < least for value in values):
            raise InvalidArgument(
                f"{name} is {list(values)} for {rank} spatial axes.",
                where=where,
                fix=f"Give {length} entries of at least {least}.",
            )

    def run(x: Array, indices: Array, output_shape: Any = None) -> Array:
        if x.ndim != rank + 2 or x.shape != indices.shape:
            raise shape_error(
                f"MaxUnpool with a kernel of {rank} axes needs two inputs of one shape (n, c, {rank} sizes).",
                where,
                [x.shape, indices.shape],
            )
        sizes = [
            (size - 1) * strides[axis] + kernel[axis] - pads[axis] - pads[axis + rank]
            for axis, size in enumerate(x.shape[2:])
        ]
        if not x.size:  # strides beyond the kernel leave less than nothing of nothing
            sizes = [size if own else max(size, 0) for size, own in zip(sizes, x.shape[2:], strict=True)]
        if any(size < 0 for size in sizes):
            raise shape_error(f"The pads cut more than there is: the sizes would be {sizes}.", where, [x.shape])
        pooled = (*x.shape[:2], *sizes)
        wanted = host_ints(output_shape)
        shape = pooled if wanted is None else wanted
        _check_shape(shape, pooled, where)
        ctx.check_allocation(shape, x.dtype)
        out = xp.zeros(prod(shape), x.dtype)
        if x.size:
            flat = indices.reshape(-1)
            low, high = xp.min(flat).item(), xp.max(flat).item()
            if low < 0 or high >= prod(pooled):
                error = index_error(low if low < 0 else high, prod(pooled), where)
                raise InvalidArgument(
                    error.what,
                    where=where,
                    why=f"the indices count the elements of a tensor of shape {list(pooled)}",
                    fix=f"Indices must be in [0, {prod(pooled) - 1}].",
                )
            out[_moved(xp, flat, pooled, shape)] = x.reshape(-1)
        return out.reshape(shape)

    return run


def _check_shape(shape: tuple[int, ...], pooled: tuple[int, ...], where: Location) -> None:
    fits = len(shape) == len(pooled) and shape[:2] == pooled[:2]
    if not fits or any(size < own for size, own in zip(shape, pooled, strict=True)):
        raise InvalidArgument(
            f"output_shape is {list(shape)}, but the maxima belong to a tensor of shape {list(pooled)}.",
            where=where,
            fix="Ask for the same batch and channels, and for sizes that are not smaller.",
        )


def _moved(xp: Any, flat: Array, old: tuple[int, ...], new: tuple[int, ...]) -> Array:
    """Flat indices into a tensor of shape `old` as indices into the larger shape `new`."""
    if old == new:
        return flat
    result, step = None, 1
    for own, size in zip(reversed(old), reversed(new), strict=True):
        place = xp.remainder(flat, own) * step
        result = place if result is None else result + place
        flat = xp.floor_divide(flat, own)
        step *= size
    return result


KERNELS = [
    KernelDef(
        "MaxUnpool",
        max_unpool,
        since=9,
        until=22,
        host_inputs=frozenset({2}),
        implementation=f"{__name__}:max_unpool",
    )
]
