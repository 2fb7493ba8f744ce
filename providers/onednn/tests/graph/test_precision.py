"""The type of each operation: products in what is asked for, float32 where the last bits count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ort_py.dtypes import DataType
from ort_py_onednn.binding.constants import F32, Binary, Element
from ort_py_onednn.graph.operation import Combine, Operation
from ort_py_onednn.graph.precision import Types, assign

BF16 = Element.BF16


def _operation(kind: str, inputs: str, outputs: str, *posts: Combine) -> Operation:
    return Operation(kind, outputs, tuple(inputs.split()), tuple(outputs.split()), posts=list(posts))


def _assigned(
    operations: Sequence[Operation], kinds: Mapping[str, DataType] | None = None, chosen: Element = BF16
) -> dict[str, Types]:
    """Types by the name of the first output; ``y`` is the region's output."""
    found = assign(operations, kinds or {}, ["y"], chosen)
    return {operation.outputs[0]: types for operation, types in zip(operations, found, strict=True)}


def test_products_write_what_is_asked_for_and_the_last_float32() -> None:
    """A product that another one reads is short; what leaves the region is not."""
    found = _assigned([_operation("Conv", "x w", "a"), _operation("Conv", "a v", "y")])
    assert found == {"a": Types(BF16, BF16), "y": Types(BF16, F32)}


def test_what_stands_behind_the_last_product_is_float32() -> None:
    """Functions, pooling and movement follow what they read, so one product decides for all behind it."""
    found = _assigned(
        [_operation("Conv", "x w", "a"), _operation("MaxPool", "a", "b"), _operation("Flatten", "b", "y")]
    )
    assert found == {"a": Types(BF16, F32), "b": Types(BF16), "y": Types(BF16)}


def test_a_value_that_a_product_adds_is_short() -> None:
    """An output that is read again costs a conversion at the end, not twice the bytes for its reader."""
    found = _assigned([_operation("Conv", "x w", "y"), _operation("Conv", "x v", "b", Combine(Binary.ADD, "y"))])
    assert found["y"] == Types(BF16, BF16)


@pytest.mark.parametrize("kind", ["Softmax", "LogSoftmax"])
def test_scores_are_float32(kind: str) -> None:
    """And the probabilities short, where a product reads them."""
    found = _assigned(
        [
            _operation("MatMul", "q k", "s"),
            _operation("binary", "s m", "t"),
            _operation(kind, "t", "p"),
            _operation("MatMul", "p v", "y"),
        ]
    )
    assert (found["s"].result, found["p"].result) == (F32, BF16)


def test_statistics_are_float32() -> None:
    """Even where a product reads them."""
    found = _assigned([_operation("ReduceMean", "x", "a"), _operation("Gemm", "a w", "y")])
    assert found["a"] == Types(BF16, F32)


def test_an_operation_nobody_thought_of_gets_float32() -> None:
    found = _assigned([_operation("Conv", "x w", "a"), _operation("Unheard", "a", "b"), _operation("Gemm", "b v", "y")])
    assert found["b"] == Types(F32, None, F32)


def test_float32_asks_for_nothing() -> None:
    """All follow, as if there were no types."""
    assert set(_assigned([_operation("Conv", "x w", "a"), _operation("Softmax", "a", "y")], chosen=F32).values()) == {
        Types()
    }


def test_a_model_keeps_its_own_type() -> None:
    """The session's precision only concerns float32 models."""
    kinds = {"a": DataType.BFLOAT16, "b": DataType.BFLOAT16, "y": DataType.FLOAT}
    operations = [
        _operation("MatMul", "x w", "a"),
        _operation("MatMul", "a v", "b"),
        _operation("Cast", "b", "c"),
        _operation("MatMul", "c u", "y"),
    ]
    assert [types.factors for types in _assigned(operations, kinds, F32).values()] == [BF16, BF16, F32, F32]
