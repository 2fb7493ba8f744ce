"""Products of one row in models, whoever computes them: sums, functions, threads, weights that many rows read too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from ort_py_onednn.execution.instance import DnnlInstance
from providers.onednn.tests.checking import watched
from providers.onednn.tests.models import PROVIDER, model, node, run_here

Array = np.ndarray[Any, Any]
DEPTH, WIDE = 264, 520


def _constants() -> dict[str, Array]:
    rng = np.random.default_rng(11)
    shapes = {"w": (DEPTH, WIDE), "b": (WIDE,), "v": (WIDE, DEPTH), "c": (DEPTH,)}
    return {name: (rng.standard_normal(shape) / 16).astype(np.float32) for name, shape in shapes.items()}


def _exact(x: Array, constants: dict[str, Array], function: str) -> Array:
    wide = {name: array.astype(np.float64) for name, array in constants.items()}
    inner = x.astype(np.float64) @ wide["w"] + wide["b"]
    inner = np.tanh(inner) if function == "Tanh" else np.maximum(inner, 0)
    return np.asarray(inner @ wide["v"] + wide["c"] + x, np.float32)


@pytest.mark.parametrize("function", ["Relu", "Tanh"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 1), (1,), (1, 1, 1)], ids=str)
def test_a_layer_of_one_row_and_of_many(shape: tuple[int, ...], threads: int, function: str) -> None:
    """A product with a bias and a function, and one with a bias and a residual, of one row, of seven, and of one again;
    the weights are held once."""
    nodes = [
        node("MatMul", "x w", "m"),
        node("Add", "m b", "a"),
        node(function, "a", "r"),
        node("MatMul", "r v", "n"),
        node("Add", "n c", "d"),
        node("Add", "d x", "y"),
    ]
    constants = _constants()
    rng = np.random.default_rng(12)
    one = rng.standard_normal((*shape, DEPTH)).astype(np.float32)
    many = rng.standard_normal((*shape[:-1], 7, DEPTH)).astype(np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    data = model(nodes, {"x": one}, constants, dynamic=True)
    with watched(), ort.InferenceSession(data, options, providers=[PROVIDER]) as session:
        for x in (one, many, one):
            assert_close(session.run(None, {"x": x})[0], _exact(x, constants, function))
        held = session.memory_report().packed
    assert held <= 1.2 * sum(array.nbytes for array in constants.values())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_equal_columns_have_equal_results(threads: int, bias: bool) -> None:
    """Sums have one order wherever a column is: a Softmax behind large equal numbers would show any other."""
    rng = np.random.default_rng(13)
    constants = {"w": np.repeat(rng.standard_normal((DEPTH, 1)).astype(np.float32) * 1000, WIDE, axis=1)}
    constants["b"] = np.full(WIDE, 0.7, np.float32)
    nodes = [node("MatMul", "x w", "m"), node("Add", "m b", "y")] if bias else [node("MatMul", "x w", "y")]
    x = rng.standard_normal((1, DEPTH)).astype(np.float32)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    with ort.InferenceSession(model(nodes, {"x": x}, constants), options, providers=[PROVIDER]) as session:
        y = session.run(None, {"x": x})[0]
    np.testing.assert_array_equal(y, np.full((1, WIDE), y[0, 0]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number(value: float) -> None:
    """One number makes all of the row's products NaN or infinite, as NumPy's."""
    constants = {"w": np.abs(_constants()["w"])}
    x = np.ones((1, DEPTH), np.float32)
    x[0, 7] = value
    with ort.InferenceSession(
        model([node("MatMul", "x w", "y")], {"x": x}, constants), providers=[PROVIDER]
    ) as session:
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.full((1, WIDE), value))


@pytest.mark.parametrize("shape", [(1, 1), (1,)], ids=str)
def test_a_residual_of_one_row_is_added_by_its_product(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum with more axes than the flattened product is not a vector of columns, and gets no step of its own."""
    steps: list[int] = []
    original = DnnlInstance.bind

    def remember(self: DnnlInstance, *arguments: Any, **options: Any) -> Any:
        found = original(self, *arguments, **options)
        steps[:] = [len(form.plan.steps) for form in self._forms.values()]
        return found

    monkeypatch.setattr(DnnlInstance, "bind", remember)
    rng = np.random.default_rng(14)
    feeds = {name: rng.standard_normal((*shape, 32)).astype(np.float32) for name in "xz"}
    constants = {"w": rng.standard_normal((32, 32)).astype(np.float32)}
    data = model([node("MatMul", "x w", "m"), node("Add", "m z", "y")], feeds, constants)
    exact = feeds["x"].astype(np.float64) @ constants["w"] + feeds["z"]
    assert_close(run_here(data, feeds)[0], np.asarray(exact, np.float32))
    assert steps == [1]
