"""Results known when the session is created."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.contracts import Array, NodeSpec
from ort_py.errors import InvalidArgument
from ort_py.graph.weights.weights import ArrayWeight
from ort_py.transforms.folding.constant_folding import ConstantFolding
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.graphs import ReferenceContext, model_from_text, typed_model

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_chains_fold_in_one_visit() -> None:
    """Results of constants are constants, and so are the results of these."""
    model, report = optimise(
        "g (float[2, 3] x) => (float[2, 3] y) <float w = {2}> { a = Neg(w) b = Exp(a) c = Add(a, b) y = Mul(x, c) }",
        ConstantFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Mul": 1}
    assert report.passes[0].changes == 3


def test_shape_of_known_sizes_folds() -> None:
    """Shape and Size need no constant input, only a known shape; of a part of it, that part."""
    model, _ = optimise(
        """g (float[N, 2, 3] x) => (float[A, B] y, int64 n) {
            m = Constant<value_ints = [-1]>()
            one = Constant<value_ints = [1]>()
            two = Constant<value_ints = [2]>()
            pair = Constant<value_ints = [2, 3]>()
            r = Relu(x) s = Shape<start = 1>(r) t = Slice(s, one, two) u = Concat<axis = 0>(m, t) y = Reshape(r, u)
            k = Reshape(r, pair) n = Size(k)
        }""",
        ConstantFolding(),
        feeds={"x": X.reshape(1, 2, 3)},
    )
    assert not {"Shape", "Slice", "Concat", "Size"} & set(operators(model))


def test_shape_of_unknown_sizes_stays() -> None:
    """A symbolic size is not known."""
    model, _ = optimise("g (float[N, 3] x) => (int64[2] y) { y = Shape(x) }", ConstantFolding(), feeds={"x": X})
    assert operators(model) == {"Shape": 1}


def test_a_folded_output_keeps_its_name() -> None:
    """An output that is a constant is a copy of one, and is not folded forever."""
    model, report = optimise(
        "g (float[2, 3] x) => (float y, float[2, 3] z) <float w = {2}> { y = Neg(w) z = Neg(x) }",
        ConstantFolding(),
        feeds={"x": X},
    )
    assert operators(model) == {"Identity": 1, "Neg": 1}
    assert report.settled


def test_overridable_initializers_are_no_constants() -> None:
    model, _ = optimise("g (float w) => (float y) <float w = {2}> { y = Neg(w) }", ConstantFolding())
    assert operators(model) == {"Neg": 1}


def test_random_operators_do_not_fold() -> None:
    model, _ = optimise(
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = RandomNormalLike(w) y = Add(a, x) }",
        ConstantFolding(),
    )
    assert operators(model)["RandomNormalLike"] == 1


def test_dequantised_weights_do_not_fold() -> None:
    """Providers compute in integers where they see the pattern."""
    text = """g (float[2] x) => (float[2] y) <int8[2] w = {1, 2}, float s = {0.5}> {
        a = DequantizeLinear(w, s) y = Add(a, x)
    }"""
    model, _ = optimise(text, ConstantFolding(), feeds={"x": X[0, :2]})
    assert operators(model)["DequantizeLinear"] == 1


def test_large_results_do_not_fold() -> None:
    """Sixteen bytes that say how to make 4 MB are kept as they are, and the report says why."""
    text = """g (float[1] x) => (float[1000, 1000] y) <int64[2] s = {1000, 1000}> {
        a = ConstantOfShape(s) y = Add(a, x)
    }"""
    model, report = optimise(text, ConstantFolding())
    assert operators(model)["ConstantOfShape"] == 1
    assert "4,000,000 bytes, more than the 1,048,576 bytes allowed" in notes(report)


def test_sizes_that_fold_into_view_are_respected() -> None:
    """Where the size is computed itself, it is known by the time it matters."""
    text = """g (float[1] x) => (float[A] y) <int64[1] s = {1000}> {
        t = Mul(s, s) u = Mul(t, s) a = ConstantOfShape(u) y = Add(a, x)
    }"""
    model, _ = optimise(text, ConstantFolding())
    assert operators(model) == {"ConstantOfShape": 1, "Add": 1}


class _Context(ReferenceContext):
    """Answers every question in one way."""

    def __init__(self, answer: Sequence[Array] | Exception | None) -> None:
        self._answer = answer

    def evaluate(self, node: NodeSpec, inputs: Sequence[Array | None]) -> Sequence[Array] | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _fold_with(answer: Sequence[Array] | Exception | None) -> OptimisationReport:
    model = typed_model("g (float x) => (float y) <float w = {2}> { a = Neg(w) y = Add(a, x) }")
    report = run_transforms(model, [ConstantFolding()], 1, _Context(answer))
    assert len(model.graph.nodes) == 2
    return report


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (None, "no kernel on the host computes it"),
        (InvalidArgument("bad axis"), "computing it failed: bad axis"),
        (ZeroDivisionError("by zero"), "computing it failed: by zero"),
        ([[1.0]], "its result is not a tensor"),
        ([np.float64(1)], "gave float64 of shape ()"),
        ([np.zeros(3, np.float32)], "gave float32 of shape (3,)"),
    ],
)
def test_what_cannot_be_computed_stays(answer: Sequence[Array] | Exception | None, note: str) -> None:
    """No kernel, a kernel that refuses, a result of another kind: the node stays and the report says why."""
    assert note in notes(_fold_with(answer))


_FILTERS = "g (float[1, 64, 4, 4] x) => (float[1, 512, 2, 2] y) <int64[4] s = {512, 64, 3, 3}> " + (
    "{ w = ConstantOfShape(s) v = ConstantOfShape(s) k = Add(w, v) y = Conv(x, k) }"
)
_BYTES = 512 * 64 * 9 * 4


@pytest.mark.parametrize(("reserved", "left"), [(0, 2), (_BYTES, 1), (2 * _BYTES, 0)])
def test_large_results_fold_while_there_is_room(reserved: int, left: int) -> None:
    """The session has so many bytes to spare: each constant beyond what it replaces takes its part."""
    model = typed_model(_FILTERS)
    report = run_transforms(model, [ConstantFolding()], 1, ReferenceContext(reserved), check=True)
    assert operators(model)["ConstantOfShape"] == left
    assert ("more than the" in notes(report)) == bool(left)


_TABLE = """g (float[1] x) => (float[100000] y, float[100000] z) <float[100000] t> {
    a = AXES (t) y = Add (a, x) z = Sub (a, x)
}"""


def _folded(operator: str, table: Array) -> ArrayWeight:
    text = _TABLE.replace("AXES", operator)
    proto = model_from_text(text.replace(" <float[100000] t>", "").replace("float[1] x", "float[1] x, float[100000] t"))
    del proto.graph.input[1]
    proto.graph.initializer.append(onnx.numpy_helper.from_array(table, "t"))
    model = typed_model(proto)
    run_transforms(model, [ConstantFolding()], 1, ReferenceContext(), check=True)
    (name,) = [one for one in model.graph.initializers if one.endswith("/folded")]
    weight = model.graph.initializers[name].weight
    assert isinstance(weight, ArrayWeight)
    return weight


def test_large_results_are_known_by_what_they_are_made_of() -> None:
    """Equal operators of equal constants are one constant, without a look at it; others are others."""
    table = np.linspace(-1, 1, 100_000, dtype=np.float32)
    exponential, again = _folded("Exp", table), _folded("Exp", table)
    assert exponential is again
    np.testing.assert_allclose(exponential.array(), np.exp(table), rtol=1e-6)
    others = [
        _folded("Abs", table),
        _folded("Exp", table * 2),
        _folded("LeakyRelu", table),
        _folded("LeakyRelu <alpha = 0.5>", table),
    ]
    assert len({id(one) for one in (exponential, *others)}) == 5
    np.testing.assert_array_equal(others[0].array(), np.abs(table))
    assert others[3].array()[0] == -0.5
