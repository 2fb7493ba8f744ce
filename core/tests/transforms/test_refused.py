"""Nodes that contradict their operator: no rule makes something else of them, and the session refuses them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ort_py
from ort_py.graph.editing.edit import Editor
from ort_py.transforms.refused import refused_nodes
from ort_py_kit.graphs import typed_model
from ort_py_kit.tolerances import assert_close

X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 2, 2, 4)
CPU = ["CPUExecutionProvider"]

_MEAN = """m = ReduceMean<axes = [{}]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes = [{}]>(q)
    e = Add(v, scalar) s = Sqrt(e) n = Div(d, s) y = Mul(n, four)"""
_SLICE = "a = Neg(x) y = Slice<axes = [{}], starts = [0], ends = [2147483647]>(a)"
_CONCAT = "a = Neg(x) y = Concat<axis = {}>(a)"
_BIAS = "a = Conv(x, w, {}) y = BatchNormalization(a, two, two, two, two)"

BROKEN = [
    _MEAN.format(5, 3),
    _MEAN.format(3, -7),
    _SLICE.format(-7),
    _CONCAT.format(-7),
    _BIAS.format("scalar"),
    _BIAS.format("four"),
]
RIGHT = [_MEAN.format(3, 3), _SLICE.format(-3), _CONCAT.format(-4), _BIAS.format("two")]
CONSTANTS = (
    "float scalar = {0.5}, float[2] two = {1, 2}, float[4] four = {1, 2, 3, 4}, float[2, 2, 1, 1] w = {1, 2, 3, 4}"
)


def model(body: str, declared: str = "") -> onnx.ModelProto:
    """Operator set 9, with the types that the model declares for what it computes."""
    return onnx.parser.parse_model(
        f"""<ir_version: 4, opset_import: ["" : 9]> g (float[1, 2, A, 4] x) => (float[B, C, D, E] y)
        <{CONSTANTS}{declared}> {{ {body} }}"""
    )


@pytest.mark.parametrize("declared", ["", ", float[1, 2, A, 4] a, float[1, 2, A, 1] m, float[1, 2, A, 1] v"])
@pytest.mark.parametrize("body", BROKEN)
def test_what_contradicts_its_operator_is_refused(body: str, declared: str) -> None:
    """A fusion must not compute what onnxruntime refuses, whatever types the model declares for it."""
    content = model(body, declared).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(Exception):  # noqa: B017, PT011 - each kind of contradiction has a type of its own there
        onnxruntime.InferenceSession(content, options, providers=CPU).run(None, {"x": X})
    with ort_py.InferenceSession(content, providers=CPU) as session, pytest.raises(ort_py.OrtPyError):
        session.run(None, {"x": X})


@pytest.mark.parametrize(
    "body", ["Slice(a, z, e)", "Slice(a, zero, five, z)", "Pad(a, pads)", "Expand(a, s)", "Reshape(a, s)"]
)
@pytest.mark.parametrize("declared", ["A, B", "2, 3"])
def test_lists_of_two_axes_are_refused(body: str, declared: str) -> None:
    """Inference reads them as if they were flat, and without that the declared shape is believed."""
    content = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x) => (float[{declared}] y)
        <int64[1, 1] z = {{0}}, int64[1, 1] e = {{9}}, int64[1] zero = {{0}}, int64[1] five = {{5}},
        int64[1, 4] pads = {{0, 0, 0, 0}}, int64[1, 2] s = {{2, 3}}> {{ a = Neg(x) y = {body} }}"""
    ).SerializeToString()
    with pytest.raises(ort_py.OrtPyError), ort_py.InferenceSession(content, providers=CPU) as session:
        session.run(None, {"x": np.zeros((2, 3), np.float32)})


@pytest.mark.parametrize("body", RIGHT)
def test_rules_see_what_fits(body: str) -> None:
    """The same forms without a contradiction are fused or removed, and compute what onnxruntime does."""
    content = model(body).SerializeToString()
    (expected,) = onnxruntime.InferenceSession(content, providers=CPU).run(None, {"x": X})
    with ort_py.InferenceSession(content, providers=CPU) as session:
        report = session.load_report.optimisation
        assert report is not None
        assert report.nodes_after == 1
        assert_close(session.run(None, {"x": X})[0], expected)


def test_sound_nodes_are_not_asked_about() -> None:
    """Asking the table takes longer than a rule; what inference has compared is left out."""
    typed = typed_model(model("a = Relu(x) b = Softmax(a) y = Sqrt(b)"))
    assert not refused_nodes(Editor(typed.graph))


@pytest.mark.parametrize(
    "body",
    ["t = Transpose<perm = [1, 0]>(r) y = MatMul(x, t)", "y = Slice<axes = [1], starts = [0], ends = [2147483647]>(r)"],
)
def test_axes_of_an_unknown_rank_stay(body: str) -> None:
    """They may not be there: a list of two sizes makes a matrix, one of one size makes a vector."""
    content = onnx.parser.parse_model(
        f"""<ir_version: 4, opset_import: ["" : 9]> g (float[2, 3] x, int64[N] sizes) => (float[A, B] y)
        {{ r = Reshape(x, sizes) {body} }}"""
    ).SerializeToString()
    x = np.ones((2, 3), np.float32)
    with ort_py.InferenceSession(content, providers=CPU) as session:
        assert session.run(None, {"x": x, "sizes": np.array([2, 3])})[0].shape in {(2, 2), (2, 3)}
        with pytest.raises(ort_py.OrtPyError):
            session.run(None, {"x": x, "sizes": np.array([6])})
