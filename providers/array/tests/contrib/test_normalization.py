"""Layer normalisations of sums against onnxruntime, and float64 formulas for what its CPU does not give."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ort_py
from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, run, sample
from ..runtime_oracle import agree_with_runtime
from .closed_forms import DOMAIN, contrib, model_of, rounded_once

_EPSILON = 1e-5
_NARROW = (np.dtype(np.float16), BF16)


def _exact(total: Any, gamma: Any, beta: Any, simplified: bool) -> tuple[Any, Any, Any]:
    """(result, mean, inverse deviation) in float64 over the last axis."""
    mean = total.mean(-1, keepdims=True)
    centred = total if simplified else total - mean
    inverse = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float64(np.float32(_EPSILON)))
    y = centred * inverse * np.asarray(gamma, np.float64)
    return y if beta is None else y + np.asarray(beta, np.float64), mean, inverse


def _inputs(op_type: str, shape: tuple[int, ...], skip: tuple[int, ...], dtype: Any, extra: str) -> list[Any]:
    width = shape[-1]
    inputs = [sample(shape, dtype), sample(skip, dtype, 1), sample((width,), dtype, 2)]
    beta = sample((width,), dtype, 3) if "beta" in extra else None
    bias = sample((width,), dtype, 4) if "bias" in extra else None
    return [*inputs, beta, bias] if op_type == "SkipLayerNormalization" else [*inputs, bias]


@pytest.mark.parametrize("extra", ["", "beta", "bias", "beta bias"])
@pytest.mark.parametrize(("shape", "skip"), [((2, 5, 16),) * 2, ((5, 16),) * 2, ((2, 90, 400),) * 2], ids=str)
@pytest.mark.parametrize("op_type", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_skip_layer_normalization(op_type: str, shape: Any, skip: Any, extra: str) -> None:
    """Two and three axes, every set of optional inputs; the largest takes several blocks of rows."""
    inputs = _inputs(op_type, shape, skip, np.float32, extra)
    agree_with_runtime(op_type, inputs, opset=1, domain=DOMAIN, epsilon=_EPSILON)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("skip", [(1, 90, 64), (90, 64)], ids=str)
def test_the_skipped_tensor_may_lack_the_batch(skip: tuple[int, ...], dtype: Any) -> None:
    """It is repeated for each entry of the batch, also where blocks of rows reach over its end."""
    inputs = _inputs("SkipLayerNormalization", (9, 90, 64), skip, dtype, "beta")
    agree_with_runtime("SkipLayerNormalization", inputs, opset=1, domain=DOMAIN, epsilon=_EPSILON)


@pytest.mark.parametrize("dtype", [*_NARROW, np.dtype(np.float32)], ids=str)
@pytest.mark.parametrize("op_type", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_all_outputs(op_type: str, dtype: Any) -> None:
    """Statistics are float32, one per row (onnxruntime's CPU leaves them unwritten); the sum has the input's type."""
    inputs = _inputs(op_type, (2, 5, 16), (2, 5, 16), dtype, "bias")
    y, mean, inverse, total = contrib(op_type, inputs, outputs=4, epsilon=_EPSILON)
    exact_sum = sum(value.astype(np.float64) for value in (inputs[0], inputs[1], inputs[-1]))
    exact = _exact(exact_sum, inputs[2].astype(np.float64), None, "Simplified" in op_type)
    for actual, wanted, kind in zip((y, mean, inverse), exact, (dtype, np.float32, np.float32), strict=True):
        rounded_once(actual, wanted, kind)
    rounded_once(total, exact_sum, dtype)


def test_only_the_sum_is_asked_for_besides() -> None:
    """Outputs between may be absent, as optimised models have them; the sum agrees with onnxruntime's."""
    inputs = _inputs("SkipLayerNormalization", (2, 3, 8), (2, 3, 8), np.float32, "beta bias")
    _, mean, inverse, total = contrib(
        "SkipLayerNormalization", inputs, outputs=4, output_mask=(True, False, False, True)
    )
    assert mean is None
    assert inverse is None
    np.testing.assert_allclose(total, inputs[0] + inputs[1] + inputs[4], rtol=1e-6)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 3), st.integers(0, 4), st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_skip_layer_normalization_of_any_shape(batch: int, length: int, width: int, spread: bool, seed: int) -> None:
    """Empty batches and rows of one entry included."""
    x = sample((batch, length, width), np.float32, seed)
    skip = sample((1 if spread else batch, length, width), np.float32, seed + 1)
    gamma = sample((width,), np.float32, seed + 2)
    (y, *_) = contrib("SkipLayerNormalization", [x, skip, gamma], outputs=4, epsilon=_EPSILON)
    exact = _exact(x.astype(np.float64) + skip, gamma, None, simplified=False)[0]
    np.testing.assert_allclose(y, exact, rtol=1e-3, atol=1e-3)


