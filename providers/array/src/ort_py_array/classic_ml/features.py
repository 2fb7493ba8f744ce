"""ArrayFeatureExtractor and FeatureVectorizer: picking columns of tensors, and putting tensors side by side.

Moves values, changes at most their type. Strings stay on the host.
"""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE
from ort_py_array.classic_ml.declarations import NUMBERS, definition, feature_rows

__all__ = ["KERNELS", "array_feature_extractor", "feature_vectorizer"]


def array_feature_extractor(ctx: KernelContext) -> KernelCallable:
    """ArrayFeatureExtractor 1: the entries `indices` (on the host) of the last axis; a vector is a single row."""
    xp, where = ctx.xp, ctx.node.location

    def run(x: Array, indices: Array) -> Array:
        if x.ndim == 0:
            raise InvalidArgument("A scalar has no features.", where=where, fix="Feed a vector or a matrix.")
        rows = x.reshape((1, x.shape[0])) if x.ndim == 1 else x
        columns = indices.reshape(-1)
        size = rows.shape[-1]
        if columns.size and (columns.min() < 0 or columns.max() >= size):
            raise InvalidArgument(
                f"Indices from {columns.min()} to {columns.max()} do not fit {size} features.",
                where=where,
                fix=f"Indices must be in [0, {size - 1}]." if size else "The input has no features.",
            )
        shape = (*rows.shape[:-1], columns.size)
        if columns.size > size and rows.size // max(size, 1) * columns.size > LARGE:
            ctx.check_allocation(shape, x.dtype)
        return xp.take(rows, xp.asarray(columns), axis=-1)

    return run


def feature_vectorizer(ctx: KernelContext) -> KernelCallable:
    """FeatureVectorizer 1: the inputs, matrices or vectors (one row each), side by side as float32.

    An input that has more columns than `inputdimensions` says is cut; one that has fewer is filled with zeros, as
    onnxruntime does.
    """
    xp, where = ctx.xp, ctx.node.location
    widths: Sequence[int] = ctx.node.attributes.get("inputdimensions", ())
    if any(width < 0 for width in widths):
        raise InvalidArgument(
            f"inputdimensions has the negative size {min(widths)}.", where=where, fix="Give the inputs' columns."
        )

    def run(*inputs: Array) -> Array:
        if len(widths) not in (0, len(inputs)):
            raise InvalidArgument(
                f"There are {len(inputs)} inputs, and inputdimensions has {len(widths)} entries.",
                where=where,
                fix="Give one size for each input.",
            )
        parts = [feature_rows(x, ctx.node) for x in inputs]
        counts = {part.shape[0] for part in parts}
        if len(counts) > 1:
            raise InvalidArgument(
                f"The inputs have {sorted(counts)} rows.", where=where, fix="All inputs must have the same rows."
            )
        sizes = list(widths) or [part.shape[1] for part in parts]
        shape = (counts.pop(), sum(sizes))
        if shape[0] * shape[1] > LARGE:
            ctx.check_allocation(shape, xp.float32)
        y = xp.zeros(shape, xp.float32)
        start = 0
        for part, size in zip(parts, sizes, strict=True):
            used = min(size, part.shape[1])
            y[:, start : start + used] = part[:, :used]
            start += size
        return y

    return run


_STRING = tensors(DataType.STRING)

KERNELS: list[KernelDef] = [
    definition("ArrayFeatureExtractor", array_feature_extractor, types={"T": NUMBERS}, host_inputs=frozenset({1})),
    definition(
        "ArrayFeatureExtractor",
        array_feature_extractor,
        types={"T": _STRING},
        host_inputs=frozenset({0, 1}),
        host_outputs=frozenset({0}),
    ),
    definition("FeatureVectorizer", feature_vectorizer, types={"T1": NUMBERS}, strided=True),
]
