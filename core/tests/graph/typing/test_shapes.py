"""Types of all values."""

from __future__ import annotations

import logging
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ort_py.contracts import FormalParameter, GraphView, NodeSpec, OperatorSchema
from ort_py.dtypes import DataType, Shape, TensorType, ValueType
from ort_py.errors import InvalidGraph, PluginError
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.ir import Model, Value, walk
from ort_py.graph.reading.loader import load_model
from ort_py.graph.typing import inference, isolated_inference, shape_walk
from ort_py.graph.typing.shapes import infer_types
from ort_py_kit.graphs import model_from_text, typed_model


def value(model: Model, name: str) -> Value:
    """The value of this name in any graph."""
    for graph in walk(model.graph):
        for node in graph.nodes:
            for output in node.outputs:
                if output is not None and output.name == name:
                    return output
        for one in (*graph.inputs, *graph.initializers.values()):
            if one.name == name:
                return one
    raise KeyError(name)


def shape(model: Model, name: str) -> Shape | None:
    """Its shape."""
    known = value(model, name).type
    assert isinstance(known, TensorType)
    return known.shape


def test_names_of_sizes_are_kept() -> None:
    """Symbolic sizes flow through nodes; unknown ones that tie nothing together have no name."""
    model = typed_model(
        "g (float[batch, 3, H] x) => (y) { a = Relu(x) b = Transpose<perm = [2, 0, 1]>(a) y = NonZero(b) }".replace(
            "(y)", "(int64[R, K] y)"
        )
    )
    assert shape(model, "b") == ("H", "batch", 3)
    assert shape(model, "y") == (3, "K")


def test_unknown_sizes_that_belong_together_share_a_name() -> None:
    """The number of hits is unknown, but the same before and after a Transpose."""
    model = typed_model(
        "g (float[2, 3] x) => (int64[A, B] y) { a = NonZero(x) b = Transpose(a) c = Relu(x) y = Neg(b) }"
    )
    (rows, hits), (left, right) = shape(model, "a") or (), shape(model, "b") or ()
    assert (rows, right) == (2, 2)
    assert isinstance(hits, str)
    assert hits == left


def test_declared_names_reach_what_follows() -> None:
    """Later nodes get a name that only the model declares."""
    proto = model_from_text("g (float[2, 3] x) => (int64[A, B] y) { a = NonZero(x) y = Transpose(a) }")
    proto.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.INT64, [2, "hits"]))
    assert shape(typed_model(proto), "y") == ("hits", 2)


STALE = "g (float[N, 4] x, int64[2] s) => (float[A, B] y) { a = Reshape(x, s) y = Relu(a) }"


def test_stale_sizes_are_not_believed() -> None:
    """Sizes of one example, left behind by an exporter, do not become facts while the input's size is free."""
    proto = model_from_text(STALE)
    proto.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 4]))
    assert shape(typed_model(proto), "a") == (None, None)


def test_declared_sizes_count_where_they_follow_from_fixed_sizes() -> None:
    """Then the example is the only case."""
    proto = model_from_text(
        "g (float[2, 4] x) => (float[A, B] y)"
        "{ n = Shape(x) f = Cast<to = 1>(n) r = Round(f) s = Cast<to = 7>(r) a = Reshape(x, s) y = Relu(a) }"
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 4]))
    assert shape(typed_model(proto), "a") == (2, 4)


@pytest.mark.parametrize(
    "text",
    [
        STALE.replace("[N, 4]", "[2, 4]"),
        "g (float[2, 4] x) => (int64[A, B] y) { a = NonZero(x) y = Neg(a) }",
        "g (float[2, 4] x, bool c) => (float[A, B] y) { a = If (c) <"
        "then_branch = t () => (float[2, 4] b) { b = Identity(x) },"
        "else_branch = e () => (float[2, 4] d) { d = Concat<axis = 0>(x, x) }> y = Relu(a) }",
    ],
    ids=["computed target", "positions", "branches"],
)
def test_declared_sizes_are_not_believed_where_they_depend_on_what_is_fed(text: str) -> None:
    proto = model_from_text(text)
    kind = TensorProto.INT64 if "NonZero" in text else TensorProto.FLOAT
    proto.graph.value_info.append(helper.make_tensor_value_info("a", kind, [2, 4]))
    assert (shape(typed_model(proto), "a") or (None, None))[-2 if "If" in text else -1] is None