def test_rows_without_entries() -> None:
    """Nothing to normalise; the statistics of nothing are NaN."""
    x = np.zeros((2, 3, 0), np.float32)
    y, mean, _, _ = contrib("SkipLayerNormalization", [x, x, np.zeros(0, np.float32)], outputs=4)
    assert y.shape == (2, 3, 0)
    assert np.isnan(mean).all()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(4,), (4,), (4,)], "The input has rank 1 instead of 2 or 3"),
        ([(2, 3, 4), (2, 4, 4), (4,)], "The skipped tensor does not broadcast"),
        ([(2, 3, 4), (3, 4), (5,)], r"The scale has shape \[5\], but a row has 4 entries[\s\S]*shape \[4\]"),
        ([(2, 3, 4), (3, 4), (4,), (3,)], r"The shift has shape \[3\]"),
        ([(2, 3, 4), (3, 4), (4,), (4,), (1,)], "The bias needs 4 entries"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: list[tuple[int, ...]], message: str) -> None:
    """Input, skip, scale, shift and bias."""
    with pytest.raises(InvalidArgument, match=message):
        contrib("SkipLayerNormalization", [np.ones(shape, np.float32) for shape in shapes])


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_simplified_layer_normalization(dtype: Any, axis: int) -> None:
    """It normalises over one or more axes and also returns the inverse root mean square."""
    x = sample((3, 5, 16), dtype)
    arguments: dict[str, Any] = {"opset": 17, "axis": axis, "epsilon": _EPSILON}
    agree_with_runtime("SimplifiedLayerNormalization", [x, sample(x.shape[axis:], dtype, 1)], outputs=2, **arguments)


def test_simplified_layer_normalization_has_the_types_it_is_told() -> None:
    """The result has the scale's type, the statistic that of ``stash_type``: combinations that onnxruntime lacks."""
    x, scale = sample((3, 16), BF16), sample((16,), np.float32, 1)
    y, inverse = run("SimplifiedLayerNormalization", [x, scale], opset=17, outputs=2, stash_type=11, epsilon=_EPSILON)
    exact = _exact(x.astype(np.float64), scale, None, simplified=True)
    rounded_once(y, exact[0], np.float32)
    rounded_once(inverse, exact[2], np.float64)


def test_a_session_runs_an_operator_that_stands_in_the_domain_of_onnx() -> None:
    """Models optimised by onnxruntime carry SimplifiedLayerNormalization in domain ""."""
    inputs = [sample((2, 3, 8), np.float32), sample((8,), np.float32, 1)]
    model, feeds = model_of("SimplifiedLayerNormalization", inputs, [1], domain="", outputs=2, attributes={"axis": -1})
    with ort_py.InferenceSession(model, providers=["CPUExecutionProvider"]) as session:
        actual = session.run(None, feeds)
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    assert_close(actual, list(expected))


