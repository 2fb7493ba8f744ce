"""Refusals of kernels while a model runs, side by side with onnxruntime.

onnxruntime raises `Fail` in one kernel, `InvalidArgument` in the next and `RuntimeException` where a conversion fails;
programs wait for the one they have met. Ours is caught by each of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py
from ort_py.errors import KernelInputError
from tests.drop_in.both_runtimes import OURS, Case, expect_agreement, expect_difference, outcome, session

ML = '"ai.onnx.ml": 3'
CONTRIB = '"com.microsoft": 1'


def floats(*shape: int) -> Any:
    """0, 1, 2, … as float32."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def octets(*shape: int) -> Any:
    """0, 1, 2, … as uint8."""
    return floats(*shape).astype(np.uint8)


def ints(*values: Any) -> Any:
    """A tensor of int64."""
    return np.array(values, np.int64)


def number(value: int) -> Any:
    """A scalar of int64."""
    return np.array(value, np.int64)


def flags(*shape: int) -> Any:
    """True everywhere."""
    return np.ones(shape, bool)


def node(call: str, result: str = "float[]", *domains: str, **feed: Any) -> Case:
    """A case that runs one node, or a few, and gives its result `y`.

    Args:
        call: The right side of ``y = …``, or whole statements.
        result: Type of `y`.
        domains: Further imports.
        feed: The inputs; declared with their element type, and no shape.
    """
    names = {"float32": "float", "float64": "double"}
    kinds = {name: "string" if array.dtype.kind == "U" else str(array.dtype) for name, array in feed.items()}
    inputs = ", ".join(
        f"{names.get(kind, kind)}{'[]' if feed[name].ndim else ''} {name}" for name, kind in kinds.items()
    )
    body = call if "y =" in call else f"y = {call}"
    return written(f"g ({inputs}) => ({result} y) {{ {body} }}", *domains, **feed)


def written(text: str, *domains: str, **feed: Any) -> Case:
    """A case that runs a model written as ONNX text."""
    return lambda ort: session(ort, text, *domains).run(None, feed)


A, B, M, N = floats(3), floats(4), floats(2, 3), floats(4, 5)
PICTURE, ONES = floats(1, 3, 4, 4), floats(4) + 1
THEN = "<then_branch = t () => (float[] r) {{ r = {} }}, else_branch = e () => (float[] s) {{ s = Identity(x) }}>"