def test_sizes_of_an_output_that_is_read_are_not_believed_where_they_depend_on_what_is_fed() -> None:
    model = typed_model("g (float[N] x) => (int64[1, 2] y, int64[2] s) { y = NonZero(x) s = Shape(y) }")
    assert shape(model, "y") == (1, None)


def test_sizes_of_an_output_that_no_node_reads_are_believed() -> None:
    """Nothing follows from them in the model, and callers see them."""
    assert shape(typed_model("g (float[N] x) => (int64[1, 2] y) { y = NonZero(x) }"), "y") == (1, 2)


def test_contradicting_shapes_are_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Inference knows better than a declaration."""
    with caplog.at_level(logging.WARNING):
        model = typed_model("g (float[2, 3] x) => (float[5] y) { y = Relu(x) }")
    assert shape(model, "y") == (2, 3)
    assert "declares shape (5,) for value 'y', but it has shape (2, 3)" in caplog.text


def test_contradicting_element_types_are_an_error() -> None:
    with pytest.raises(
        InvalidGraph, match=r"declares tensor\(int64\) but the operator gives tensor\(float\)"
    ) as caught:
        typed_model("g (float[2, 3] x) => (int64[2, 3] y) { y = Relu(x) }")
    assert "value 'y'" in str(caught.value)


def test_impossible_shapes_are_an_error() -> None:
    """Sizes that can never fit are found before anything runs, all of them."""
    with pytest.raises(InvalidGraph, match="contradict each other") as caught:
        typed_model(
            """g (float[2, 3] x, float[5, 4] w) => (float[A, B] y) {
                first = MatMul(x, w) second = Add(x, w) y = Relu(x)
            }"""
        )
    assert "MatMul" in str(caught.value)
    assert "Add" in str(caught.value)


def test_impossible_computed_shapes_are_an_error() -> None:
    """So are those that only show once the numbers are followed."""
    with pytest.raises(InvalidGraph, match="contradict each other") as caught:
        typed_model(
            """g (float[2, 3] x, float[4, 6] w) => (float[A, B] y) {
                s = Shape<start = 1>(x) a = ConstantOfShape(s) y = MatMul(a, w)
            }"""
        )
    assert "operator MatMul" in str(caught.value)


@pytest.mark.parametrize("opset", [11, 21])
def test_computed_shapes_are_followed(opset: int) -> None:
    """Shape, Gather, arithmetic and Concat give a Reshape its target, symbolic sizes included."""
    axes = "Unsqueeze<axes = [0]>({0})" if opset < 13 else "Unsqueeze({0}, zero)"
    squeeze = "Squeeze<axes = [0]>(q)" if opset < 13 else "Squeeze(q, zero)"
    cut = "Slice(s, one, two)"
    model = typed_model(
        f"""g (float[N, T, 12] x) => (float[A, B, C, D] y)
        <int64 i0 = {{0}}, int64 i2 = {{2}}, int64 three = {{3}}, int64[1] zero = {{0}}, int64[1] one = {{1}},
         int64[1] two = {{2}}> {{
            s = Shape(x)
            n = Gather(s, i0)
            t = {cut}
            k = Gather(s, i2)
            f = Cast<to = 7>(k)
            h = Div(f, three)
            m = Mul(h, three)
            d = Sub(m, f)
            e = Add(h, d)
            nn = {axes.format("n")}
            q = {axes.format("e")}
            ee = {squeeze}
            e2 = {axes.format("ee")}
            v = Reshape(three, one)
            w = Identity(v)
            z = Concat<axis = 0>(nn, t, e2, w)
            y = Reshape(x, z)
        }}""",
        opset,
    )
    assert shape(model, "y") == ("N", "T", 4, 3)


OPEN = "n = Shape<end = 1>(x) m = Constant<value_ints = [-1]>() s = Concat<axis = 0>(n, m) y = Reshape(x, s)"

RANGE = """s = Shape(x) n = Squeeze(s) zero = Constant<value_int = 0>() one = Constant<value_int = 1>()
    two = Constant<value_int = 2>() i = Range({}, {}, {}) y = Cast<to = 1>(i)"""

PAST = RANGE.replace("i =", "q = Shape(z) p = Squeeze(q) t = Add(n, p) i =")


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("float[N, 6] x", "s = Constant<value_ints = [0, 2, -1]>() y = Reshape(x, s)", ("N", 2, 3)),
        (
            "float[N, T, 6] x",
            OPEN,
            ("N", None),
        ),
        (
            "float[N, 2, 6] x",
            OPEN,
            ("N", 12),
        ),
        (
            "float[N, 6] x",
            "n = Shape(x) y = Expand(x, n)",
            ("N", 6),
        ),
        ("float[N, 1] x, float[4, M] z", "s = Shape(z) y = Expand(x, s)", (4, "M")),
        ("float[N, 3] x", "s = Shape(x) y = ConstantOfShape(s)", ("N", 3)),
        (
            "float[2, 3] x",
            "n = Size(x) l = Constant<value_int = 0>() d = Constant<value_int = 1>() "
            "i = Range(l, n, d) y = Cast<to = 1>(i)",
            (6,),
        ),
        ("float[2, 3] x", "s = Shape(x) y = Tile(x, s)", (4, 9)),
        ("float[N, 3] x", "s = Shape(x) y = Tile(x, s)", (None, 9)),
        ("float[N, 1] x, float[4, M] z", "s = Shape(z) y = Tile(x, s)", (None, "M")),
        ("float[1, N] x, float[M, 1] z", "s = Shape(z) y = Tile(x, s)", ("M", "N")),
        ("float[N, 0] x, float[3, M] z", "s = Shape(z) y = Tile(x, s)", (None, 0)),
        ("float[N] x", RANGE.format("zero", "n", "one"), ("N",)),
        ("float[N] x, float[M] z", PAST.format("p", "t", "one"), ("N",)),
        ("float[N] x, float[M] z", PAST.format("n", "t", "one"), ("M",)),
        ("float[N] x, float[M] z", PAST.format("t", "t", "one"), (0,)),
        ("float[N] x, float[M] z", PAST.format("zero", "t", "one"), (None,)),
        ("float[N] x, float[M] z", PAST.format("n", "p", "one"), (None,)),
        ("float[N] x, float[M] z", PAST.format("p", "t", "two"), (None,)),
        ("float[N] x", RANGE.format("one", "n", "one"), (None,)),
        ("float[N] x", RANGE.format("zero", "n", "two"), (None,)),
        ("float[N] x", RANGE.format("zero", "n", "n"), (None,)),
        ("float[N] x", RANGE.format("n", "zero", "one"), (None,)),
        ("float[N] x", RANGE.format("n", "n", "one"), (0,)),
        ("float[N] x", RANGE.format("two", "one", "one"), (0,)),
    ],
)
def test_targets(inputs: str, body: str, expected: Shape) -> None:
    """Operators whose output's shape is spelled by an input."""
    outputs = ", ".join(f"O{index}" for index in range(len(expected)))
    model = typed_model(f"g ({inputs}) => (float[{outputs}] y) {{ {body} }}")
    found = shape(model, "y") or ()
    assert tuple(None if str(dim).startswith("O") else dim for dim in found) == expected