@pytest.mark.parametrize(
    ("attributes", "scale", "message"),
    [
        ({"stash_type": 10}, (4,), r"stash_type is 10[\s\S]*Use 1 \(float\)"),
        ({"axis": 3}, (4,), "Axis 3 is out of range"),
        ({}, (3,), r"The scale has shape \[3\]"),
    ],
)
def test_simplified_layer_normalization_refuses(attributes: dict[str, int], scale: Any, message: str) -> None:
    """A narrow statistic, an axis that is not there, a scale of another size."""
    with pytest.raises(InvalidArgument, match=message):
        run(
            "SimplifiedLayerNormalization",
            [np.ones((2, 4), np.float32), np.ones(scale, np.float32)],
            opset=17,
            **attributes,
        )


_WIDTH = 16
_MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 1, 1, 0, 2]], np.int32)


def _ids(high: int, *shape: int) -> Any:
    return np.random.default_rng(high).integers(0, high, shape).astype(np.int32)


def _embedding(segments: bool, mask: Any = None, positions: Any = None, dtype: Any = np.float32) -> list[Any]:
    tables = [sample((rows, _WIDTH), dtype, rows) for rows in (20, 9, 2)]
    parameters = [sample((_WIDTH,), dtype, 1), sample((_WIDTH,), dtype, 2)]
    found = [_ids(20, 3, 5), _ids(2, 3, 5) if segments else None, *tables[:2], tables[2] if segments else None]
    return [*found, *parameters, mask, positions]


@pytest.mark.parametrize("positions", [None, _ids(9, 1, 5), _ids(9, 3, 5)], ids=["counted", "shared", "own"])
@pytest.mark.parametrize("mask", [None, _MASK], ids=["unmasked", "masked"])
@pytest.mark.parametrize("segments", [False, True], ids=["two", "three"])
def test_embed_layer_normalization(segments: bool, mask: Any, positions: Any) -> None:
    """All outputs; a mask's ones are counted, without a mask there are 0."""
    inputs = _embedding(segments, mask, positions)
    agree_with_runtime("EmbedLayerNormalization", inputs, opset=1, outputs=3, domain=DOMAIN, epsilon=_EPSILON)


def test_embed_layer_normalization_in_float16() -> None:
    """Embeddings are added in float32 and rounded once."""
    inputs = _embedding(True, dtype=np.float16)
    y, _, total = contrib("EmbedLayerNormalization", inputs, outputs=3, epsilon=_EPSILON)
    ids, segments, words, places, parts, gamma, beta = inputs[:7]
    exact = words[ids].astype(np.float64) + places[np.arange(5)] + parts[segments]
    rounded_once(total, exact, np.float16)
    rounded_once(y, _exact(exact, gamma, beta, simplified=False)[0], np.float16)


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (0, np.zeros(5, np.int32), "input_ids must have the shape"),
        (0, np.full((3, 5), 20, np.int32), r"Index 20 is out of range for axis of size 20"),
        (
            0,
            np.full((3, 5), -1, np.int32),
            r"Index -1 is out of range for an embedding of 20 rows[\s\S]*not be negative",
        ),
        (1, np.full((3, 4), 0, np.int32), "segment_ids does not fit input_ids"),
        (1, None, "There are segment_ids without a segment_embedding"),
        (3, np.zeros((9, 3), np.float32), "The position embedding must be a matrix as wide"),
        (7, np.zeros((1, 5), np.int32), "mask does not fit input_ids"),
        (8, np.zeros((2, 5), np.int32), "position_ids does not fit input_ids"),
        (5, np.zeros(3, np.float32), re.escape("The scale has shape [3]")),
    ],
)
def test_embed_layer_normalization_refuses(index: int, value: Any, message: str) -> None:
    """Shapes and indices that do not fit."""
    inputs = _embedding(True)
    inputs[index] = value
    with pytest.raises(InvalidArgument, match=message):
        contrib("EmbedLayerNormalization", inputs)
