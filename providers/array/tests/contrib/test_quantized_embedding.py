"""QEmbedLayerNormalization against onnxruntime and the float form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from ..oracle import run
from ..runtime_oracle import agree_with_runtime
from .near_ties import DOMAIN, number, on_device, random_eight

BATCH, LENGTH, HIDDEN = 3, 5, 8

SEGMENT = (1, 4, 10, 15)
"""Inputs that are there together or not at all."""


def ids(rows: int, seed: int = 0, shape: tuple[int, ...] = (BATCH, LENGTH)) -> Any:
    """Seeded row numbers."""
    return np.random.default_rng(seed).integers(0, rows, shape).astype(np.int32)


def embed_inputs(dtype: Any, *, segments: bool = True, mask: Any = None) -> list[Any]:
    """All eighteen inputs."""
    tables = [random_eight((rows, HIDDEN), dtype, seed) for seed, rows in enumerate((20, 9, 2))]
    gamma, beta = random_eight((HIDDEN,), dtype, 3), random_eight((HIDDEN,), dtype, 4)
    scales = [number(value) for value in (0.011, 0.012, 0.013, 0.014, 0.015)]
    zeros = [number(value, dtype) for value in (3, 5, 7, 9, 11)]
    inputs = [ids(20), ids(2, 1), *tables, gamma, beta, mask, *scales, *zeros]
    if not segments:
        for index in SEGMENT:
            inputs[index] = None
    return inputs


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_onnxruntime(masked: bool, segments: bool, dtype: Any) -> None:
    """With and without segments and a mask, whose ones are counted."""
    mask = (np.arange(LENGTH) < np.array([[5], [2], [0]])).astype(np.int32) if masked else None
    inputs = embed_inputs(dtype, segments=segments, mask=mask)
    agree_with_runtime("QEmbedLayerNormalization", inputs, opset=1, outputs=2, domain=DOMAIN)


def test_epsilon() -> None:
    inputs = embed_inputs(np.uint8)
    agree_with_runtime("QEmbedLayerNormalization", inputs, opset=1, outputs=2, domain=DOMAIN, epsilon=0.5)


def test_nothing() -> None:
    inputs = embed_inputs(np.uint8, segments=False)
    inputs[0] = inputs[0][:0]
    y, counts = run("QEmbedLayerNormalization", inputs, domain=DOMAIN, opset=1, outputs=2)
    assert (y.shape, counts.shape, y.dtype, counts.dtype) == ((0, LENGTH, HIDDEN), (0,), np.float32, np.int32)


def test_on_another_array_module() -> None:
    """Nothing of NumPy's own is used."""
    on_device("QEmbedLayerNormalization", embed_inputs(np.int8, mask=ids(2)), outputs=2)


def test_what_does_not_fit_is_refused() -> None:
    """Each kind of mistake, with its numbers."""
    cases: list[tuple[int, Any, str]] = [
        (0, np.array([[20]], np.int32), "Identifier 20 is out of range for an embedding of 20 rows"),
        (0, np.array([[-1]], np.int32), "Identifier -1 is out of range"),
        (0, np.zeros(3, np.int32), r"input_ids must have the shape \(batch, sequence\)"),
        (0, np.zeros((1, 10), np.int32), "The sequences have 10 positions, but position_embedding has 9 rows"),
        (3, np.zeros((9, 4), np.uint8), "An embedding must be a matrix as wide as the words'"),
        (5, np.zeros(4, np.uint8), "has shape .4., but a row has 8 entries"),
        (7, np.zeros((1, 5), np.int32), "The mask needs the shape of input_ids"),
        (8, np.ones(2, np.float32), r"Input 8 \('x8'\) has shape \[2\]"),
    ]
    for index, value, text in cases:
        inputs = embed_inputs(np.uint8, segments=False)
        inputs[index] = value
        with pytest.raises(InvalidArgument, match=text):
            run("QEmbedLayerNormalization", inputs, domain=DOMAIN, opset=1, outputs=2)


def test_segments_that_do_not_fit_are_refused() -> None:
    """Some of four inputs, or identifiers of another shape."""
    inputs = embed_inputs(np.uint8)
    inputs[4] = None
    with pytest.raises(InvalidArgument, match="Only some of the segment inputs are given"):
        run("QEmbedLayerNormalization", inputs, domain=DOMAIN, opset=1, outputs=2)
    inputs = embed_inputs(np.uint8)
    inputs[1] = inputs[1][:1]
    with pytest.raises(InvalidArgument, match="segment_ids needs the shape of input_ids"):
        run("QEmbedLayerNormalization", inputs, domain=DOMAIN, opset=1, outputs=2)
