"""Both losses against a loop over samples and onnxruntime; weights, ignored labels, reductions and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument
from ort_py_kit.tolerances import assert_close

from .oracle import BF16, FLOATS, i64, run, sample
from .runtime_oracle import agree_with_runtime

NLL, SCE = "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"


def log_softmax(scores: Any) -> Any:
    """Over axis 1, in float64."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def sample_by_sample(x: Any, target: Any, weight: Any, ignore_index: int | None, reduction: str) -> Any:
    """The specification's formula, one sample after the other, in float64."""
    loss, applied = np.zeros(target.shape), np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        label = int(target[place])
        if label != ignore_index:
            applied[place] = 1 if weight is None else weight[label]
            loss[place] = -x[(place[0], label, *place[1:])] * applied[place]
    if reduction == "none":
        return loss
    return np.asarray(loss.sum() / (applied.sum() if reduction == "mean" else 1))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 4),
    classes=st.integers(2, 5),
    rest=st.lists(st.integers(1, 3), max_size=3),
    weighted=st.booleans(),
    ignore=st.sampled_from([None, -1, 1, 99]),
    reduction=st.sampled_from(["mean", "sum", "none"]),
    data=st.data(),
)
def test_the_formula(
    batch: int,
    classes: int,
    rest: list[int],
    weighted: bool,
    ignore: int | None,
    reduction: str,
    data: Any,
) -> None:
    """Both losses, any rank, weights or none, ignored labels inside and outside the range, every reduction."""
    scores = sample((batch, classes, *rest), np.float64)
    allowed = [*range(classes), *([] if ignore is None else [ignore])]
    count = batch * int(np.prod(rest, initial=1))
    labels = data.draw(st.lists(st.sampled_from(allowed), min_size=count, max_size=count))
    labels[0] = 0  # at least one counts
    target = np.array(labels).reshape((batch, *rest))
    weight = sample((classes,), np.float64, 1, 0.5, 2) if weighted else None
    attributes: dict[str, Any] = {"reduction": reduction}
    if ignore is not None:
        attributes["ignore_index"] = ignore
    probabilities = log_softmax(scores)
    expected = sample_by_sample(probabilities, target, weight, ignore, reduction)
    inputs = [target] if weight is None else [target, weight]
    assert_close(run(NLL, [probabilities, *inputs], **attributes)[0], expected)
    loss, log_prob = run(SCE, [scores, *inputs], outputs=2, **attributes)
    assert_close(loss, expected)
    assert_close(log_prob, probabilities)
    assert_close(run(SCE, [scores, *inputs], **attributes)[0], expected)


@pytest.mark.parametrize("index", [np.int32, np.int64], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_every_type(reduction: str, dtype: Any, index: Any) -> None:
    """Narrow floats are added up in float32 and rounded once: a thousand terms stay exact enough. Scalars are 0-d."""
    scores = sample((1000, 4), dtype)
    target, weight = (np.arange(1000) % 4).astype(index), sample((4,), dtype, 1, 0.5, 1.5)
    wide = scores.astype(np.float64)
    for op_type, values in ((NLL, wide), (SCE, log_softmax(wide))):
        (y,) = run(op_type, [scores, target, weight], reduction=reduction)
        assert isinstance(y, np.ndarray)
        assert_close(y, sample_by_sample(values, target, weight.astype(float), None, reduction).astype(dtype))


@pytest.mark.parametrize("opset", [12, 13])
@pytest.mark.parametrize("op_type", [NLL, SCE])
def test_onnxruntime_agrees(op_type: str, opset: int) -> None:
    """An independent implementation, at both versions."""
    x, target = sample((6, 5, 3), np.float32), np.random.default_rng(0).integers(0, 5, (6, 3))
    agree_with_runtime(op_type, [x, target, sample((5,), np.float32, 1, 0.5, 2)], opset=opset, ignore_index=2)
    agree_with_runtime(op_type, [x, target], opset=opset, reduction="none")


def test_large_batches_are_cut_into_blocks() -> None:
    """Blocks of samples give what all give at once."""
    scores, target = sample((3000, 50), np.float32), np.arange(3000) % 50
    loss, log_prob = run(SCE, [scores, target], outputs=2)
    expected = log_softmax(scores.astype(np.float64))
    assert_close(log_prob, expected.astype(np.float32))
    assert_close(loss, sample_by_sample(expected, target, None, None, "mean").astype(np.float32))


def test_large_scores_do_not_overflow() -> None:
    """The greatest score is taken off before the exponential."""
    (y,) = run(SCE, [np.array([[1000, 0], [-1000, 0]], np.float32), i64(0, 0)], reduction="none")
    assert y.tolist() == [0, 1000]


def test_an_ignored_sample_is_zero_whatever_it_holds() -> None:
    """Infinite and NaN scores of ignored samples do not reach the loss."""
    x = np.array([[np.inf, np.nan], [-1, -2]], np.float32)
    (y,) = run(NLL, [x, i64(-1, 1), np.array([1, 2], np.float32)], ignore_index=-1)
    assert y == 2


def test_a_mean_of_nothing() -> None:
    """If every sample is ignored, or there is none, the mean is 0/0, as onnxruntime has it; a sum is 0."""
    x = sample((2, 3), np.float32)
    agree_with_runtime(NLL, [x, i64(-1, -1)], opset=13, ignore_index=-1)
    for op_type in (NLL, SCE):
        assert np.isnan(run(op_type, [x[:0], i64()])[0])
        assert run(op_type, [x[:0], i64()], reduction="sum")[0] == 0
        assert run(op_type, [x[:0], i64()], reduction="none")[0].shape == (0,)


def test_log_probabilities_of_an_empty_batch() -> None:
    _, log_prob = run(SCE, [np.zeros((0, 3, 2), BF16), np.zeros((0, 2), np.int64)], outputs=2)
    assert (log_prob.shape, log_prob.dtype) == ((0, 3, 2), BF16)


@pytest.mark.parametrize("op_type", [NLL, SCE])
@pytest.mark.parametrize(
    ("inputs", "attributes", "text"),
    [
        ([np.zeros((2, 3), np.float32), i64(0, 3)], {}, "Label 3 is out of range for 3 classes"),
        ([np.zeros((2, 3), np.float32), i64(0, -1)], {}, "Label -1 is out of range for 3 classes"),
        ([np.zeros((2, 3), np.float32), i64(-1, 7)], {"ignore_index": -1}, "Label 7 is out of range"),
        ([np.zeros((2, 3), np.float32), i64(0)], {}, r"needs scores \[n\]\[class\]"),
        ([np.zeros(3, np.float32), i64(0)], {}, r"needs scores \[n\]\[class\]"),
        ([np.zeros((2, 3, 2), np.float32), i64(0, 1)], {}, r"needs scores \[n\]\[class\]"),
        ([np.zeros((2, 3), np.float32), i64(0, 1), np.ones(2, np.float32)], {}, r"Weights of shape \[2\] do not fit"),
        ([np.zeros((2, 3), np.float32), i64(0, 1)], {"reduction": "max"}, "reduction is 'max'"),
    ],
)
def test_wrong_inputs(op_type: str, inputs: list[Any], attributes: dict[str, Any], text: str) -> None:
    """Each is refused with what would be right."""
    with pytest.raises(InvalidArgument, match=text) as caught:
        run(op_type, inputs, **attributes)
    assert caught.value.fix
