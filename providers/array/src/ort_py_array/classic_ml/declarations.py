"""Common parts of the declarations of ai.onnx.ml: the domain, its usual types, labels, rows of features.

It is independent of operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.contracts.kernel import KernelDef, KernelFactory, tensors
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument

__all__ = ["ML", "NUMBERS", "class_labels", "definition", "feature_rows", "on_host"]

ML = "ai.onnx.ml"

NUMBERS = tensors(DataType.FLOAT, DataType.DOUBLE, DataType.INT64, DataType.INT32)
"""What nearly every operator of the domain takes."""


def definition(op_type: str, factory: KernelFactory, *, until: int | None = None, **declaration: Any) -> KernelDef:
    """A `KernelDef` of the domain for a factory, from version 1 on unless `since` says otherwise."""
    name = f"{factory.__module__}:{factory.__qualname__}"
    return KernelDef(op_type, factory, domain=ML, until=until, implementation=name, **{"since": 1, **declaration})


def feature_rows(x: Array, node: NodeSpec) -> Array:
    """The input as ``(n, features)``; one row where it has rank 1.

    Raises:
        InvalidArgument: It has another rank.
    """
    if x.ndim == 2:
        return x
    if x.ndim == 1:
        return x.reshape((1, x.shape[0]))
    raise InvalidArgument(
        f"The input has shape {list(x.shape)}; it needs rank 1 or 2.",
        where=node.location,
        fix="Feed a matrix with one row an observation, or a vector for one observation.",
    )


def class_labels(node: NodeSpec, integers: str) -> Array:
    """The labels of a classifier, on the host: an object array of strings or int64; empty where it has none.

    Args:
        node: The node; its attribute ``classlabels_strings`` wins.
        integers: Name of the attribute of integer labels.
    """
    attributes: Mapping[str, Any] = node.attributes
    strings: Sequence[str] = attributes.get("classlabels_strings", ())
    if strings:
        labels = np.empty(len(strings), object)
        labels[:] = list(strings)
        return labels
    return np.array(list(attributes.get(integers, ())), np.int64)


def on_host(x: Array) -> Array:
    """A device array as NumPy; CuPy's have `get`, by its documented interface."""
    return x.get() if hasattr(x, "get") else x
