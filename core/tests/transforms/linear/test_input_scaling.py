"""Factors in front of an operator with constant weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from core.tests.transforms.support import notes, operators
from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.linear.input_scaling import FoldInputScale
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model
from ort_py_kit.tolerances import assert_close

RANDOM = np.random.default_rng(12)
FEEDS = {
    "x": RANDOM.standard_normal((2, 4, 5, 5)).astype(np.float32),
    "m": RANDOM.standard_normal((3, 4)).astype(np.float32),
}
WEIGHTS = {
    "w": RANDOM.standard_normal((6, 2, 3, 3)).astype(np.float32),
    "c": RANDOM.uniform(0.5, 2, (1, 4, 1, 1)).astype(np.float32),
    "r": RANDOM.uniform(0.5, 2, (5,)).astype(np.float32),
    "one": np.array(1.5, np.float32),
    "g": RANDOM.standard_normal((4, 6)).astype(np.float32),
    "gt": RANDOM.standard_normal((6, 4)).astype(np.float32),
    "f": RANDOM.standard_normal((5, 3)).astype(np.float32),
    "v": RANDOM.uniform(0.1, 2, 4).astype(np.float32),
    "rows": RANDOM.uniform(0.1, 2, (3, 1)).astype(np.float32),
    "zero": np.array(0, np.float32),
}
CONV = "Conv<group = 2, pads = [1, 1, 1, 1]>"


def fold(body: str, outputs: str) -> tuple[dict[str, int], OptimisationReport]:
    """Optimise a body over the weights above, compare the outputs, and give the operators left."""
    proto = model_from_text(f"g (float[2, 4, 5, 5] x, float[3, 4] m) => ({outputs}) {{ {body} }}")
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in WEIGHTS.items())
    expected = reference_run(proto, FEEDS)
    model = typed_model(proto)
    report = run_transforms(model, [FoldInputScale()], 99, ReferenceContext(), check=True)
    for left, right in zip(reference_run(model, FEEDS), expected, strict=True):
        assert_close(left, right)
    return dict(operators(model)), report


@pytest.mark.parametrize("scale", ["Mul(x, c)", "Mul(one, x)", "Div(x, c)"])
def test_in_front_of_a_convolution(scale: str) -> None:
    """By a number or by channel, in groups, with padding: nothing times a number is nothing."""
    found, _ = fold(f"a = {scale} y = {CONV}(a, w)", "float[2, 6, 5, 5] y")
    assert found == {"Conv": 1}


@pytest.mark.parametrize("product", ["MatMul(a, g)", "Gemm(a, g)", "Gemm<transB = 1>(a, gt)"])
@pytest.mark.parametrize("scale", ["Mul(m, v)", "Div(m, one)"])
def test_in_front_of_a_product(product: str, scale: str) -> None:
    """Along what is summed over, or by a number."""
    found, _ = fold(f"a = {scale} y = {product}", "float[3, 6] y")
    assert sum(found.values()) == 1


def test_the_second_factor_of_a_product() -> None:
    found, _ = fold("a = Mul(m, one) y = MatMul(f, a)", "float[5, 4] y")
    assert found == {"MatMul": 1}


@pytest.mark.parametrize(
    ("body", "shape", "reason"),
    [
        (f"a = Mul(x, r) y = {CONV}(a, w)", "[2, 6, 5, 5]", "along other axes"),
        ("a = Mul(m, rows) y = MatMul(a, g)", "[3, 6]", "along other axes"),
        ("a = Mul(m, v) y = MatMul(f, a)", "[5, 4]", "not summed over"),
        ("a = Mul(m, v) b = MatMul(a, g) k = ReduceSum(a) y = Add(b, k)", "[3, 6]", "read elsewhere"),
        ("a = Mul(m, v) b = MatMul(a, g) k = MatMul(m, g) y = Add(b, k)", "[3, 6]", "shared"),
        ("a = Div(m, zero) y = MatMul(a, g)", "[3, 6]", "not be finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")  # one case divides by nothing
def test_what_must_stay(body: str, shape: str, reason: str) -> None:
    """Each with the reason in the report."""
    found, report = fold(body, f"float{shape} y")
    assert "Mul" in found or "Div" in found
    assert reason in notes(report)


def test_the_half_of_a_gelu_is_left_to_it() -> None:
    """Among all transforms: Gelu, spelt out in front of a product, becomes one node before its half is folded away."""
    body = """
        root = Constant<value = float {1.4142135}>() one_ = Constant<value = float {1.0}>()
        half = Constant<value = float {0.5}>()
        d = Div(m, root) e = Erf(d) p = Add(e, one_) t = Mul(m, p) h = Mul(t, half) y = MatMul(h, g)
    """
    proto = model_from_text(f"g (float[3, 4] m) => (float[3, 6] y) {{ {body} }}")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHTS["g"], "g"))
    model = typed_model(proto)
    run_transforms(model, builtin_transforms(), 99, ReferenceContext(), check=True)
    assert dict(operators(model)) == {"Gelu": 1, "MatMul": 1}