def test_a_computed_shape_behind_a_type_that_comes_later() -> None:
    """ONNX leaves a Squeeze without axes to us, and took the Reshape behind it for a contradiction."""
    text = """g (float[1, 6] x) => (float[A, B] y) {
        n = Shape<end = 1>(x) m = Constant<value_ints = [-1]>() t = Concat<axis = 0>(n, m)
        a = Squeeze(x) b = Reshape(a, t) y = Neg(b)
    }"""
    assert shape(typed_model(text), "y") == (1, 6)


def test_types_behind_a_computed_shape_follow() -> None:
    """Nodes behind such a Reshape are typed again, up to a bound of nodes."""
    text = """g (float[N, 12] x) => (float[A, B, C] y) {
        s = Shape<end = 1>(x) m = Constant<value_ints = [3, 4]>() t = Concat<axis = 0>(s, m)
        a = Reshape(x, t) b = Relu(a) c = Transpose<perm = [1, 0, 2]>(b) y = Neg(c)
    }"""
    assert shape(typed_model(text), "y") == (3, "N", 4)


def test_typing_nodes_anew_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile model cannot make it slow; its types are weaker then."""
    monkeypatch.setattr(shape_walk, "MOST_NODES", 1)
    text = """g (float[N, 12] x) => (float[A, B, C] y) {
        s = Shape<end = 1>(x) m = Constant<value_ints = [3, 4]>() t = Concat<axis = 0>(s, m)
        a = Reshape(x, t) b = Relu(a) c = Transpose<perm = [1, 0, 2]>(b) y = Neg(c)
    }"""
    model = typed_model(text)
    assert shape(model, "a") == ("N", 3, 4)
    assert shape(model, "y") == ("A", "B", "C")


def test_bodies_of_control_flow_are_typed() -> None:
    """Inner values too, with what they capture and what the node feeds."""
    model = typed_model(
        """g (float[N, 3] x, int64 n, bool c, float[8, 2] xs) => (float[N, 3] y, float[K, N, 3] all, float[8, 2] z) {
            y, all = Loop(n, c, x)
            <body = b (int64 i, bool go, float[P, Q] s) => (bool go2, float[R, S] t, float[U, V] u) {
                go2 = Identity(go) t = Identity(s) u = Relu(x)
            }>
            st, z = Scan<num_scan_inputs = 1, body = sc (float[P, Q] a, float[Q] e) => (float[R, S] a2, float[U] e2) {
                a2 = Identity(a) e2 = Exp(e)
            }>(x, xs)
        }"""
    )
    assert shape(model, "u") == ("N", 3)
    assert shape(model, "e") == (2,)
    assert shape(model, "e2") == (2,)
    assert shape(model, "st") == ("N", 3)


def test_large_constants_are_not_copied() -> None:
    """Inference sees their types only; a constant of 64 MB costs it nothing."""
    proto = model_from_text("g (float[N, 4096] x) => (float[N, M] y) { y = MatMul(x, w) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((4096, 4096), np.float32), "w"))
    model = load_model(proto)
    start = time.perf_counter()
    infer_types(model)
    assert (
        time.perf_counter() - start < 0.5
    )  # a copy through protobuf takes longer; the bound is wide for busy machines
    assert shape(model, "y") == ("N", 4096)


def test_vectors_of_any_length_are_cheap() -> None:
    """Two billion elements, declared, cost nothing: onnx's own data propagation would make an entry for each."""
    start = time.perf_counter()
    model = typed_model(
        """g (float[2147483648] x) => (float[M] y) {
            s = Shape(x) a = Mul(x, x) b = Cast<to = 7>(a) c = Concat<axis = 0>(b, b) y = Sub(a, x)
        }"""
    )
    assert time.perf_counter() - start < 5
    assert shape(model, "y") == (2147483648,)


