"""Bytes of float8 and products of them: what `region` is made of. It handles arrays, not graphs.

cuBLASLt multiplies float8 that lies along the axis that is summed over, in units of 16, and makes whole units of 16
columns. So a weight is turned and filled up once, and rows are filled up by the kernel that makes them; what is too
much in a result is cut off.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py_cuda.code import Kernel
from ort_py_cuda.code.sources import program
from ort_py_cuda.cublaslt.elements import Epilogue
from ort_py_cuda.cublaslt.products import multiply

__all__ = ["FORMS", "columns_of", "product", "rows_kernel", "rows_of"]

FORMS = {"float8_e4m3fn": (3, 0x7E), "float8_e5m2": (2, 0x7B)}
"""Bits of the mantissa, and the byte of the largest number."""

_UNIT = 16
_C_TYPES = {"float32": "float", "float16": "half_t", "bfloat16": "bfloat16_t"}
_WIDTHS = {4: 4, 2: 8}
"""Numbers of 16 bytes."""


@cache
def rows_kernel(form: str, source: str, rounded: str, aligned: bool) -> Kernel:
    """Makes bytes of numbers.

    Args:
        form: Name of the float8 type.
        source: dtype name of the numbers.
        rounded: dtype name of quotients: what the model divides in.
        aligned: Whether each row can be read in packs of 16 bytes.
    """
    mantissa, largest = FORMS[form]
    options = (
        f"-DMANTISSA={mantissa}",
        f"-DLARGEST={largest}",
        f"-DSOURCE={_C_TYPES[source]}",
        f"-DROUNDED={_C_TYPES[rounded]}",
        f"-DWIDTH={4 if source == 'float32' else 8}",
        f"-DALIGNED={int(aligned)}",
    )
    return Kernel(program("float8"), "float8_rows", "PPPqii", options)


def _filled(size: int) -> int:
    return -(-size // _UNIT) * _UNIT


def rows_of(xp: Any, x: Array, scale: Array, form: str, rounded: str) -> Array:
    """``x / scale`` as float8, ``(rows, k filled up)`` uint8; leading axes are rows.

    Args:
        xp: Array module.
        x: float32, float16 or bfloat16 ``(..., k)``.
        scale: float32 of one element, on the device.
        form: Name of the float8 type.
        rounded: dtype name of quotients.
    """
    x = xp.ascontiguousarray(x)
    k, rows = x.shape[-1], prod(x.shape[:-1])
    pitch, width = _filled(k), _WIDTHS[x.dtype.itemsize]
    packed = xp.empty((rows, pitch), xp.uint8)
    packs = rows * (pitch // width)
    if not packs:
        return packed
    kernel = rows_kernel(form, x.dtype.name, rounded, k % width == 0 and x.data.ptr % 16 == 0)
    kernel(
        (min(-(-packs // 256), 1 << 16), 1, 1),
        (256, 1, 1),
        int(xp.cuda.get_current_stream().ptr),
        x.data.ptr,
        packed.data.ptr,
        scale.data.ptr,
        packs,
        k,
        pitch,
    )
    return packed


def columns_of(xp: Any, weight: Any, turned: bool) -> Array:
    """A weight of float8 on the host as bytes ``(n, k)`` on the device, both filled up with zeros.

    Args:
        xp: Array module.
        weight: ``(k, n)``, NumPy's.
        turned: It is ``(n, k)``.
    """
    raw = weight.view("uint8")
    n, k = raw.shape if turned else raw.shape[::-1]
    packed = xp.zeros((_filled(n), _filled(k)), xp.uint8)
    packed[:n, :k] = xp.asarray(raw if turned else raw.T.copy())
    return packed


def product(
    xp: Any,
    rows: Array,
    columns: Array,
    elements: tuple[str, str],
    scales: tuple[Array, Array],
    size: int,
    dtype: Any,
    *,
    alpha: float = 1.0,
    added: Array | None = None,
    beta: float = 1.0,
    relu: bool = False,
) -> Array:
    """``alpha · (rows · scale) @ (columns · scale).T + beta · added``, ``(rows, size)``.

    Args:
        xp: Array module.
        rows: What `rows_of` made.
        columns: What `columns_of` made.
        elements: Names of their float8 types.
        scales: float32 of one element each.
        size: Columns of the result.
        dtype: Of the result: float32, float16 or bfloat16.
        alpha: Factor of the product.
        added: Of the type of the result, broadcasts to it.
        beta: Factor of what is added.
        relu: Whether Relu follows.
    """
    shape = rows.shape[0], columns.shape[0]
    # Its bias would be bfloat16 for results of float32: all that is added is spread over the result first instead.
    y = xp.zeros(shape, dtype) if added is not None and shape[1] != size else xp.empty(shape, dtype)
    if added is not None:
        y[:, :size] = added
    multiply(
        *(rows, columns.T, y),
        added=None if added is None else y,
        alpha=alpha,
        beta=beta,
        epilogue=Epilogue.RELU if relu else Epilogue.DEFAULT,
        result=dtype,
        elements=elements,
        a_scale=scales[0],
        b_scale=scales[1],
    )
    return y if shape[1] == size else xp.ascontiguousarray(y[:, :size])
