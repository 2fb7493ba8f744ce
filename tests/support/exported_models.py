"""The exported transformers of `tests/models/exported/`: where they are, and seeded feeds for each.

The files are made by `scripts/export_transformers.py`; what to feed follows from the names and types of their inputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx

__all__ = ["EXPORTED", "feeds_of"]

EXPORTED = sorted((Path(__file__).resolve().parent.parent / "models" / "exported").glob("*.onnx"))

_LENGTH, _PAST, _TARGET, _WORDS = 5, 4, 3, 40


def feeds_of(path: Path, *, words: int = _LENGTH, past: int = _PAST) -> dict[str, Any]:
    """Inputs of a model, the same each time: two texts or pictures, one of the second text's last words masked.

    onnxruntime refuses RotaryEmbedding of opset 23 for more than one text, so models that have it get one.

    Args:
        path: The model.
        words: Words of each text.
        past: Words before them, for a model that reads keys and values of a past.
    """
    model = onnx.load(path)
    batch = 1 if any(node.op_type == "RotaryEmbedding" for node in model.graph.node) else 2
    random = np.random.default_rng(7)
    before = past if any(value.name.startswith("past") for value in model.graph.input) else 0
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        dims = [dim.dim_value or None for dim in value.type.tensor_type.shape.dim]
        dims[0] = batch
        if len(dims) == 2:
            dims[1] = _TARGET if value.name.startswith("decoder") else words
        elif value.name.startswith("past"):
            dims[2] = past
        if value.name == "attention_mask":
            mask = np.ones((batch, words + before), np.int64)
            mask[-1, -2] = 0
            feeds[value.name] = mask
        elif value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            feeds[value.name] = random.integers(3, _WORDS, [dim or 1 for dim in dims])
        else:
            feeds[value.name] = random.standard_normal([dim or 1 for dim in dims]).astype(np.float32)
    return feeds