def test_deep_nesting_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deeper than protobuf reads, as inlined functions can be, values keep the types they declare."""
    monkeypatch.setattr(inference, "_DEEPEST", 1)
    model = typed_model(
        """g (float[2] x, bool c) => (float[A] y) {
            y = If(c) <then_branch = t () => (float[2] p) {
                    o = If(c) <then_branch = tt () => (float[2] i) { i = Neg(x) },
                               else_branch = te () => (float[2] j) { j = Abs(x) }>
                    p = Celu(o)
                }, else_branch = e () => (float[2] q) { q = Abs(x) }>
        }"""
    )
    assert value(model, "o").type is None
    assert shape(model, "y") == ("A",)


def test_operators_without_inference_are_typed_by_their_schema() -> None:
    """Opset 1, ai.onnx.ml, and function bodies that onnx cannot read: at least the element type is known."""
    model = typed_model(
        "g (float[N, 3] x) => (float[A, B] y) { a = Relu(x) b = Concat<axis = 0>(a, a) y = Relu(b) }", 1
    )
    assert shape(model, "a") == ("N", 3)
    assert isinstance(value(model, "b").type, TensorType)
    mvn = typed_model(
        "g (float[N, 3, 2, 2] x) => (float[A, B, C, D] y) { a = MeanVarianceNormalization(x) y = Relu(a) }", 13
    )
    assert shape(mvn, "y") == ("N", 3, 2, 2)
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
    g (float[N, 3] x) => (float[A, B] y) {
        a = ai.onnx.ml.Scaler<offset = [0.0], scale = [1.0]>(x)
        y = ai.onnx.ml.LinearRegressor<coefficients = [1.0, 2.0, 3.0], targets = 1>(a)
    }"""
    assert shape(typed_model(text), "y") == ("N", 1)


def _double(infer: object) -> SchemaRegistry:
    schema = OperatorSchema(
        "Double",
        "my.domain",
        inputs=(FormalParameter("x", "T"),),
        outputs=(FormalParameter("y", "T"),),
        types={"T": frozenset({"tensor(float)"})},
        infer=infer,  # type: ignore[arg-type]  # tests hand in broken ones too
    )
    return SchemaRegistry([schema])


CUSTOM = """<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>
g (float[N, 3] x) => (float[A, B] y) {
    a = Relu(x) b = my.domain.Double(a) c = Neg(b) d = my.domain.Double(c) y = Relu(d)
}"""


