"""In which type each operation of a region computes and writes: a walk over the operations, before any shape is known.

Products run in the type that was asked for, or in the one their model is stored in. What depends on the last bits does
not: statistics are written in float32, whatever they are taken of, and so are the scores that a softmax reads and what
leaves the region without another product. Everything between follows what it reads. oneDNN accumulates in float32 in
every case. It does not depend on layouts; `lowering` converts where two operations disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass
from ort_py_onednn.binding.constants import F32, Element
from ort_py_onednn.graph.operation import Operation

__all__ = ["FLOATING", "Types", "assign"]

_PRODUCTS = frozenset({"Attention", "Conv", "ConvTranspose", "Gemm", "MatMul", "MultiHeadAttention"})
_STATISTICS = frozenset({"ReduceMean", "ReduceSum"})
_PROBABILITIES = frozenset({"LogSoftmax", "Softmax"})
_NORMALIZATIONS = _PROBABILITIES | {
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "RMSNormalization",
}
_FOLLOWING = frozenset(
    {
        "AveragePool",
        "Cast",
        "Concat",
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "MaxPool",
        "PRelu",
        "Pad",
        "ReduceMax",
        "ReduceMin",
        "Reshape",
        "Resize",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
        "Upsample",
        "binary",
        "eltwise",
    }
)
_BY_BITS = "DigitMatMul"
"""A product that takes as many digits of what it reads as the type of the products has bits."""

_SHAPES = "shape:"
"""How kinds of operations begin that look at shapes only."""

_STORED: Mapping[DataType | None, Element] = {DataType.FLOAT16: Element.F16, DataType.BFLOAT16: Element.BF16}
FLOATING = frozenset(_STORED.values()) | {F32}
"""Types that may stand for each other while a region computes."""


@dataclass(frozen=True, slots=True)
class Types:
    """The types of one operation.

    Attributes:
        factors: In which its products read.
        result: In which it writes; None where that follows from what it reads.
        only: In which all it reads has to be; None where any will do.
    """

    factors: Element = F32
    result: Element | None = None
    only: Element | None = None


def assign(
    operations: Sequence[Operation],
    kinds: Mapping[str, DataType | None],
    outputs: Sequence[str],
    chosen: Element,
) -> list[Types]:
    """The types of each operation.

    Args:
        operations: The region's, in order.
        kinds: Types of values in the model; what is not among them is float32.
        outputs: The region's outputs.
        chosen: Type of the products of float32 values.
    """
    made = [
        next((_STORED.get(kinds.get(name), chosen) for name in operation.outputs if name), chosen)
        for operation in operations
    ]
    if all(element == F32 for element in made):
        return [Types()] * len(made)
    wide = _wide(operations, set(outputs))
    return [_types(operation, element, wide) for operation, element in zip(operations, made, strict=True)]


def _types(operation: Operation, element: Element, wide: set[str]) -> Types:
    result = F32 if any(name in wide for name in operation.outputs) else element
    if operation.kind in _PRODUCTS:
        return Types(element, result)
    if operation.kind in _NORMALIZATIONS:
        return Types(element, result)
    if operation.kind in _STATISTICS:
        return Types(element, F32)
    if operation.kind in _FOLLOWING or operation.kind == _BY_BITS or operation.kind.startswith(_SHAPES):
        return Types(element)
    return Types(F32, None, F32)  # an operation that was not looked at for this keeps to what is always right


def _wide(operations: Sequence[Operation], outputs: set[str]) -> set[str]:
    """Values that are worth float32: outputs and what softmax reads, as far as no product reads them too."""
    readers: dict[str, list[Operation]] = {}
    for operation in operations:
        for name in operation.reads():
            readers.setdefault(name, []).append(operation)
    found: set[str] = set()
    for operation in reversed(operations):
        for name in operation.outputs:
            if not name or not (name in outputs or name in readers):
                continue
            if all(
                reader.kind in _PROBABILITIES
                or (reader.kind not in _PRODUCTS and any(made in found for made in reader.outputs))
                for reader in readers.get(name, ())
            ):
                found.add(name)
    return found
