"""Normalizer, Scaler, Binarizer and Imputer: numbers in, numbers of the same shape out, by row or by feature.

Attributes become arrays once, when the node is bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.classic_ml.declarations import NUMBERS, definition, feature_rows
from ort_py_array.parts import LARGE_PART, by_parts, converted

__all__ = ["KERNELS", "binarizer", "imputer", "normalizer", "scaler"]


def normalizer(ctx: KernelContext) -> KernelCallable:
    """Normalizer 1: rows divided by their maximum, L1 or L2 norm; float32. Rows whose divisor is 0 stay.

    The specification writes L1 as ``X / sum(X)`` and L2 as a root of squares; runtimes and the reference take
    them by name: L1 divides by the sum of *absolute* values, and L2 keeps signs.
    """
    xp, node = ctx.xp, ctx.node
    norm = node.attributes.get("norm", "MAX")
    sizes: dict[str, Callable[[Array], Array]] = {
        "MAX": lambda rows: rows.max(axis=1, keepdims=True),
        "L1": lambda rows: xp.abs(rows).sum(axis=1, keepdims=True),
        "L2": lambda rows: xp.sqrt((rows * rows).sum(axis=1, keepdims=True)),
    }
    if norm not in sizes:
        raise InvalidArgument(f"norm is '{norm}'.", where=node.location, fix="Use MAX, L1 or L2.")
    size_of = sizes[norm]

    def run(x: Array) -> Array:
        rows = feature_rows(x, node)
        if rows.size > LARGE_PART and ctx.device == HOST:
            return _normalized_by_parts(ctx, rows, norm).reshape(x.shape)
        rows = rows.astype(xp.float32, copy=False)
        if rows.size:
            size = size_of(rows)
            size += size == 0  # a row that is divided by 1 stays
            rows = rows / size
        return rows.reshape(x.shape)

    return run


def _normalized_by_parts(ctx: KernelContext, rows: Array, norm: str) -> Array:
    """Many rows, or long ones, divided by their norms."""
    xp = ctx.xp
    rows = rows if rows.dtype == xp.float32 else converted(ctx, rows, xp.float32)
    out = xp.empty(rows.shape, xp.float32)
    if norm == "MAX":
        size = rows.max(axis=1, keepdims=True)
    elif norm == "L1":
        size = by_parts(ctx, lambda target, some: xp.abs(some, target), out, rows).sum(axis=1, keepdims=True)
    else:
        by_parts(ctx, lambda target, some: xp.multiply(some, some, target), out, rows)
        size = xp.sqrt(out.sum(axis=1, keepdims=True))
    ctx.check_time()
    size += size == 0
    return by_parts(ctx, lambda target, some, by: xp.divide(some, by, target), out, rows, size)


def scaler(ctx: KernelContext) -> KernelCallable:
    """Scaler 1: ``(x - offset) · scale`` by feature, as float32; doubles and integers are rounded once, at the end.

    An attribute that is absent leaves that step out.
    """
    xp, node = ctx.xp, ctx.node
    given = {name: np.array(node.attributes.get(name, ()), np.float32) for name in ("offset", "scale")}
    offset, scale = (xp.asarray(values) if values.size else None for values in given.values())

    def run(x: Array) -> Array:
        features = x.shape[-1] if x.ndim else 1
        for name, values in given.items():
            if values.size not in (0, 1, features):
                raise InvalidArgument(
                    f"{name} has {values.size} entries; it needs 1 or {features}.",
                    where=node.location,
                    fix="Check the number of columns that were fed.",
                )
        y = x.astype(xp.float32 if x.dtype == xp.float32 else xp.float64)
        if offset is not None:
            y -= offset
        if scale is not None:
            y *= scale
        return y.astype(xp.float32, copy=False)

    return run


def binarizer(ctx: KernelContext) -> KernelCallable:
    """Binarizer 1: 1 where the input is greater than the threshold, else 0, in the input's type."""
    threshold = ctx.node.attributes.get("threshold", 0.0)

    def run(x: Array) -> Array:
        # An integer is greater than a number if it is greater than the next integer below: no rounding of the input.
        limit = math.floor(threshold) if x.dtype.kind == "i" and math.isfinite(threshold) else threshold
        return ctx.xp.asarray(x > limit).astype(x.dtype)

    return run


def imputer(ctx: KernelContext) -> KernelCallable:
    """Imputer 1: elements equal to the replaced value (NaN too) become one value, or one per feature."""
    xp, node = ctx.xp, ctx.node
    attributes = node.attributes
    kinds: dict[bool, tuple[Any, Any]] = {
        True: (attributes.get("imputed_value_floats", ()), attributes.get("replaced_value_float", 0.0)),
        False: (attributes.get("imputed_value_int64s", ()), attributes.get("replaced_value_int64", 0)),
    }

    def run(x: Array) -> Array:
        values, old = kinds[x.dtype.kind == "f"]
        features = x.shape[-1] if x.ndim else 1
        if len(values) not in (1, features):
            raise InvalidArgument(
                f"There are {len(values)} imputed values for {features} features.",
                where=node.location,
                fix="Give one value, or one per feature, in the attribute that fits the input's type: "
                "'imputed_value_floats' or 'imputed_value_int64s'.",
            )
        new = np.array(values)
        if x.dtype.kind != "f" and (new.min() < np.iinfo(x.dtype).min or new.max() > np.iinfo(x.dtype).max):
            raise InvalidArgument(
                f"An imputed value does not fit {x.dtype}.",
                where=node.location,
                fix="Imputed values must be in the range of the input's type.",
            )
        missing = xp.isnan(x) if math.isnan(old) else x == old
        return xp.where(missing, xp.asarray(new.astype(x.dtype)), x)

    return run


KERNELS: list[KernelDef] = [
    definition("Normalizer", normalizer, types={"T": NUMBERS}),
    definition("Scaler", scaler, types={"T": NUMBERS}),
    definition("Binarizer", binarizer, types={"T": NUMBERS}, strided=True),
    definition("Imputer", imputer, types={"T": NUMBERS}),
]