def test_contributed_operators_are_asked() -> None:
    """Their types reach the nodes behind them, and contributed ones behind those."""

    def infer(node: NodeSpec) -> list[ValueType | None]:
        known = node.inputs[0].type if node.inputs[0] is not None else None
        if not isinstance(known, TensorType) or known.shape is None:
            return [None]
        return [TensorType(DataType.FLOAT, (*known.shape[:-1], int(known.shape[-1] or 0) * 2))]

    model = typed_model(CUSTOM, schemas=_double(infer))
    assert shape(model, "b") == ("N", 6)
    assert shape(model, "y") == ("N", 12)


def test_declarations_behind_contributed_operators_are_not_believed_against_them() -> None:
    """A wrong rank that the model declares is not kept because it was read before the contributed type was known."""
    proto = model_from_text(CUSTOM)
    proto.graph.value_info.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, [None]))

    def infer(node: NodeSpec) -> list[ValueType | None]:
        return [node.inputs[0].type if node.inputs[0] is not None else None]

    model = typed_model(proto, schemas=_double(infer))
    assert shape(model, "c") == ("N", 3)
    assert shape(model, "y") == ("N", 3)


def test_contributed_operators_without_inference_end_what_is_known() -> None:
    """Behind them only declarations count, and nothing fails."""
    model = typed_model(CUSTOM, schemas=_double(None))
    assert shape(model, "a") == ("N", 3)
    assert value(model, "c").type is None
    assert shape(model, "y") == ("A", "B")


def test_a_broken_contribution_is_named() -> None:
    """The plug-in's own exception is the cause."""

    def infer(node: NodeSpec) -> list[ValueType | None]:
        raise KeyError("oops")

    with pytest.raises(PluginError, match="KeyError") as caught:
        typed_model(CUSTOM, schemas=_double(infer))
    assert isinstance(caught.value.__cause__, KeyError)
    assert "my.domain.Double" in str(caught.value)


HOLDER = OperatorSchema(
    "Apply",
    "my.domain",
    inputs=(FormalParameter("x", "T"),),
    outputs=(FormalParameter("y", "T"),),
    attributes={"body": GraphView, "other": GraphView | None},
    types={"T": frozenset({"tensor(float)"})},
)
HEADER = '<ir_version: 10, opset_import: ["" : 21, "my.domain" : 1]>\n'


def test_graphs_of_contributed_operators_are_typed() -> None:
    """The graphs have declarations, captures of any level, small constants, and nested graphs of ONNX's operators."""
    text = """
    g (float[N, 3] x, bool c) => (y) <int64[2] turned = {3, -1}> {
      k = Relu(x)
      y = my.domain.Apply <body = outer (float[2, M] v) => (w) {
        i = Cast<to = 7>(v)
        r = Reshape(k, turned)
        w = my.domain.Apply <body = inner (float[M] p) => (q) {
          s = MatMul(k, r)
          t = If (c) <then_branch = a () => (e) { e = Shape(i) }, else_branch = b () => (f) { f = Size(s) }>
          q = Add(p, p)
        }> (v)
      }> (x)
    }
    """
    model = typed_model(HEADER + text.replace("(y)", "(float[A, B] y)", 1), schemas=SchemaRegistry([HOLDER]))
    assert value(model, "i").type == TensorType(DataType.INT64, (2, "M"))
    assert (shape(model, "r"), shape(model, "q"), shape(model, "e")) == ((3, "N"), ("M",), (2,))
    assert shape(model, "s") == ("N", "N")


def test_made_up_names_of_two_such_graphs_tie_nothing() -> None:
    """Each graph is asked about by itself: a size unknown in one has nothing to do with one in another."""
    text = """
    g (float[N] x) => (float[A] y) {
      a = my.domain.Apply <body = b1 (float[K] p) => (q) { n1 = NonZero(p) m1 = Abs(n1) q = Cast<to = 1>(m1) }> (x)
      y = my.domain.Apply <body = b2 (float[K] r) => (s) { n2 = NonZero(r) m2 = Abs(n2) s = Cast<to = 1>(m2) }> (a)
    }
    """
    model = typed_model(HEADER + text, schemas=SchemaRegistry([HOLDER]))
    names = {dim for name in ("n1", "m1", "n2", "m2") for dim in shape(model, name) or () if isinstance(dim, str)}
    assert not {one for one in names if one.startswith("unk__")}


