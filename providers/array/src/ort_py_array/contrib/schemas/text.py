"""Schemas of operators on strings. The output's last axis is as long as the data says."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.contracts import NodeSpec
from ort_py.dtypes import Shape
from ort_py_array.contrib.schemas.notation import dims, operator

__all__ = ["SCHEMAS"]


def _tokens(node: NodeSpec) -> Sequence[Shape | None]:
    """The input's axes and one of unknown size; an input without elements loses an axis, so its sizes must be known."""
    shape = dims(node, 0)
    known = shape is not None and all(isinstance(size, int) and size > 0 for size in shape)
    return [(*shape, None) if known and shape is not None else None]


SCHEMAS = [
    operator(
        "Tokenizer",
        "X: T",
        "Y: T",
        attributes={
            "mark": int,
            "mincharnum": int,
            "pad_value": str,
            "separators": tuple | None,
            "tokenexp": str | None,
        },
        shapes=_tokens,
        T="string",
    ),
]