REFUSED: dict[str, Case] = {
    # section 2.3
    "Reshape, another size": node("Reshape(x, s)", x=M, s=ints(4, 5)),
    "Reshape, the rest does not fit": node("Reshape(x, s)", x=M, s=ints(4, -1)),
    "Reshape, two rests": node("Reshape(x, s)", x=M, s=ints(-1, -1)),
    "Reshape, a zero beyond the rank": node("Reshape(x, s)", x=M, s=ints(2, 3, 0)),
    "MatMul": node("MatMul(x, z)", x=M, z=N),
    "MatMul, batches": node("MatMul(x, z)", x=floats(2, 2, 3), z=floats(3, 3, 5)),
    "Concat": node("Concat <axis = 0> (x, z)", x=M, z=N),
    "Conv, channels": node("Conv(x, w)", x=PICTURE, w=floats(2, 4, 3, 3)),
    "Conv, bias": node("Conv(x, w, b)", x=PICTURE, w=floats(2, 3, 3, 3), b=floats(5)),
    "Conv, groups": node("Conv <group = 2> (x, w)", x=floats(1, 4, 4, 4), w=floats(3, 2, 3, 3)),
    "Conv, kernel shape": node("Conv <kernel_shape = [2, 2]> (x, w)", x=PICTURE, w=floats(2, 3, 3, 3)),
    "Conv, too large a window": node("Conv(x, w)", x=floats(1, 3, 2, 2), w=floats(2, 3, 3, 3)),
    "Where, broadcast": node("Where(c, x, z)", c=flags(2), x=A, z=B),
    "PRelu, broadcast": node("PRelu(x, z)", x=A, z=B),
    "Div by zero": node("Div(x, z)", "int64[]", x=ints(1), z=ints(0)),
    "Div by zero, int32": node("Div(x, z)", "int32[]", x=ints(1).astype(np.int32), z=ints(0).astype(np.int32)),
    "Mod by zero": node("Mod(x, z)", "int64[]", x=ints(1), z=ints(0)),
    "Gather": node("Gather(x, i)", x=M, i=ints(2)),
    "Gather, negative": node("Gather(x, i)", x=M, i=ints(-3)),
    "Expand": node("Expand(x, s)", x=M, s=ints(4, 5)),
    "Expand, negative": node("Expand(x, s)", x=M, s=ints(-1, 3)),
    # other operators
    "MatMulInteger": node("MatMulInteger(x, z)", "int32[]", x=octets(2, 3), z=octets(4, 5)),
    "Gemm": node("Gemm(x, z)", x=M, z=N),
    "Gemm, bias": node("Gemm(x, z, b)", x=M, z=floats(3, 5), b=B),
    "FusedMatMul": node("com.microsoft.FusedMatMul(x, z)", "float[]", CONTRIB, x=M, z=N),
    "Squeeze, not of size 1": node("Squeeze(x, a)", x=M, a=ints(0)),
    "Squeeze, no such axis": node("Squeeze(x, a)", x=M, a=ints(5)),
    "Unsqueeze, twice": node("Unsqueeze(x, a)", x=M, a=ints(0, 0)),
    "Unsqueeze, no such axis": node("Unsqueeze(x, a)", x=M, a=ints(7)),
    "Tile, too few counts": node("Tile(x, n)", x=M, n=ints(1)),
    "Tile, negative": node("Tile(x, n)", x=M, n=ints(-1, 1)),
    "ConvTranspose": node("ConvTranspose(x, w)", x=PICTURE, w=floats(2, 4, 3, 3)),
    "ConvInteger": node("ConvInteger(x, w)", "int32[]", x=octets(1, 3, 4, 4), w=octets(2, 4, 3, 3)),
    "BatchNormalization": node("BatchNormalization(x, s, s, s, s)", x=PICTURE, s=floats(5)),
    "LayerNormalization": node("LayerNormalization(x, s, s)", x=PICTURE, s=floats(5)),
    "LRN": node("LRN <size = 3> (x)", x=A),
    "GatherElements": node("GatherElements(x, i)", x=M, i=ints([5, 0, 0])),
    "GatherElements, too wide": node("GatherElements(x, i)", x=M, i=ints([0, 0, 0, 0, 0])),
    "GatherND": node("GatherND(x, i)", x=M, i=ints([2, 0])),
    "ScatterElements": node("ScatterElements(x, i, u)", x=M, i=ints([9, 0, 0]), u=floats(1, 3)),
    "ScatterND": node("ScatterND(x, i, u)", x=M, i=ints([2, 0]), u=floats(1)),
    "Slice, step 0": node("Slice(x, a, b, a, a)", x=M, a=ints(0), b=ints(2)),
    "Slice, lengths": node("Slice(x, a, b)", x=M, a=ints(0), b=ints(1, 1)),
    "Slice, no such axis": node("Slice(x, a, a, b)", x=M, a=ints(0), b=ints(7)),
    "Split": written(
        "g (float[N, M] x, int64[K] s) => (float[P, M] y, float[Q, M] z) { y, z = Split(x, s) }",
        x=floats(5, 3),
        s=ints(2, 2),
    ),
    "Pad, too few counts": node("Pad(x, n)", x=M, n=ints(1, 1)),
    "Range, step 0": node("Range(a, b, c)", "int64[]", a=number(0), b=number(5), c=number(0)),
    "ConstantOfShape, negative": node("ConstantOfShape(s)", s=ints(-1)),
    "TopK": written("g (float[] x, int64[] k) => (float[] y, int64[] i) { y, i = TopK(x, k) }", x=M, k=ints(9)),
    "CumSum, no such axis": node("CumSum(x, a)", x=M, a=number(4)),
    "ReduceMean, no such axis": node("ReduceMean(x, a)", x=M, a=ints(4)),
    "DepthToSpace": node("DepthToSpace <blocksize = 2> (x)", x=floats(1, 3, 2, 2)),
    "Einsum": node('Einsum <equation = "ij,jk->ik"> (x, z)', x=M, z=N),
    "Resize, too few scales": node("Resize(x, , s)", x=floats(1, 1, 2, 2), s=floats(3) + 1),
    "Resize, scale 0": node("Resize(x, , s)", x=floats(1, 1, 2, 2), s=floats(4)),
    "GridSample": node("GridSample(x, z)", x=floats(1, 1, 2, 2), z=floats(2, 2, 2, 2)),
    "RoiAlign": node("RoiAlign(x, r, i)", x=floats(1, 1, 4, 4), r=floats(1, 4), i=ints(3)),
    "LSTM": node("LSTM <hidden_size = 2> (x, w, r)", x=floats(1, 1, 3), w=floats(1, 8, 4), r=floats(1, 8, 2)),
    "QuantizeLinear": node("QuantizeLinear(x, s)", "uint8[]", x=M, s=ONES[:2]),
    "DequantizeLinear": node("DequantizeLinear(x, s)", x=octets(2, 3), s=ONES[:2]),
    "HannWindow": node("HannWindow(n)", n=number(-1)),
    "Cast of a text": node("Cast <to = 1> (x)", x=np.array(["zz"])),
    "Cast of a text to int64": node("Cast <to = 7> (x)", "int64[]", x=np.array(["zz"])),
    "SequenceAt": written("g (seq(float[]) x, int64 i) => (float[] y) { y = SequenceAt(x, i) }", x=[A], i=number(5)),
    "SequenceErase": written(
        "g (seq(float[]) x, int64 i) => (seq(float[]) y) { y = SequenceErase(x, i) }", x=[A], i=number(5)
    ),
    "ConcatFromSequence": written(
        "g (seq(float[]) x) => (float[] y) { y = ConcatFromSequence <axis = 0> (x) }", x=[M, floats(2, 4)]
    ),
    "ConcatFromSequence, empty": written(
        "g (seq(float[]) x) => (float[] y) { y = ConcatFromSequence <axis = 0> (x) }", x=[]
    ),
    "OptionalGetElement": written("g (optional(float[N]) x) => (float[N] y) { y = OptionalGetElement(x) }", x=None),
    "If, no single condition": node(f"If (c) {THEN.format('Identity(x)')}", c=flags(2), x=A),
    "If, in a branch": node(f"If (c) {THEN.format('MatMul(x, z)')}", c=np.array(True), x=M, z=N),
    "Scaler": node("ai.onnx.ml.Scaler <scale = [1.0, 2.0], offset = [1.0, 2.0]> (x)", "float[]", ML, x=M),
    "ArrayFeatureExtractor": node("ai.onnx.ml.ArrayFeatureExtractor(x, i)", "float[]", ML, x=M, i=ints(7)),
    "OneHotEncoder": node("ai.onnx.ml.OneHotEncoder <cats_int64s = [1], zeros = 0> (x)", "float[]", ML, x=ints(5)),
    "BiasGelu": node("com.microsoft.BiasGelu(x, b)", "float[]", CONTRIB, x=floats(1, 2, 4), b=floats(5)),
}
"""Models that both refuse while running."""