def test_contradictions_in_such_a_graph_are_an_error() -> None:
    text = """
    g (float[2, 3] x) => (float[A, B] y) {
      y = my.domain.Apply <body = b (float[4] p) => (q) { q = MatMul(x, p) }> (x)
    }
    """
    with pytest.raises(InvalidGraph, match="contradict"):
        typed_model(HEADER + text, schemas=SchemaRegistry([HOLDER]))


def test_gather_nd_is_typed_without_onnx() -> None:
    """Onnx's inference of it crashes over sizes that other nodes compute; ours gives the same where all is well."""
    text = "g (float[N, 3, 4, 5] x, int64[N, 7, 2] i) => (float[A, B, C] y) { y = GatherND<batch_dims = 1>(x, i) }"
    model = typed_model(text)
    assert shape(model, "y") == ("N", 7, 5)
    odd = typed_model("g (float[N, 3] x, int64[2, K] i) => (float[A] y) { y = GatherND<batch_dims = -2>(x, i) }")
    assert shape(odd, "y") == ("A",)


def test_sizes_beyond_64_bits_are_unknown() -> None:
    """They cannot be written down, let alone allocated."""
    model = typed_model(
        f"""g (float[{2**61}, 64] x) => (float[A] y) <int64[1] zero = {{0}}> {{
            n = Size(x) s = Unsqueeze(n, zero) a = ConstantOfShape(s) y = Neg(a)
        }}"""
    )
    assert shape(model, "a") == (None,)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("y = LayerNormalization<axis = 2147483648>(x, w)", "its axis is 2147483648"),
        ("y, z, u = Split<num_outputs = 2>(x)", "its attribute gives 2 outputs, but it has 3"),
    ],
)
def test_nodes_that_would_crash_onnx_are_an_error(body: str, text: str) -> None:
    """Found by fuzzing: onnx's inference ends the process over these."""
    with pytest.raises(InvalidGraph, match=text):
        typed_model(f"g (float[2, 3] x, float[3] w) => (float[A, B] y) {{ {body} }}")


@pytest.mark.parametrize(
    "body",
    [
        "a = Conv(x, w)",
        "k = Identity(w) a = Conv<kernel_shape = [9, 1]>(x, k)",
        "a = ConvTranspose<pads = [5, 0, 5, 0]>(x, w)",
        "a = MaxPool<kernel_shape = [9, 1]>(x)",
        "a = AveragePool<kernel_shape = [5, 1], dilations = [2, 1]>(x)",
        'a = LpPool<kernel_shape = [9, 1], auto_pad = "VALID">(x)',
        "a = MaxUnpool<kernel_shape = [1, 1], pads = [9, 0, 9, 0]>(x, i)",
        "a = Pad(x, cut)",
        "p = Constant<value_ints = [0, 0, -9, 0, 0, 0, 0, 0]>() a = Pad(x, p)",
        "a = Expand(x, sizes)",
        "a, b = TopK<axis = 2>(x, count)",
        "a, b = Split<axis = 2>(x, parts)",
        "a = Resize(x, , scales)",
        "a = CenterCropPad<axes = [2]>(x, count)",
        """a = If(yes) <then_branch = t () => (float[A, B, C, D] u) { u = Conv(x, w) },
            else_branch = e () => (float[A, B, C, D] v) { v = Conv(x, w) }>""",
    ],
)
def test_negative_sizes_in_front_of_a_slice_are_an_error(body: str) -> None:
    """onnx's inference ends the process over them, so it runs in another one where they are possible."""
    with pytest.raises(InvalidGraph):
        typed_model(
            f"""g (float[1, 1, 1, 1] x, int64[1, 1, 1, 1] i, bool yes) => (float[A, B, C, D] y)
            <float[1, 1, 9, 1] w = {{1, 1, 1, 1, 1, 1, 1, 1, 1}}, int64[8] cut = {{0, 0, -9, 0, 0, 0, 0, 0}},
            int64[4] sizes = {{1, 1, -9, 1}}, int64[1] count = {{-9}}, int64[2] parts = {{-9, 10}},
            float[4] scales = {{1, 1, -9, 1}}, int64[1] zero = {{0}}, int64[1] five = {{5}}, int64[1] two = {{2}}>
            {{ {body} y = Slice(a, zero, five, two) }}"""
        )


