"""CenterCropPad: a tensor's middle, or a tensor in the middle of zeros, axis by axis. Every element type.

Slices and one copy at most; what is only cropped is a view. It does not depend on pictures.
"""

from __future__ import annotations

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.checks import host_ints, normalized_axis

__all__ = ["center_crop_pad"]


@kernel("CenterCropPad", since=18, strided=True, views=((0, 0),), host_inputs=frozenset({1}))
def center_crop_pad(ctx: KernelContext, x: Array, shape: Array, *, axes: tuple[int, ...] | None = None) -> Array:
    """CenterCropPad-18 to the sizes in the host input `shape` of `axes`, by default of all.

    Where a difference is odd, the crop begins one element earlier and the padding ends one later. Strings are padded
    with empty ones.

    Raises:
        InvalidArgument: There is not one size an axis, a size is negative, or an axis is out of range or repeated.
        LimitError: The result would be too large.
    """
    xp, where = ctx.xp, ctx.node.location
    sizes = host_ints(shape) or ()
    chosen = [normalized_axis(axis, x.ndim, where) for axis in (range(x.ndim) if axes is None else axes)]
    if len(sizes) != len(chosen) or min(sizes, default=0) < 0 or len(set(chosen)) != len(chosen):
        raise InvalidArgument(
            f"CenterCropPad has the sizes {list(sizes)} for the axes {chosen} of an input of shape {list(x.shape)}.",
            where=where,
            fix="Give one size an axis, none negative, and no axis twice.",
        )
    source, target, result = [slice(None)] * x.ndim, [slice(None)] * x.ndim, list(x.shape)
    for axis, size in zip(chosen, sizes, strict=True):
        have, result[axis] = x.shape[axis], size
        if size < have:
            source[axis] = slice((have - size) // 2, (have - size) // 2 + size)
        elif size > have:
            target[axis] = slice((size - have) // 2, (size - have) // 2 + have)
    cropped = x[tuple(source)] if x.ndim else x
    if cropped.shape == tuple(result):
        return cropped
    ctx.check_allocation(result, x.dtype)
    y = xp.full(tuple(result), "", x.dtype) if x.dtype.kind == "O" else xp.zeros(tuple(result), x.dtype)
    y[tuple(target)] = cropped
    return y
