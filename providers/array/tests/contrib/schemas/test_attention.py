"""Known types and shapes of the results of attention and of the operators around it before a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.dtypes import DataType, Dim, Shape, TensorType, data_type_of
from ort_py_array.contrib.schemas import schemas
from ort_py_kit.kernel_runner import make_node_spec

from ...oracle import run, sample

SCHEMAS = {schema.op_type: schema for schema in schemas() if schema.domain == "com.microsoft"}


def f(*shape: int) -> Any:
    """A float32 tensor."""
    return sample(shape, np.float32, 0, -1, 1)


def i(*values: int) -> Any:
    """An int32 tensor."""
    return np.array(values, np.int32)


def h(*shape: int) -> Any:
    """A float16 tensor."""
    return f(*shape).astype(np.float16)


_GROUPED = {"num_heads": 4, "kv_num_heads": 2}
_TABLE = np.array([[2, 0], [1, 0]], np.int32)
_ROWS, _COLUMNS = np.array([[0, 1]], np.int32), np.array([[0]], np.int32)

CASES: list[tuple[str, list[Any], int, dict[str, Any]]] = [
    ("Attention", [f(2, 5, 6), f(6, 36)], 1, {"num_heads": 3}),
    ("Attention", [f(2, 5, 6), f(6, 30)], 1, {"num_heads": 3, "qkv_hidden_sizes": (12, 12, 6)}),
    ("QAttention", [np.ones((2, 5, 6), np.uint8), np.ones((6, 36), np.int8), f(36), f(), f()], 1, {"num_heads": 3}),
    ("MultiHeadAttention", [f(2, 5, 12), f(2, 7, 12), f(2, 7, 6)], 1, {"num_heads": 3}),
    ("MultiHeadAttention", [f(2, 5, 12), f(2, 3, 7, 4), f(2, 3, 7, 2)], 1, {"num_heads": 3}),
    ("MultiHeadAttention", [f(2, 5, 12), f(2, 7, 3, 2, 4)], 1, {"num_heads": 3}),
    ("MultiHeadAttention", [f(2, 5, 3, 3, 4)], 1, {"num_heads": 3}),
    ("MultiHeadAttention", [*[f(2, 5, 12)] * 3, None, None, None, *[f(2, 3, 6, 4)] * 2], 3, {"num_heads": 3}),
    ("DecoderMaskedMultiHeadAttention", [f(2, 1, 36)], 1, {"num_heads": 3}),
    ("DecoderMaskedMultiHeadAttention", [*[f(2, 1, 12)] * 3, None, None, *[f(2, 3, 6, 4)] * 2], 3, {"num_heads": 3}),
    ("GroupQueryAttention", [f(2, 3, 64), None, None, None, None, i(2, 2), i(3)], 1, _GROUPED),
    ("GroupQueryAttention", [f(1, 1, 32), *[f(1, 1, 16)] * 2, *[f(1, 2, 5, 8)] * 2, i(5), i(6)], 3, _GROUPED),
    ("PagedAttention", [h(5, 64), None, None, h(3, 4, 2, 8), h(3, 4, 2, 8), i(0, 2, 5), i(1, 2), _TABLE], 3, _GROUPED),
    (
        "PagedAttention",
        [h(5, 32), h(5, 8), None, h(3, 4, 1, 8), None, i(0, 2, 5), i(1, 2), _TABLE],
        2,
        {"num_heads": 4, "kv_num_heads": 1, "kv_cache_layout": "LATENT", "v_head_size": 4, "scale": 0.5},
    ),
    (
        "SparseAttention",
        [f(1, 3, 64), None, None, *[f(1, 2, 16, 8)] * 2, _ROWS, _COLUMNS, i(3), i(3)],
        3,
        {**_GROUPED, "sparse_block_size": 16},
    ),
    ("RotaryEmbedding", [f(2, 5, 8), np.array([0]), f(9, 4), f(9, 4)], 1, {}),
    ("LinearAttention", [f(2, 3, 4), f(2, 3, 4), f(2, 3, 12), f(2, 2, 2, 6)], 2, {"update_rule": "linear"}),
    ("CausalConvWithState", [f(2, 6, 5), f(6, 1, 4), None, f(2, 6, 3)], 2, {}),
]


@pytest.mark.parametrize(("op_type", "inputs", "outputs", "attributes"), CASES, ids=[case[0] for case in CASES])
def test_results_are_what_was_inferred(
    op_type: str, inputs: list[Any], outputs: int, attributes: dict[str, Any]
) -> None:
    """Element types, and shapes as far as they are known: all but the rows of presents."""
    if op_type == "LinearAttention":
        attributes = {**attributes, "q_num_heads": 2, "kv_num_heads": 2}
    node = make_node_spec(op_type, inputs, domain="com.microsoft", outputs=outputs, attributes=attributes)
    infer = SCHEMAS[op_type].infer
    assert infer is not None
    results = run(op_type, inputs, domain="com.microsoft", opset=1, outputs=outputs, **attributes)
    for inferred, y in zip(infer(node), results, strict=True):
        assert isinstance(inferred, TensorType)
        assert inferred.data_type == data_type_of(y.dtype)
        assert inferred.shape is not None
        assert len(inferred.shape) == y.ndim
        assert all(known in (None, size) for known, size in zip(inferred.shape, y.shape, strict=True))
        assert y.ndim == 4 or None not in inferred.shape


def first_shape(op_type: str, shapes: list[Shape | None], **attributes: Any) -> Shape | None:
    """The shape inferred for the first output from shapes with names in them."""
    values = tuple(ValueSpec(f"x{n}", TensorType(DataType.FLOAT, shape)) for n, shape in enumerate(shapes))
    node = NodeSpec(0, "n", op_type, "com.microsoft", 1, values, (ValueSpec("y"),), attributes)
    infer = SCHEMAS[op_type].infer
    assert infer is not None
    found = infer(node)[0]
    assert isinstance(found, TensorType)
    return found.shape


_B: Dim = "batch"
_LINEAR = {"q_num_heads": 4, "kv_num_heads": 2}


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "expected"),
    [
        ("Attention", [(_B, "s", 6), (6, "n")], {}, (_B, "s", None)),
        ("Attention", [(_B, 6), (6, 36)], {}, None),
        ("MultiHeadAttention", [None], {}, None),
        ("MultiHeadAttention", [(_B, 12)], {}, None),
        ("MultiHeadAttention", [(_B, "s", 12), (_B, "t", 12), (_B, "t", "n")], {}, (_B, "s", "n")),
        ("MultiHeadAttention", [(_B, "s", "h", 3, 4)], {}, (_B, "s", None)),
        ("MultiHeadAttention", [(_B, "s", 12), (_B, 3, "t", 4), (_B, "h", "t", 4)], {}, (_B, "s", None)),
        ("GroupQueryAttention", [(_B, "s", "n")], {"num_heads": 4, "kv_num_heads": 2}, (_B, "s", None)),
        ("GroupQueryAttention", [(_B, "s")], {"num_heads": 4, "kv_num_heads": 2}, None),
        ("LinearAttention", [(_B, "s", 8), (_B, "s", 4), (_B, "s", 12)], _LINEAR, (_B, "s", 24)),
        ("LinearAttention", [(_B, "s", 8), (_B, "s", 4), None], _LINEAR, None),
    ],
)
def test_names_of_sizes_pass_through(
    op_type: str, shapes: list[Shape | None], attributes: dict[str, Any], expected: Shape | None
) -> None:
    assert first_shape(op_type, shapes, **attributes) == expected