FAILED: dict[str, Case] = {
    "Add, broadcast": node("Add(x, z)", x=A, z=B),
    "Less, broadcast": node("Less(x, z)", "bool[]", x=A, z=B),
    "Pow, broadcast": node("Pow(x, z)", x=A, z=B),
    "Max, broadcast": node("Max(x, z)", x=A, z=B),
    "BitShift, broadcast": node('BitShift <direction = "LEFT"> (x, z)', "uint8[]", x=octets(3), z=octets(4)),
    "StringConcat, broadcast": node("StringConcat(x, z)", "string[]", x=np.array(["a"] * 2), z=np.array(["b"] * 3)),
    "If, broadcast in a branch": node(f"If (c) {THEN.format('Add(x, z)')}", c=np.array(True), x=A, z=B),
    "Loop, broadcast in its body": written(
        """g (int64 m, float[N] x, float[M] z) => (float[] y) {
            c = Constant <value = bool {1}> ()
            y = Loop (m, c, x) <body = b (int64 i, bool d, float[] p) => (bool e, float[] q) {
                e = Identity(d)
                q = Add(p, z)
            }>
        }""",
        m=number(2),
        x=A,
        z=B,
    ),
    "out of memory": node("ConstantOfShape(s)", s=ints(2**20, 2**20, 2**10)),
    "too large for any memory": node("ConstantOfShape(s)", s=ints(2**40, 2**40)),
}
"""What fails in both without a kernel having looked: NumPy's functions, and memory."""

