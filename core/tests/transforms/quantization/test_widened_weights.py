"""Weights of bytes that Cast, Sub and Mul widen become DequantizeLinear, with the same numbers to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators
from ort_py.contracts import IExecutionProvider
from ort_py.graph.ir import Model
from ort_py.kernels.registry import KernelRegistry
from ort_py.transforms.elimination.unused import EliminateDeadCode
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.quantization import widened_weights
from ort_py.transforms.quantization.widened_weights import RecogniseWidenedWeights
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.fake_provider import FakeBehaviour, FakeProvider
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model

X = np.array([[1, -2], [0.5, 3]], np.float32)
SCALES = {
    "one number": "float s = {0.3}",
    "one number of two dimensions": "float[1, 1] s = {0.3}",
    "columns": "float[1, 3] s = {0.3, 0.25, 2}",
    "columns, of one dimension": "float[3] s = {0.3, 0.25, 2}",
    "rows": "float[2, 1] s = {0.3, 0.7}",
}


def _text(
    scale: str = SCALES["columns"],
    zero: str = "",
    kind: str = "int8",
    use: str = "y = MatMul (x, w)",
    result: str = "float[2, 3] y",
) -> str:
    numbers = "{1, -2, 3, -4, 5, 127}" if kind == "int8" else "{1, 2, 3, 4, 5, 255}"
    middle = "f = Cast <to = 1> (q)" + (" d = Sub (f, z)" if zero else "")
    return f"""g (float[2, 2] x) => ({result}) <{kind}[2, 3] q = {numbers}, {scale}{", " + zero if zero else ""}> {{
        {middle} w = Mul ({"d" if zero else "f"}, s) {use}
    }}"""


def _run(text: str, opset: int = 21) -> tuple[Model, OptimisationReport]:
    model = typed_model(text, opset)
    rules = [RecogniseWidenedWeights(), EliminateDeadCode()]
    report = run_transforms(model, rules, 1, ReferenceContext(), check=True)
    expected = reference_run(model_from_text(text, opset), {"x": X})
    for left, right in zip(reference_run(model, {"x": X}), expected, strict=True):
        np.testing.assert_array_equal(left, right)
    return model, report


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_the_definition_becomes_the_operator(scale: str, kind: str) -> None:
    """The scale may be one number, one per column, or one per row."""
    model, _ = _run(_text(scale, kind=kind))
    assert operators(model) == {"DequantizeLinear": 1, "MatMul": 1}


@pytest.mark.parametrize("zero", ["float z = {3}", "float[1, 3] z = {3, -4, 0}"], ids=["one", "columns"])
def test_zero_points(zero: str) -> None:
    """A whole number that is subtracted is the zero point, spread to the scale's entries where it is one."""
    model, _ = _run(_text(zero=zero))
    assert operators(model) == {"DequantizeLinear": 1, "MatMul": 1}


def test_for_several_products() -> None:
    model, _ = _run(_text(use="y = MatMul (x, w) z2 = Gemm (x, w)", result="float[2, 3] y, float[2, 3] z2"))
    assert operators(model) == {"DequantizeLinear": 1, "MatMul": 1, "Gemm": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_text("float[2, 3] s = {1, 2, 3, 4, 5, 6}"), "the scale of 'q' changes along more than one axis"),
        (_text(zero="float z = {0.5}"), "the zero point of 'q' does not fit int8"),
        (_text(zero="float z = {200}"), "the zero point of 'q' does not fit int8"),
        (_text(zero="float[2, 1] z = {1, 2}"), "the zero point of 'q' does not go along the axis of the scale"),
        (
            _text("float[1, 1, 3] s = {1, 2, 3}", result="float[1, 2, 3] y"),
            "not a float32 constant that only broadcasts",
        ),
        (
            _text(use="y = Add (x, w)")
            .replace("[2, 3]", "[2, 2]")
            .replace("{1, -2, 3, -4, 5, 127}", "{1, 2, 3, 4}")
            .replace("float[1, 3] s = {0.3, 0.25, 2}", "float s = {0.5}"),
            "",
        ),
        (_text(use="y = MatMul (x, w) v = Identity (w)", result="float[2, 3] y, float[2, 3] v"), ""),
        (_text(result="float[2, 3] y, float[2, 3] w"), ""),
    ],
    ids=["two axes", "half", "beyond", "other axis", "more axes", "a sum", "read elsewhere", "returned"],
)
def test_what_is_something_else_stays(text: str, reason: str) -> None:
    """Other arithmetic keeps its nodes; what was nearly weights says why."""
    model, report = _run(text)
    assert operators(model)["DequantizeLinear"] == 0
    assert reason in notes(report)


