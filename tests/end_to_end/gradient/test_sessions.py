"""Gradient nodes in sessions: ONNX's own cases, optimised or not, in all float types, and a model that learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.test.loader import DATA_DIR

import ort_py
from ort_py_kit.graphs import model_from_text
from tests.end_to_end.gradient.finite_differences import check_gradients, random_inputs, session_of

DOMAIN = "ai.onnx.preview.training"
CASES = ["test_gradient_of_add", "test_gradient_of_add_and_mul"]


def suite_case(name: str) -> tuple[onnx.ModelProto, dict[str, Any], list[Any]]:
    """A case of ONNX's suite: the model, its inputs and the outputs expected."""
    folder = Path(DATA_DIR) / "simple" / name
    found = onnx.load(folder / "model.onnx")

    def values(infos: Any, kind: str) -> dict[str, Any]:
        files = [folder / "test_data_set_0" / f"{kind}_{index}.pb" for index in range(len(infos))]
        arrays = [onnx.numpy_helper.to_array(onnx.load_tensor(file)) for file in files]
        return {info.name: array for info, array in zip(infos, arrays, strict=True)}

    return found, values(found.graph.input, "input"), list(values(found.graph.output, "output").values())


def model(graph: str, opset: int = 21) -> onnx.ModelProto:
    """A model of one graph in which ``Gradient`` is that of ONNX's preview domain."""
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "{DOMAIN}" : 1]>\n'
    return model_from_text(header + graph.replace("Gradient<", f"{DOMAIN}.Gradient<"))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("optimised", [True, False])
def test_cases_of_the_backend_suite(name: str, optimised: bool) -> None:
    """Both of ONNX's cases, whatever the optimisation level."""
    case, feeds, expected = suite_case(name)
    with session_of(case, optimised=optimised) as session:
        found = session.run(None, feeds)
    assert [array.dtype for array in found] == [array.dtype for array in expected]
    for actual, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("name", CASES)
def test_cases_with_inputs_of_other_seeds(name: str) -> None:
    """d(a + b) is 1 and 1; d(a (a + b)) is 2 a + b and a."""
    a, b = np.random.default_rng(3).standard_normal((2, 1)).astype(np.float32)
    with session_of(suite_case(name)[0]) as session:
        _, by_a, by_b = session.run(None, {"a": a[0], "b": b[0]})
    np.testing.assert_allclose([by_a, by_b], [1, 1] if name == CASES[0] else [2 * a[0] + b[0], a[0]], rtol=1e-6)


@pytest.mark.parametrize(("name", "dtype"), [("float16", np.float16), ("float", np.float32), ("double", np.float64)])
def test_types(name: str, dtype: Any) -> None:
    """The gradient has the type of the tensor: d tanh(x) = 1 - tanh(x)^2."""
    x = np.linspace(-1, 1, 5).astype(dtype)
    text = f'g ({name}[5] x) => ({name}[5] d) {{ y = Tanh(x) d = Gradient<xs = ["x"], y = "y">(x) }}'
    with session_of(model(text)) as session:
        (found,) = session.run(None, {"x": x})
    assert found.dtype == dtype
    expected = 1 - np.tanh(x.astype(np.float64)) ** 2
    np.testing.assert_allclose(
        found.astype(np.float64), expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps
    )


def test_the_load_report_tells() -> None:
    """Differentiating is a stage of its own; a model without Gradient has none."""
    text = 'g (float x) => (float d) { y = Mul(x, x) d = Gradient<xs = ["x"], y = "y">(x) }'
    with session_of(model(text)) as session:
        assert {stage.stage: stage.notes for stage in session.load_report.stages}["gradients"] == ("1 Gradient nodes",)
    with session_of(model("g (float x) => (float y) { y = Mul(x, x) }")) as session:
        assert "gradients" not in {stage.stage for stage in session.load_report.stages}


def test_the_written_model_has_plain_nodes(tmp_path: Path) -> None:
    """A differentiated model can be saved for any runtime, through `optimized_model_filepath`."""
    options = ort_py.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "plain.onnx")
    text = 'g (float[3] x) => (float[3] d) { y = Sin(x) d = Gradient<xs = ["x"], y = "y">(x) }'
    ort_py.InferenceSession(model(text), options, providers=["CPUExecutionProvider"]).close()
    written = onnx.load(tmp_path / "plain.onnx")
    assert "Gradient" not in {node.op_type for node in written.graph.node}
    x = np.array([0.0, 1.0, 2.0], np.float32)
    (found,) = onnx.reference.ReferenceEvaluator(written).run(None, {"x": x})
    np.testing.assert_allclose(np.asarray(found), np.cos(x), rtol=1e-6)


@pytest.mark.parametrize("body", ["y = Mul(a, b)", "y = Div(a, b)", "c = Less(a, b) y = Where(c, a, b)"])
def test_ranks_that_only_the_run_knows(body: str) -> None:
    """Broadcasting is undone by the shapes of the run."""
    check_gradients(body, random_inputs(1, 0.5, 2.0, a=(2, 3), b=(3,)), dims="ranks")


def test_empty_tensors() -> None:
    """Nothing has no gradient, and what was repeated no times has gradient zero."""
    text = """g (float[N, 3] x, float[3] w) => (float[N, 3] dx, float[3] dw) {
        y = Mul(x, w) dx, dw = Gradient<xs = ["x", "w"], y = "y">(x, w)
    }"""
    with session_of(model(text)) as session:
        by_x, by_w = session.run(None, {"x": np.zeros((0, 3), np.float32), "w": np.ones(3, np.float32)})
    assert by_x.shape == (0, 3)
    assert by_w.tolist() == [0.0, 0.0, 0.0]


def test_a_classifier_learns() -> None:
    """Gradient descent with the gradients of a small network tells points inside a circle from those outside."""
    text = """g (float[N, 2] x, int64[N] t, float[2, 16] a, float[16] b, float[16, 2] c) =>
              (float loss, float[2, 16] da, float[16] db, float[16, 2] dc) {
        h = MatMul(x, a) i = Add(h, b) r = Relu(i) l = MatMul(r, c) loss = SoftmaxCrossEntropyLoss(l, t)
        da, db, dc = Gradient<xs = ["a", "b", "c"], zs = ["x", "t"], y = "loss">(a, b, c, x, t)
    }"""
    random = np.random.default_rng(5)
    x = random.standard_normal((64, 2)).astype(np.float32)
    feeds = {"x": x, "t": (np.hypot(x[:, 0], x[:, 1]) > 1).astype(np.int64)}
    shapes = {"a": (2, 16), "b": (16,), "c": (16, 2)}
    weights = {name: random.standard_normal(shape).astype(np.float32) * 0.5 for name, shape in shapes.items()}
    with session_of(model(text, opset=12)) as session:
        losses = []
        for _ in range(400):
            loss, *slopes = session.run(None, feeds | weights)
            losses.append(float(loss))
            weights = {name: weights[name] - np.float32(0.5) * one for name, one in zip(shapes, slopes, strict=True)}
    assert losses[-1] < 0.15 * losses[0]