ANSWERED: dict[str, Case] = {
    "ReduceMax of nothing": node("ReduceMax(x)", x=floats(0, 3)),
    "ReduceMin of nothing": node("ReduceMin(x)", x=floats(0, 3)),
    "ReduceSum of nothing": node("ReduceSum(x)", x=floats(0, 3)),
    "Div by zero, floats": node("Div(x, z)", x=ONES, z=floats(4) * 0),
    "Reshape of nothing": node("Reshape <allowzero = 1> (x, s)", x=floats(0, 3), s=ints(3, 0)),
    "Concat with nothing": node("Concat <axis = 0> (x, z)", x=floats(0, 3), z=M),
    "MatMul over nothing": node("MatMul(x, z)", x=floats(2, 0), z=floats(0, 3)),
    "Gather of nothing": node("Gather(x, i)", x=M, i=np.zeros(0, np.int64)),
    "Cast of texts": node("Cast <to = 1> (x)", x=np.array(["1.5", "-INF", "1e3"])),
    "LabelEncoder, an unknown text": node(
        'ai.onnx.ml.LabelEncoder <keys_strings = ["a"], values_int64s = [1]> (x)', "int64[]", ML, x=np.array(["b"])
    ),
}
"""What looks as if it could fail, and does in neither."""


@pytest.mark.parametrize("name", REFUSED | FAILED | ANSWERED)
def test_runs_fail_as_those_of_onnxruntime(name: str) -> None:
    """The same results, or an error that each `except` clause for onnxruntime's catches."""
    expect_agreement((REFUSED | FAILED | ANSWERED)[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_where_and_what_to_do(name: str) -> None:
    """One class, the node and the way out, whatever the operator."""
    with pytest.raises(KernelInputError) as caught:
        REFUSED[name](OURS)
    assert caught.value.location.node
    assert caught.value.location.op_type
    assert caught.value.fix


def test_feeds_are_refused_before_the_run() -> None:
    """They are not the business of a kernel: InvalidArgument and nothing more, in both."""
    case = written("g (float[N] x) => (float[N] y) { y = Neg(x) }", x=M)
    expect_agreement(case)
    assert outcome(case, OURS).raised[0] == "InvalidArgument"


@pytest.mark.parametrize("name", ["Fail", "InvalidArgument", "RuntimeException"])
def test_the_classes_are_those_that_programs_import(name: str) -> None:
    """Also under the name of onnxruntime's binding."""
    from ort_py.capi import onnxruntime_pybind11_state as binding

    with pytest.raises(getattr(binding, name), match="Gather"):
        REFUSED["Gather"](OURS)


DIFFER: dict[str, tuple[Case, Any, str]] = {
    "Mod of floats without fmod": (
        node("Mod(x, z)", x=floats(3) + 5, z=floats(3) + 3),
        [np.array([2, 2, 2], np.float32)],
        "there is only one thing it can mean",
    ),
    "an axis named twice": (
        node("ReduceSum(x, a)", x=M, a=ints(0, 0)),
        ort_py.InvalidArgument,
        "a mistake of who made the axes",
    ),
}


@pytest.mark.parametrize("name", DIFFER)
def test_deliberate_differences_while_running(name: str) -> None:
    """The table lists computations that only one of the two runtimes refuses."""
    case, expected, _reason = DIFFER[name]
    expect_difference(case, expected)
