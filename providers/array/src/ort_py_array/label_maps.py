"""ZipMap and LabelEncoder: from columns to dictionaries, and from keys to values. Host only: strings and maps.

Listed with the family in `classic_ml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument

__all__ = ["KERNELS", "label_encoder", "zip_map"]

ML = "ai.onnx.ml"


def zip_map(ctx: KernelContext) -> KernelCallable:
    """ZipMap 1: ``(n, classes)`` → a list of n dictionaries from label to float, sorted by label."""
    attributes = ctx.node.attributes
    labels = list(attributes.get("classlabels_strings", ()) or attributes.get("classlabels_int64s", ()))

    order = sorted(range(len(labels)), key=labels.__getitem__)
    ordered = [labels[i] for i in order]

    def run(x: Array) -> list[dict[Any, float]]:
        rows = x.reshape(1, -1) if x.ndim == 1 else x
        if rows.ndim != 2 or rows.shape[1] != len(labels):
            raise InvalidArgument(
                f"The input has shape {list(x.shape)}, but there are {len(labels)} class labels.",
                where=ctx.node.location,
            )
        return [dict(zip(ordered, row, strict=True)) for row in rows[:, order].tolist()]

    return run


def label_encoder(ctx: KernelContext) -> KernelCallable:
    """LabelEncoder 1–4: each element's value in a table of keys; a default where it has none. NaN is a key, too."""
    attributes = ctx.node.attributes
    keys, values, default = _table(ctx, attributes) if ctx.node.since_version > 1 else (None, None, None)

    def run(x: Array) -> Array:
        if keys is None or values is None:
            return _by_position(attributes, x)
        return _looked_up(x, keys, values, default)

    return run


def _by_position(attributes: Any, x: Array) -> Array:
    """Version 1: between strings and their positions in one list."""
    classes = np.array(list(attributes.get("classes_strings", ())), dtype=object)
    if x.dtype.kind in "OUST":
        return _looked_up(x, classes, np.arange(len(classes)), attributes.get("default_int64", -1))
    known = (x >= 0) & (x < len(classes))
    found = np.full(x.shape, attributes.get("default_string", "_Unused"), dtype=object)
    found[known] = classes[x[known]]
    return found


def _table(ctx: KernelContext, attributes: Any) -> tuple[Array, Array, Any]:
    def one(side: str) -> tuple[Array, str]:
        for suffix, dtype in (("tensor", None), ("strings", object), ("int64s", np.int64), ("floats", np.float32)):
            given = attributes.get(f"{side}_{suffix}")
            if given is not None:
                array = given if dtype is None else np.array(list(given), dtype=dtype)
                return array.reshape(-1), suffix
        raise InvalidArgument(f"LabelEncoder has no {side}.", where=ctx.node.location)

    keys, _ = one("keys")
    values, kind = one("values")
    if keys.size != values.size:
        raise InvalidArgument(f"There are {keys.size} keys for {values.size} values.", where=ctx.node.location)
    defaults: dict[str, Any] = {"strings": "_Unused", "int64s": -1, "floats": -0.0}
    if kind == "tensor":
        given = attributes.get("default_tensor")
        default = given.reshape(-1)[0] if given is not None else _tensor_default(values)
    else:
        default = attributes.get(f"default_{kind[:-1]}", defaults[kind])
    return keys, values, default


def _tensor_default(values: Array) -> Any:
    if values.dtype.kind in "OUST":
        return "_Unused"
    return -1 if values.dtype.kind in "iu" else -0.0


def _looked_up(x: Array, keys: Array, values: Array, default: Any) -> Array:
    """Binary search among the sorted keys; the first of equal keys wins."""
    found = np.full(x.shape, default, dtype=values.dtype)
    if not keys.size:
        return found
    strings = keys.dtype.kind in "OUST"
    sought: Any = x.astype(str) if strings else x
    sorted_from: Any = keys.astype(str) if strings else keys.astype(x.dtype)
    order = np.argsort(sorted_from, kind="stable")
    ordered = sorted_from[order]
    at = np.minimum(np.searchsorted(ordered, sought), keys.size - 1)
    same = ordered[at] == sought
    if x.dtype.kind == "f":
        same |= np.isnan(ordered[at]) & np.isnan(sought)
    found[same] = values[order[at[same]]]
    return found


def _definition(name: str, factory: Any, until: int | None, host: Sequence[int]) -> KernelDef:
    return KernelDef(
        name,
        factory,
        domain=ML,
        since=1,
        until=until,
        host_inputs=frozenset(host),
        host_outputs=frozenset(host),
        implementation=f"ort_py_array.label_maps:{factory.__name__}",
    )


KERNELS = [_definition("ZipMap", zip_map, None, (0,)), _definition("LabelEncoder", label_encoder, 4, (0,))]
