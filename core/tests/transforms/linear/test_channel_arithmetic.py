"""Mul, Add and their like behind operators with constant weights, and all that BatchNormalization folds into."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from core.tests.transforms.support import notes, operators
from ort_py.contracts import Transform
from ort_py.transforms.linear.batch_normalization import FoldBatchNormalization
from ort_py.transforms.linear.channel_arithmetic import channel_rules
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model
from ort_py_kit.tolerances import assert_close

RANDOM = np.random.default_rng(11)
FEEDS = {
    "x": RANDOM.standard_normal((2, 4, 5, 5)).astype(np.float32),
    "m": RANDOM.standard_normal((3, 4)).astype(np.float32),
}
WEIGHTS = {
    "w": RANDOM.standard_normal((6, 2, 3, 3)).astype(np.float32),
    "wt": RANDOM.standard_normal((4, 6, 3, 3)).astype(np.float32),
    "b": RANDOM.standard_normal(6).astype(np.float32),
    "c": RANDOM.uniform(0.5, 2, (1, 6, 1, 1)).astype(np.float32),
    "c3": RANDOM.uniform(0.5, 2, (6, 1, 1)).astype(np.float32),
    "one": np.array(1.5, np.float32),
    "large": np.array(2.0**20, np.float32),
    "wide": RANDOM.uniform(0.5, 2, (6, 5, 5)).astype(np.float32),
    "high": RANDOM.uniform(0.5, 2, (1, 1, 6, 1, 1)).astype(np.float32),
    "zero": np.zeros((6, 1, 1), np.float32),
    "g": RANDOM.standard_normal((4, 6)).astype(np.float32),
    "gt": RANDOM.standard_normal((6, 4)).astype(np.float32),
    "square": RANDOM.standard_normal((4, 3)).astype(np.float32),
    "rows": RANDOM.standard_normal((3, 1)).astype(np.float32),
    "v": RANDOM.uniform(0.1, 2, 6).astype(np.float32),
    "s4": RANDOM.uniform(0.1, 2, 4).astype(np.float32),
}
WEIGHTS["cb"] = WEIGHTS["b"].reshape(6, 1, 1)
CONV = "Conv<group = 2, pads = [1, 1, 1, 1]>"


def fold(body: str, outputs: str, *rules: Transform) -> tuple[dict[str, int], OptimisationReport]:
    """Optimise a body over the weights above, compare the outputs, and give the operators left."""
    inputs = "float[2, 4, 5, 5] x, float[3, 4] m"
    proto = model_from_text(f"g ({inputs}) => ({outputs}) {{ {body} }}")
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in WEIGHTS.items())
    expected = reference_run(proto, FEEDS)
    model = typed_model(proto)
    transforms = rules or (*channel_rules(), FoldBatchNormalization())
    report = run_transforms(model, transforms, 99, ReferenceContext(), check=True)
    for left, right in zip(reference_run(model, FEEDS), expected, strict=True):
        assert_close(left, right)
    return dict(operators(model)), report


@pytest.mark.parametrize("constant", ["c", "c3", "one"])
@pytest.mark.parametrize(
    "behind",
    ["Mul(a, {0})", "Mul({0}, a)", "Div(a, {0})", "Add(a, {0})", "Add({0}, a)", "Sub(a, {0})", "Sub({0}, a)", "Neg(a)"],
)
@pytest.mark.parametrize("inputs", ["x, w", "x, w, b"])
def test_arithmetic_behind_a_convolution(inputs: str, behind: str, constant: str) -> None:
    """A number, or one for each channel, in any order of operands."""
    found, _ = fold(f"a = {CONV}({inputs}) y = {behind.format(constant)}", "float[2, 6, 5, 5] y")
    assert found == {"Conv": 1}


@pytest.mark.parametrize("behind", ["Sub(a, cb)", "Add(a, large)", "Sub(large, a)"])
def test_summands_that_a_bias_does_not_take(behind: str) -> None:
    """A sum is rounded after each summand: a large one rounds to integers, and one may undo the other."""
    found, report = fold(f"a = {CONV}(x, w, b) y = {behind}", "float[2, 6, 5, 5] y")
    assert found == {"Conv": 1, behind[:3]: 1}
    assert "rounded after each" in notes(report)


@pytest.mark.parametrize("behind", ["Mul(a, c)", "Sub(c, a)", "BatchNormalization(a, v, b, b, v)"])
@pytest.mark.parametrize("inputs", ["x, wt", "x, wt, b"])
def test_arithmetic_behind_a_transposed_convolution(inputs: str, behind: str) -> None:
    """Its channels are in the second dimension of the weights."""
    found, _ = fold(f"a = ConvTranspose({inputs}) y = {behind}", "float[2, 6, 7, 7] y")
    assert found == {"ConvTranspose": 1}


def test_arithmetic_behind_a_normalisation() -> None:
    """Its scale takes a factor, its bias no other summand; two normalisations are one."""
    found, _ = fold(
        "a = Relu(x) n = BatchNormalization(a, s4, s4, s4, s4) k = BatchNormalization(n, s4, s4, s4, s4) "
        "d = Mul(k, one) y = Add(d, one)",
        "float[2, 4, 5, 5] y",
    )
    assert found == {"Relu": 1, "BatchNormalization": 1, "Add": 1}


@pytest.mark.parametrize("product", ["Gemm<alpha = 1.5, beta = 2.0>(m, g, b)", "Gemm<transB = 1>(m, gt)"])
@pytest.mark.parametrize("behind", ["Mul(a, v)", "Sub(v, a)", "BatchNormalization(a, v, b, b, v)"])
def test_arithmetic_behind_a_gemm(product: str, behind: str) -> None:
    """Columns are channels; what is added is divided by beta before."""
    found, _ = fold(f"a = {product} y = {behind}", "float[3, 6] y")
    assert found == {"Gemm": 1}


def test_a_matrix_product_takes_factors_only() -> None:
    """MatMul has nothing to add to."""
    found, _ = fold("a = MatMul(m, g) s = Mul(a, v) y = Add(s, v)", "float[3, 6] y")
    assert found == {"MatMul": 1, "Add": 1}


@pytest.mark.parametrize(
    ("body", "shape", "reason"),
    [
        (f"a = {CONV}(x, w) y = Mul(a, wide)", "[2, 6, 5, 5]", "along other axes"),
        (f"a = {CONV}(x, w) y = Mul(a, high)", "[1, 2, 6, 5, 5]", "another shape"),
        (f"a = {CONV}(x, w) y = Div(a, zero)", "[2, 6, 5, 5]", "not be finite"),
        (f"a = {CONV}(x, w) r = Mul(a, c) y = Add(r, a)", "[2, 6, 5, 5]", "read elsewhere too"),
        (f"a = {CONV}(x, w) r = Mul(a, c) q = {CONV}(x, w) y = Add(r, q)", "[2, 6, 5, 5]", "shared"),
        (f"k = Abs(w) a = {CONV}(x, k) y = Mul(a, c)", "[2, 6, 5, 5]", "a weight is not constant"),
        (f"k = Abs(b) a = {CONV}(x, w, k) y = Mul(a, c)", "[2, 6, 5, 5]", "the bias of the Conv is not constant"),
        ("a = Gemm<alpha = 0.5>(m, g, b) y = Mul(a, v)", "[3, 6]", "may let it overflow"),
        ("a = Gemm<alpha = 0.0>(m, g) y = Mul(a, one)", "[3, 6]", "may let it overflow"),
        ("a = Gemm(m, g, rows) y = Mul(a, v)", "[3, 6]", "its bias differs from row to row"),
        ("a = Gemm(m, square, rows) y = Neg(a)", "[3, 3]", "its bias differs from row to row"),
        ("a = Gemm<beta = 0.0>(m, g, b) y = Add(a, v)", "[3, 6]", "its bias does not count"),
        ("a = Gemm(m, g, b) y = Mul(a, rows)", "[3, 6]", "along other axes"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")  # one case divides by nothing
def test_what_must_stay(body: str, shape: str, reason: str) -> None:
    """Each with the reason in the report."""
    before = body.count("=")
    found, report = fold(body, f"float{shape} y", *channel_rules())
    assert reason in notes(report)
    assert sum(found.values()) >= min(2, before)


def test_one_divided_by_a_convolution_stays() -> None:
    found, _ = fold(f"a = {CONV}(x, w) y = Div(c, a)", "float[2, 6, 5, 5] y")
    assert found == {"Conv": 1, "Div": 1}


def test_half_precision_stays() -> None:
    """Weights of float16 would be rounded twice."""
    model = typed_model(
        """g (float16[1, 1, 2, 2] x) => (float16[1, 1, 2, 2] y) <float16[1, 1, 1, 1] w = {2}, float16 c = {3}> {
            a = Conv(x, w) y = Mul(a, c)
        }"""
    )
    report = run_transforms(model, channel_rules(), 99, ReferenceContext(), check=True)
    assert operators(model) == {"Conv": 1, "Mul": 1}
    assert "float16" in notes(report)


@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_factors_that_may_overflow_stay(factor: float) -> None:
    """The intermediate value may leave the range of float32 although the product does not."""
    proto = model_from_text(
        "g (float[2, 4, 5, 5] x) => (float[2, 6, 5, 5] y) "
        f"<float k = {{{factor:f}}}> {{ a = {CONV}(x, w) y = Mul(a, k) }}"
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHTS["w"], "w"))
    model = typed_model(proto)
    report = run_transforms(model, channel_rules(), 99, ReferenceContext(), check=True)
    assert dict(operators(model)) == {"Conv": 1, "Mul": 1}
    assert "overflow or underflow" in notes(report)


@pytest.mark.parametrize("behind", ["Add(a, c)", "Sub(a, one)"])
def test_summands_leave_the_weights_alone(behind: str) -> None:
    """The bias takes them; weights in a file stay there."""
    proto = model_from_text(f"g (float[2, 4, 5, 5] x) => (float[2, 6, 5, 5] y) {{ a = {CONV}(x, w) y = {behind} }}")
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(WEIGHTS[name], name) for name in ("w", "c", "one"))
    model = typed_model(proto)
    weight = model.graph.initializers["w"].weight
    run_transforms(model, channel_rules(), 99, ReferenceContext(), check=True)
    (node,) = model.graph.nodes
    assert node.inputs[1] is not None
    assert node.inputs[1].weight is weight
