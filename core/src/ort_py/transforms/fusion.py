"""Common parts of fusions: the conditions on shapes and types under which one operator may replace a pattern.

`gelu`, `activations`, `layer_normalization`, `matrix_products` and `fused_products` build on it. Does not depend on
operators or providers: a fused node carries the nodes it replaces, and providers without its operator receive those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import Level, Match, PatternRule, ValueSpec
from ort_py.dtypes import DataType

CONTRIB = "com.microsoft"
"""Domain of the fused operators that onnxruntime made known."""


class Fusion(PatternRule):
    """A pattern that becomes one node, which carries the nodes it replaces."""

    @property
    def level(self) -> Level:
        return Level.EXTENDED

    @property
    def carries_function(self) -> bool:
        return True


def adds_axes(match: Match, source: ValueSpec) -> str:
    """Explain why the one-element constants of a match may give its result more axes than `source` has; "" if they
    cannot.

    A constant of shape ``[1]`` is a scalar for arithmetic, but not for the shape of the result.
    """
    numbers = [value for node in match.nodes for value in node.inputs if value is not None and value.constant]
    widest = max([len(value.shape) for value in numbers if value.shape is not None and _single(value)], default=0)
    rank = None if source.shape is None else len(source.shape)
    if widest == 0 or (rank is not None and widest <= rank):
        return ""
    known = "unknown" if rank is None else str(rank)
    return f"a constant has {widest} axes and the rank of '{source.name}' is {known}: the result may have more axes"


def _single(value: ValueSpec) -> bool:
    return value.shape is not None and all(size == 1 for size in value.shape)


def dtype_refusal(value: ValueSpec, allowed: Sequence[DataType]) -> str:
    """Explain why a value's element type is not one of `allowed`; "" if it is."""
    if value.data_type in allowed:
        return ""
    kind = "of unknown type" if value.data_type is None else value.data_type.name.lower()
    return f"'{value.name}' is {kind}; the fused operator takes {', '.join(one.name.lower() for one in allowed)}"


def scalar(array: Any) -> float | None:
    """The single element of a floating-point or integer constant, or None if it does not have exactly one."""
    if array is None or array.size != 1 or array.dtype.kind in "OSUb":
        return None
    return float(np.asarray(array).item())


def trailing_vector(value: ValueSpec, source: ValueSpec) -> bool:
    """Return whether `value` has one axis, as long as the last one of `source`: a bias or scale of columns."""
    if value.shape is None or source.shape is None or len(value.shape) != 1 or not source.shape:
        return False
    return value.shape[0] is not None and value.shape[0] == source.shape[-1]
