"""Products of numbers with weights of 8 bits: the weights stay bytes, results are as exact as those of float32."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import onnx.reference
import pytest

from ort_py_onednn.binding.features import has_exact_integers
from providers.onednn.tests.models import model, node, open_session, run_here

Array: TypeAlias = np.ndarray[Any, Any]

ROWS, DEPTH, COLUMNS = (2, 7), 96, 80


def _constants(kind: str = "int8", along: str = "columns", turned: bool = False, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    limits = np.iinfo(kind)
    held = rng.integers(limits.min, limits.max, (DEPTH, COLUMNS), endpoint=True).astype(kind)
    scales = rng.uniform(0.001, 0.01, COLUMNS if along == "columns" else ()).astype(np.float32)
    constants = {"q": np.ascontiguousarray(held.T) if turned else held, "s": scales}
    if kind == "uint8":
        constants["z"] = np.full(scales.shape, 128, np.uint8)
    return constants


def _source(shape: tuple[int, ...] = (*ROWS, DEPTH)) -> Array:
    rng = np.random.default_rng(1)
    return (rng.standard_normal(shape) * np.exp(2 * rng.standard_normal(shape[-1]))).astype(np.float32)


def _real(constants: dict[str, Array]) -> Array:
    zero = constants["z"].astype(np.float64) if "z" in constants else 0.0
    real: Array = (constants["q"].astype(np.float64) - zero) * constants["s"].astype(np.float64)
    return real


def _peer(data: bytes, feeds: dict[str, Array]) -> list[Any]:
    """Outputs of onnxruntime as the nodes say; optimised, it rounds what meets weights of 8 bits to 8 bits."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds))


def _product_kind(otherwise: str) -> str:
    """Kind of the product: of digits, or of float32 on a processor without exact products of integers."""
    return "DigitMatMul" if has_exact_integers() else otherwise


def _kinds(data: bytes) -> list[str]:
    """Kinds of the operations of a session's only region."""
    import ort_py_onednn.execution.region as regions

    seen: list[str] = []
    plain = regions.DnnlRegion.__init__

    def noted(self: Any, *arguments: Any, **named: Any) -> None:
        plain(self, *arguments, **named)
        seen.extend(operation.kind for operation in self.operations)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regions.DnnlRegion, "__init__", noted)
        open_session(data).close()
    return seen


@pytest.mark.parametrize("along", ["columns", "all"])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("rows", [1, 14, 200])
def test_as_exact_as_float32(kind: str, along: str, rows: int) -> None:
    """However much the numbers of a row differ in size; one row and many."""
    constants, x = _constants(kind, along), _source((rows, DEPTH))
    nodes = [
        node("DequantizeLinear", f"q s{' z' if 'z' in constants else ''}", "w", axis=1),
        node("MatMul", "x w", "y"),
    ]
    data = model(nodes, {"x": x}, constants)
    (actual,) = run_here(data, {"x": x})
    exact = x.astype(np.float64) @ _real(constants)
    single = x @ _real(constants).astype(np.float32)
    # Bits are counted from the largest of a row, as those of its float32 sums are.
    size = np.abs(x).max(axis=1, keepdims=True) * np.abs(_real(constants)).sum(axis=0)
    allowed = np.abs(single - exact).max() * 2 + size * 2.0**-23
    assert (np.abs(actual - exact) <= allowed).all()
    assert _kinds(data) == [_product_kind("MatMul")]


@pytest.mark.parametrize("factor", [1e-32, 1e-35])
def test_rows_of_small_numbers_are_as_exact(factor: float) -> None:
    """The largest number of a row is far from where the digits of float32 end."""
    constants, x = _constants(), _source((3, DEPTH)) * np.float32(factor)
    data = model([node("DequantizeLinear", "q s", "w", axis=1), node("MatMul", "x w", "y")], {"x": x}, constants)
    (actual,) = run_here(data, {"x": x})
    exact = x.astype(np.float64) @ _real(constants)
    size = np.abs(x).max(axis=1, keepdims=True) * np.abs(_real(constants)).sum(axis=0)
    assert (np.abs(actual - exact) <= size * 2.0**-22).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_follows_is_drawn_in(threads: int) -> None:
    """Bias, function and residual, of a batch, against both references."""
    constants, x = _constants(), _source()
    rng = np.random.default_rng(2)
    constants["b"] = rng.standard_normal(COLUMNS).astype(np.float32)
    feeds = {"x": x, "r": rng.standard_normal((*ROWS, COLUMNS)).astype(np.float32)}
    nodes = [
        node("DequantizeLinear", "q s", "w", axis=1),
        node("MatMul", "x w", "m"),
        node("Add", "m b", "n"),
        node("Gelu", "n", "g"),
        node("Add", "g r", "y"),
    ]
    data = model(nodes, feeds, constants)
    (actual,) = run_here(data, feeds, threads)
    for expected in (
        list(onnx.reference.ReferenceEvaluator(onnx.load_from_string(data)).run(None, feeds)),
        _peer(data, feeds),
    ):
        np.testing.assert_allclose(actual, expected[0], rtol=1e-5, atol=1e-5 * np.abs(expected[0]).max())
    assert _kinds(data) == [_product_kind("MatMul")]