@pytest.mark.parametrize(
    "kernel", ["kernel_shape = [3, 3], pads = [1, 1, 1, 1]", "kernel_shape = [3, 3], strides = [2, 2]"]
)
def test_ordinary_windows_are_inferred_in_this_process(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes time to start."""
    monkeypatch.setattr(isolated_inference, "infer_shapes", None)
    model = typed_model(
        f"""g (float[1, 1, 7, 7] x) => (float[A, B, C, D] y)
        <int64[1] zero = {{0}}, int64[1] five = {{5}}, int64[1] two = {{2}}>
        {{ a = MaxPool<{kernel}>(x) y = Slice(a, zero, five, two) }}"""
    )
    assert shape(model, "y") is not None


_LONG_WINDOWS = """<float[1, 1, 9, 1] w = {1, 1, 1, 1, 1, 1, 1, 1, 1},
    int64[1] zero = {0}, int64[1] five = {5}, int64[1] two = {2}>"""


@pytest.mark.parametrize("size", ["N", "9", "20"])
def test_long_windows_are_inferred_in_this_process(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the size that they move along is long enough, or not a number."""
    monkeypatch.setattr(isolated_inference, "infer_shapes", None)
    model = typed_model(
        f"""g (float[1, 1, {size}, 7] x) => (float[A, B, C, D] y) {_LONG_WINDOWS}
        {{ a = Relu(x) b = Conv(a, w) y = Slice(b, zero, five, two) }}"""
    )
    found = shape(model, "y")
    assert found is not None
    assert found[3] == 7


def test_a_negative_size_behind_another_long_window_is_an_error() -> None:
    """The first leaves 2 of 10, the second would leave -6."""
    with pytest.raises(InvalidGraph):
        typed_model(
            f"""g (float[1, 1, 10, 7] x) => (float[A, B, C, D] y) {_LONG_WINDOWS}
            {{ a = Conv(x, w) b = Conv(a, w) y = Slice(b, zero, five, two) }}"""
        )


@pytest.mark.parametrize(("dims", "expected"), [("2,1,3", (2, 3)), ("N,1,3", None)])
def test_a_squeeze_without_axes(dims: str, expected: tuple[int, ...] | None) -> None:
    """The dropped axes are known if all sizes are; an unknown size may be 1."""
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[{dims}] x) => (float[?] y) {{ a = Squeeze(x) y = Relu(a) }}'
    )
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    (output,) = typed_model(proto).graph.outputs
    assert isinstance(output.type, TensorType)
    assert output.type.shape == expected


@pytest.mark.parametrize(
    ("body", "shape", "expected"),
    [
        ("y = Squeeze <axes = [4, 0, 3]> (x)", "1,5,4,1,1", (5, 4)),
        ("y = Squeeze <axes = [-1, 0]> (x)", "1,5,1", (5,)),
        ("y = Squeeze <axes: ints = []> (x)", "1,5,1", (5,)),
        ("y = Unsqueeze <axes = [-1, 0]> (x)", "5,4", (1, 5, 4, 1)),
    ],
)
def test_axes_in_any_order_before_version_11(body: str, shape: str, expected: tuple[int, ...]) -> None:
    """Axes that are not sorted, or count from the end, give no wrong shape where ONNX's inference misreads them."""
    text = f'<ir_version: 5, opset_import: ["" : 10]> g (float[{shape}] x) => (float[?] y) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    (output,) = typed_model(proto).graph.outputs
    assert isinstance(output.type, TensorType)
    assert output.type.shape in {None, expected}


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("opset", [12, 18, 22])
def test_pools_that_round_up_and_pad_by_themselves(auto_pad: str, opset: int) -> None:
    """Strides longer than the kernel: ONNX counted a window that begins behind the input."""
    model = typed_model(
        f"""g (float[1, 1, 9, 8] x) => (float[A, B, C, D] y) {{
            y = MaxPool<auto_pad = "{auto_pad}", ceil_mode = 1, kernel_shape = [1, 2], strides = [3, 5]>(x)
        }}""",
        opset,
    )
    inferred = model.graph.outputs[0].type
    assert isinstance(inferred, TensorType)
    # The specification: SAME gives ceil(size / stride), VALID ceil((size - reach + 1) / stride).
    assert inferred.shape == (1, 1, 3, 2)


