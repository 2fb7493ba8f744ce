"""Conv and BatchNormalization as one Conv."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.linear.batch_normalization import FoldBatchNormalization
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model
from ort_py_kit.tolerances import assert_close

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((2, 4, 5, 5)).astype(np.float32)
WEIGHTS = {
    "w": RANDOM.standard_normal((6, 2, 3, 3)).astype(np.float32),
    "cb": RANDOM.standard_normal(6).astype(np.float32),
    "scale": RANDOM.standard_normal(6).astype(np.float32),
    "bias": RANDOM.standard_normal(6).astype(np.float32),
    "mean": RANDOM.standard_normal(6).astype(np.float32),
    "var": RANDOM.uniform(0.1, 2.0, 6).astype(np.float32),
}
CONV = "Conv<group = 2, pads = [1, 1, 1, 1]>"


def fold(body: str, outputs: str = "float[2, 6, 5, 5] y") -> tuple[dict[str, int], OptimisationReport]:
    """Optimise a body over the weights above, compare the outputs, and give the operators left."""
    proto = model_from_text(f"g (float[2, 4, 5, 5] x) => ({outputs}) {{ {body} }}")
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in WEIGHTS.items())
    expected = reference_run(proto, {"x": X})
    model = typed_model(proto)
    report = run_transforms(model, [FoldBatchNormalization()], 99, ReferenceContext(), check=True)
    for left, right in zip(reference_run(model, {"x": X}), expected, strict=True):
        assert_close(left, right)
    return dict(operators(model)), report


@pytest.mark.parametrize("inputs", ["x, w", "x, w, cb"])
def test_pair_becomes_one_convolution(inputs: str) -> None:
    """With and without a bias, with groups and an own epsilon, the result is the same."""
    found, _ = fold(f"a = {CONV}({inputs}) y = BatchNormalization<epsilon = 0.01>(a, scale, bias, mean, var)")
    assert found == {"Conv": 1}


def test_a_result_read_twice_keeps_the_pair() -> None:
    """Somebody else wants the result before normalisation."""
    found, report = fold(
        f"a = {CONV}(x, w) b = BatchNormalization(a, scale, bias, mean, var) y = Add(a, b)",
    )
    assert found["BatchNormalization"] == 1
    assert "read elsewhere too" in notes(report)


def test_shared_filters_keep_the_pair() -> None:
    """Folding would hold the filters twice."""
    found, report = fold(
        f"a = {CONV}(x, w) b = BatchNormalization(a, scale, bias, mean, var) c = {CONV}(x, w) y = Add(b, c)",
    )
    assert found["BatchNormalization"] == 1
    assert "the filters are shared" in notes(report)


def test_training_mode_keeps_the_pair() -> None:
    """In training mode the statistics come from the batch."""
    _, report = optimise(
        """g (float[1, 1, 2, 2] x) => (float[1, 1, 2, 2] y)
        <float[1, 1, 1, 1] w = {2}, float[1] s = {1}> {
            a = Conv(x, w) y, m, v = BatchNormalization<training_mode = 1>(a, s, s, s, s)
        }""",
        FoldBatchNormalization(),
    )
    assert "training mode" in notes(report)


def test_half_precision_keeps_the_pair() -> None:
    """Weights of float16 would be rounded twice."""
    model, report = optimise(
        """g (float16[1, 1, 2, 2] x) => (float16[1, 1, 2, 2] y)
        <float16[1, 1, 1, 1] w = {2}, float16[1] s = {1}> { a = Conv(x, w) y = BatchNormalization(a, s, s, s, s) }""",
        FoldBatchNormalization(),
    )
    assert operators(model)["BatchNormalization"] == 1
    assert "float16" in notes(report)


def test_weights_from_inputs_keep_the_pair() -> None:
    _, report = optimise(
        """g (float[1, 1, 2, 2] x, float[1] s) => (float[1, 1, 2, 2] y) <float[1, 1, 1, 1] w = {2}> {
            a = Conv(x, w) y = BatchNormalization(a, s, s, s, s)
        }""",
        FoldBatchNormalization(),
    )
    assert "a weight is not constant" in notes(report)


def test_numbers_that_would_not_be_finite_keep_the_pair() -> None:
    """A variance of -1 gives NaN weights; whether that is an error is for the run to show."""
    _, report = optimise(
        """g (float[1, 1, 2, 2] x) => (float[1, 1, 2, 2] y)
        <float[1, 1, 1, 1] w = {2}, float[1] s = {1}, float[1] v = {-1}> {
            a = Conv(x, w) y = BatchNormalization(a, s, s, s, v)
        }""",
        FoldBatchNormalization(),
    )
    assert "not be finite" in notes(report)