def test_not_before_scales_of_an_axis() -> None:
    """Models of versions before 13 have no DequantizeLinear with a scale for each column."""
    assert operators(_run(_text(), opset=12)[0])["DequantizeLinear"] == 0


@pytest.mark.parametrize(("wishes", "there"), [((True, True), False), ((False, True), True)])
def test_where_somebody_has_use_for_the_integers(wishes: tuple[bool, bool], there: bool) -> None:
    """Sessions whose providers all compute with floating-point weights fold them as any constant."""
    from ort_py.engine.provider_wishes import wishes as transforms

    providers: list[IExecutionProvider] = [
        FakeProvider(behaviour=FakeBehaviour(dequantizes_constants=one)) for one in wishes
    ]
    found = [one.name for one in transforms(providers, KernelRegistry())]
    assert ("WidenedWeights" in found) is there


def _picked(scale: str, zero: str, use: str, result: str = "float[2, 3] y", kind: str = "int8") -> Model:
    """The optimised model of a table from whose rows one is picked, with the results of the model as it was."""
    middle = "f = Cast <to = 1> (q)" + (" d = Sub (f, z)" if zero else "")
    text = f"""g (int64[2] i) => ({result}) <{kind}[3, 3] q = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}, {scale}{zero}> {{
        {middle} w = Mul (s, {"d" if zero else "f"}) {use}
    }}"""
    model = typed_model(text, 21)
    run_transforms(model, [RecogniseWidenedWeights(), EliminateDeadCode()], 1, ReferenceContext(), check=True)
    feeds = {"i": np.array([2, -2])}
    expected = reference_run(model_from_text(text, 21), feeds)
    for left, right in zip(reference_run(model, feeds), expected, strict=True):
        np.testing.assert_array_equal(left, right, strict=True)
    return model


ROWS = "float[3, 1] s = {0.3, 0.7, 2}"


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("zero", ["", ", float[1, 1] z = {3}", ", float[3, 1] z = {1.5, -4, 300}"])
@pytest.mark.parametrize("scale", [ROWS, "float s = {0.3}", "float[1, 1] s = {0.3}"])
@pytest.mark.parametrize(
    ("use", "result"),
    [
        ("y = Gather (w, i)", "float[2, 3] y"),
        ("j = Constant <value_int = 1> () y = Gather (w, j)", "float[3] y"),
        ("y = Gather (w, i) k = Abs (i) v = Gather (w, k)", "float[2, 3] y, float[2, 3] v"),
        ("y = Gather (w, i) k = ArgMax <axis = 1> (y) v = Gather (w, k)", "float[2, 3] y, float[2, 1, 3] v"),
    ],
    ids=["rows", "one row", "twice", "one after the other"],
)
def test_rows_of_a_large_table_are_widened_once_picked(
    scale: str, zero: str, kind: str, use: str, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The integers are what Gather reads, so that no table of floating-point numbers is kept."""
    monkeypatch.setattr(widened_weights, "_LARGE", 9)
    model = _picked(scale, zero, use, result, kind)
    picked = [node for node in model.graph.nodes if node.op_type == "Gather"]
    widened = [node for node in model.graph.nodes if node.op_type == "Cast"]
    assert all(value is not None and value.weight is not None for node in picked for value in node.inputs[:1])
    assert all(node.inputs[0] is not None and node.inputs[0].producer in picked for node in widened)


@pytest.mark.parametrize(
    ("scale", "use", "result"),
    [
        (ROWS, "y = Gather <axis = 1> (w, i)", "float[3, 2] y"),
        ("float[1, 3] s = {0.3, 0.7, 2}", "y = Gather (w, i)", "float[2, 3] y"),
        (ROWS, "y = Gather (w, i) v = Neg (w)", "float[2, 3] y, float[3, 3] v"),
        (ROWS, "y = Gather (w, i)", "float[2, 3] y, float[3, 3] w"),
    ],
    ids=["columns", "scales of columns", "read elsewhere", "returned"],
)
def test_tables_of_which_more_is_read_stay(scale: str, use: str, result: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widened_weights, "_LARGE", 9)
    cast = next(node for node in _picked(scale, ", float z = {3}", use, result).graph.nodes if node.op_type == "Cast")
    assert cast.inputs[0] is not None
    assert cast.inputs[0].name == "q"


def test_small_tables_are_left_to_folding() -> None:
    assert operators(_picked(ROWS, "", "y = Gather (w, i)")) == {"Cast": 1, "Mul": 1, "Gather": 1}