def test_several_products_of_one_input() -> None:
    """The digits of an input are found once, also where its products are of several kinds."""
    first, second = _constants(seed=3), _constants(seed=4)
    constants = {"q": first["q"], "s": first["s"], "p": second["q"], "t": second["s"]}
    x = _source()
    nodes = [
        node("DequantizeLinear", "q s", "w", axis=1),
        node("DequantizeLinear", "p t", "v", axis=1),
        node("Relu", "x", "c"),
        node("MatMul", "c w", "a"),
        node("MatMul", "c v", "b"),
        node("Mul", "a b", "y"),
    ]
    data = model(nodes, {"x": x}, constants)
    (actual,) = run_here(data, {"x": x})
    (expected,) = _peer(data, {"x": x})
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_gemm_with_turned_weights() -> None:
    """Scales of rows, where rows of weights are columns of the result; with a bias."""
    constants, x = _constants(turned=True), _source((5, DEPTH))
    constants["b"] = np.random.default_rng(5).standard_normal(COLUMNS).astype(np.float32)
    nodes = [node("DequantizeLinear", "q s", "w", axis=0), node("Gemm", "x w b", "y", transB=1)]
    data = model(nodes, {"x": x}, constants)
    (actual,) = run_here(data, {"x": x})
    (expected,) = _peer(data, {"x": x})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert _kinds(data) == [_product_kind("Gemm")]


def test_rows_of_nothing() -> None:
    """A row of zeros gives zeros and a row of NaN gives NaN, without an effect on their neighbours."""
    constants, x = _constants(), _source((4, DEPTH))
    x[1], x[2, 5] = 0, np.nan
    nodes = [node("DequantizeLinear", "q s", "w", axis=1), node("MatMul", "x w", "y")]
    data = model(nodes, {"x": x}, constants)
    with open_session(data) as session:
        (actual,) = session.run(None, {"x": x})
    assert not actual[1].any()
    assert not np.isfinite(actual[2]).any()
    (expected,) = _peer(data, {"x": x})
    np.testing.assert_allclose(actual[[0, 3]], expected[[0, 3]], rtol=1e-5, atol=1e-5 * np.abs(expected[0]).max())


def test_scales_of_the_depth_make_numbers() -> None:
    """A scale for each row of weights is not a factor of the result, so the product is one of float32."""
    constants, x = _constants(), _source()
    constants["s"] = np.random.default_rng(6).uniform(0.001, 0.01, DEPTH).astype(np.float32)
    nodes = [node("DequantizeLinear", "q s", "w", axis=0), node("MatMul", "x w", "y")]
    data = model(nodes, {"x": x}, constants)
    (actual,) = run_here(data, {"x": x})
    (expected,) = _peer(data, {"x": x})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert _kinds(data) == ["MatMul"]


def test_fewer_digits_for_fewer_bits() -> None:
    """With a precision of bfloat16 two digits, which are more exact than that type all the same."""
    constants, x = _constants(), np.random.default_rng(7).standard_normal((3, DEPTH)).astype(np.float32)
    nodes = [node("DequantizeLinear", "q s", "w", axis=1), node("MatMul", "x w", "y")]
    (actual,) = run_here(model(nodes, {"x": x}, constants), {"x": x}, precision="bfloat16")
    exact = x.astype(np.float64) @ _real(constants)
    error = np.linalg.norm(actual - exact) / np.linalg.norm(exact)
    assert error < 2.0**-12


def test_widened_weights_are_seen() -> None:
    """Cast and Mul in place of DequantizeLinear come to the same: bytes."""
    constants, x = _constants(), _source()
    constants["s"] = constants["s"].reshape(1, -1)
    nodes = [node("Cast", "q", "f", to=1), node("Mul", "f s", "w"), node("MatMul", "x w", "y")]
    data = model(nodes, {"x": x}, constants)
    (actual,) = run_here(data, {"x": x})
    (expected,) = _peer(data, {"x": x})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert _kinds(data) == [_product_kind("MatMul")]


def test_shapes_that_change() -> None:
    """One packed form of the weights serves any number of rows."""
    constants = _constants()
    nodes = [node("DequantizeLinear", "q s", "w", axis=1), node("MatMul", "x w", "y")]
    data = model(nodes, {"x": _source((3, DEPTH))}, constants, dynamic=True)
    with open_session(data) as session:
        for rows in (3, 1, 40, 3):
            x = _source((rows, DEPTH))
            (actual,) = session.run(None, {"x": x})
            (expected,) = _peer(data, {"x": x})
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