@pytest.mark.parametrize("group", [1, 2])
def test_a_deconvolution_that_pads_by_itself(group: int) -> None:
    """Its size is that of the input times the stride; ONNX's inference adds the output padding."""
    model = typed_model(
        f"""g (float[N, 4, 7, M] x, float[4, 3, 3, 3] w) => (float[A, B, C, D] y) {{
            a = ConvTranspose<auto_pad = "SAME_UPPER", strides = [2, 2], output_padding = [1, 0], group = {group}>(x, w)
            y = Relu(a)
        }}"""
    )
    assert shape(model, "a") == ("N", 3 * group, 14, None)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_a_deconvolution_with_a_stride_longer_than_its_kernel(mode: str) -> None:
    """Its size is that of the input times the stride; ONNX's inference says 10, from the kernel."""
    model = typed_model(
        f"""g (float[N, 4, 4, 5] x, float[4, 1, 1, 5] w) => (float[A, B, C, D] y) {{
            a = ConvTranspose<auto_pad = "{mode}", strides = [3, 2]>(x, w) y = Relu(a)
        }}"""
    )
    assert shape(model, "a") == ("N", 1, 12, 10)


def test_a_spectrum_is_one_sided_by_default() -> None:
    """Half of the frequencies of four samples are three; ONNX's inference says four, and refused the sum."""
    model = typed_model(
        """g (float[N, 7, 1] x) => (float[A, B, C, D] y)
        <int64 step = {2}, int64 size = {4}, float[3, 1] k = {1, 2, 3}> {
            a = STFT(x, step, , size) y = Add(a, k)
        }"""
    )
    assert shape(model, "a") is None  # the table of constraints does not know it


@pytest.mark.parametrize("call", ["Reshape(x, table)", "Expand(x, table)", "Tile(x, table)"])
def test_lists_of_two_axes_give_no_shape(call: str) -> None:
    """Older operator sets let ONNX's inference read them as if they were flat; every runtime refuses them."""
    text = f"""<ir_version: 4, opset_import: ["" : 9]>
        g (float[2, 3] x) => (float[?, ?] y) <int64[1, 2] table = {{3, 2}}> {{ a = {call} y = Relu(a) }}"""
    assert shape(typed_model(onnx.parser.parse_model(text)), "a") is None


def test_twenty_thousand_nodes_are_quick() -> None:
    """A large graph is typed in a fraction of a second."""
    nodes = [helper.make_node("Add", [f"x{i}", "w"], [f"x{i + 1}"]) for i in range(20_000)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["N", 3])],
        [helper.make_empty_tensor_value_info("x20000")],
        [onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")],
    )
    model = load_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    start = time.process_time()
    infer_types(model)
    assert time.process_time() - start < 2  # 0.2 s when the machine does nothing else
    assert shape(model, "x20000") == ("N", 3)


def test_a_size_that_slice_cuts_has_another_name_in_version_10() -> None:
    """ONNX's inference, which types graphs with a pool that pads by itself, keeps the name there."""
    text = (
        '<ir_version: 6, opset_import: ["" : 10]> g (float[N, 2, 4] x) => (float[A, B, C] y)'
        "<int64[1] s = {0}, int64[1] e = {1}, int64[1] a = {0}>"
        '{ w = MaxPool<auto_pad = "SAME_UPPER", kernel_shape = [2]>(x) z = Slice(w, s, e, a) y = Relu(z) }'
    )
    assert shape(typed_model(text), "z") == (None, 2, 4)


def test_a_target_that_may_be_0_names_no_size_of_a_source_that_has_others() -> None:
    """A 0 in the target keeps the source's size."""
    model = typed_model(
        "g (float[A, 3] x, float[N, 3] z) => (float[P, Q] y) { s = Shape(z) w = Reshape(x, s) y = Neg(w) }"
    )
    assert shape(model, "w") == (None, 3)


def test_a_target_names_sizes_that_the_source_has_elsewhere() -> None:
    """The source has no elements where such a size is 0."""
    text = (
        "g (float[A, B] x) => (float[P, Q] y) <int64[2] i = {1, 0}>"
        "{ s = Shape(x) t = Gather(s, i) w = Reshape(x, t) y = Neg(w) }"
    )
    assert shape(typed_model(text), "w") == ("B", "A")


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2, 3] x) => (float[2, 5] y) <int32[1] axes = {-1}, int64[2] pads = {1, 1}>"
        '{ y = Pad(x, pads, "", axes) }',
        'g (float[A, B] x, int64[C] s) => (float[M, N] y) { y = Resize<mode = "nearest">(x, "", "", s) }',
    ],
    ids=["axes of 32 bits", "any number of sizes"],
)
def test_what_onnx_refuses_by_mistake_is_loaded(text: str) -> None:
    assert len(shape(typed_model(text), "y") or ()) == 2
