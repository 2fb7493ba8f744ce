"""Types from two sources made one: what inference found and what the model declares; and names of unknown sizes.

Used by `shapes` and `edit`. Pure functions over `ort_py.dtypes`; knows nothing of graphs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from ort_py.dtypes import Dim, OptionalType, SequenceType, Shape, SparseTensorType, TensorType, ValueType

_GENERATED = re.compile(r"unk__\d+")


def substitute(shape: Shape, bindings: Mapping[str, int]) -> Shape:
    """The shape with known sizes put in for symbolic names."""
    return tuple([bindings.get(dim, dim) if isinstance(dim, str) else dim for dim in shape])


def element_conflict(inferred: ValueType, declared: ValueType) -> bool:
    """Return whether two types differ in more than their shapes."""
    if isinstance(inferred, TensorType) and isinstance(declared, TensorType):
        return inferred.data_type is not declared.data_type
    return str(inferred) != str(declared)


def shape_conflict(inferred: ValueType | None, declared: ValueType | None) -> bool:
    """Return whether two types of equal elements cannot both be right: other ranks, or other known sizes."""
    pair = _shapes(inferred, declared)
    if pair is None:
        return False
    left, right = pair
    if left is None or right is None:
        return False
    if len(left) != len(right):
        return True
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(left, right, strict=True))


def merge_types(inferred: ValueType | None, declared: ValueType | None, *, sizes: bool) -> ValueType | None:
    """The information of both types together. If they contradict each other, inference wins.

    Args:
        inferred: From inference; None where it found nothing.
        declared: From the model; None where it says nothing.
        sizes: Believe declared sizes where inference has none; else only ranks, names and element types are taken.
    """
    if declared is None or inferred == declared:
        return inferred
    if inferred is None:
        return declared if sizes else _without_sizes(declared)
    if isinstance(inferred, SequenceType | OptionalType) and isinstance(declared, type(inferred)):
        element = merge_types(inferred.element, declared.element, sizes=sizes)
        return type(inferred)(element) if element is not None else inferred
    pair = _shapes(inferred, declared)
    if pair is None or not isinstance(inferred, TensorType | SparseTensorType):
        return inferred
    left, right = pair
    if right is None or (left is not None and len(left) != len(right)):
        return inferred
    if left is None:
        left = (None,) * len(right)
    merged = tuple([a if a == b else _merge_dims(a, b, sizes) for a, b in zip(left, right, strict=True)])
    return inferred if merged == inferred.shape else replace(inferred, shape=merged)


def _merge_dims(inferred: Dim, declared: Dim, sizes: bool) -> Dim:
    unknown = inferred is None or (isinstance(inferred, str) and is_made_up(inferred))
    says = isinstance(declared, str) or (sizes and declared is not None)
    return declared if unknown and says else inferred


def _shapes(left: ValueType | None, right: ValueType | None) -> tuple[Shape | None, Shape | None] | None:
    """The shapes of two tensor types of one kind and element type, or None if they are not comparable."""
    tensor = isinstance(left, TensorType) and isinstance(right, TensorType)
    if not tensor and not (isinstance(left, SparseTensorType) and isinstance(right, SparseTensorType)):
        return None
    return (left.shape, right.shape) if left.data_type == right.data_type else None  # type: ignore[union-attr]


def _without_sizes(value_type: ValueType) -> ValueType:
    if isinstance(value_type, TensorType | SparseTensorType) and value_type.shape is not None:
        return replace(value_type, shape=tuple([dim if isinstance(dim, str) else None for dim in value_type.shape]))
    if isinstance(value_type, SequenceType | OptionalType):
        return replace(value_type, element=_without_sizes(value_type.element))
    return value_type


def is_made_up(name: str) -> bool:
    """Return whether a name looks like those that ONNX's inference makes up for sizes that it does not know."""
    return _GENERATED.fullmatch(name) is not None


def made_up(types: Iterable[ValueType | None], own: Collection[str], *, uses: int | None = None) -> set[str]:
    """Names that ONNX's inference made up for unknown sizes.

    Args:
        uses: Only names that occur so often; with 1, those that tie no two sizes together.
    """
    count = Counter(dim for value_type in types for dim in dim_names(value_type))
    return {
        name for name, seen in count.items() if (uses is None or seen == uses) and name not in own and is_made_up(name)
    }


def dim_names(value_type: ValueType | None) -> list[str]:
    """Symbolic names in a type, each as often as it occurs."""
    while isinstance(value_type, SequenceType | OptionalType):
        value_type = value_type.element
    if isinstance(value_type, TensorType | SparseTensorType) and value_type.shape is not None:
        return [dim for dim in value_type.shape if isinstance(dim, str)]
    return []


def rename_dims(value_type: ValueType, forgotten: set[str]) -> ValueType:
    """The type with the names in `forgotten` made unknown sizes."""
    if isinstance(value_type, SequenceType | OptionalType):
        return replace(value_type, element=rename_dims(value_type.element, forgotten))
    if not isinstance(value_type, TensorType | SparseTensorType) or value_type.shape is None:
        return value_type
    if not any(dim in forgotten for dim in value_type.shape):
        return value_type
    return replace(value_type, shape=tuple([None if dim in forgotten else dim for dim in value_type.shape]))


def with_sizes(merged: ValueType | None, found: ValueType) -> ValueType | None:
    """A type with the sizes that another one knows where it has names only: a name stands for whatever comes."""
    if not (isinstance(merged, TensorType) and isinstance(found, TensorType)) or merged.shape is None:
        return merged
    if found.shape is None or len(found.shape) != len(merged.shape):
        return merged
    shape = tuple([new if isinstance(new, int) else old for old, new in zip(merged.shape, found.shape, strict=True)])
    return merged if shape == merged.shape else replace(merged, shape=shape)
