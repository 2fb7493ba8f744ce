"""Claims and refusals, with the messages that users see."""

from __future__ import annotations

import numpy as np
import onnx.numpy_helper
import pytest

from ort_py_openvino import question
from providers.openvino.tests.models import NAME, check, opened, parsed, refusals, runners

RNG = np.random.default_rng(8)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def test_a_convolution_net_is_one_region() -> None:
    """From the picture to the class."""
    text = """g (float[n, 3, 16, 16] x, float[8, 3, 3, 3] w, float[8] b) => (float[n, 8] y) {
        c = Conv <pads = [1, 1, 1, 1]> (x, w, b) r = Relu(c) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
        a = GlobalAveragePool(p) f = Flatten(a) y = Softmax(f)
    }"""
    session = check(text, {"x": floats(2, 3, 16, 16), "w": floats(8, 3, 3, 3), "b": floats(8)})
    assert set(runners(session).values()) == {NAME}
    assert len({node.region for node in session.placement.nodes}) == 1


def test_openvinos_own_words() -> None:
    """An operator that its reader has no rule for."""
    session = opened("g (float[3, 3] x) => (float y) { y = Det(x) }")
    assert refusals(session, "Det") == "OpenVINO: no conversion rule for Det-21"


def test_it_is_asked_once_for_each_kind_of_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of two hundred nodes costs two questions."""
    asked: list[str] = []
    original = question._ask

    def ask(node: object, graph: object) -> str | None:
        asked.append(node.op_type)  # type: ignore[attr-defined]  # a NodeSpec
        return original(node, graph)  # type: ignore[arg-type]  # likewise

    monkeypatch.setattr(question, "_ask", ask)
    monkeypatch.setattr(question, "_answers", type(question._answers)())
    chain = " ".join(f"a{i} = Sin({f'b{i - 1}' if i else 'x'}) b{i} = Cos(a{i})" for i in range(100))
    session = opened(f"g (float[3] x) => (float[3] b99) {{ {chain} }}")
    assert sorted(asked) == ["Cos", "Sin"]
    assert set(runners(session).values()) == {NAME}


@pytest.mark.parametrize(
    ("text", "op_type", "words"),
    [
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "Identity", "'x' is string"),
        ("g (double[2] x) => (double[2] y) { y = Exp(x) }", "Exp", "'x' is double, which OpenVINO does not compute"),
        ("g (seq(float[2]) x) => (int64 y) { y = SequenceLength(x) }", "SequenceLength", "'x' is not a tensor"),
        ("g (float[2] x) => (float[2] y) { y = org.example.Twice(x) }", "Twice", "an operator of org.example"),
        ("g (float[2, 0] x) => (float[2, 0] y) { y = Exp(x) }", "Exp", "'x' is empty"),
        ("g (float[2, n] x) => (float[2] y) <float[0] w = {}> { y = MatMul(x, w) }", "MatMul", "'w' is empty"),
        ("g (int64[2] x) => (int64[2] y) { y = Add(x, x) }", "Add", "int64 of unknown size"),
        ("g (float[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }", "Cast", "a cast to int64"),
        ("g (float[1, 2, 8] x, float[3, 2, k] w) => (float[1, 3, m] y) { y = Conv(x, w) }", "Conv", "'w' has sizes"),
        (
            "g (float[1, 2, 8] x, float[2, 3, k] w) => (float[1, 3, m] y) { y = ConvTranspose(x, w) }",
            "ConvTranspose",
            "'w' has sizes that are not known, and OpenVINO compiles no ConvTranspose without them",
        ),
        ("g (float[n, 2, 8] x) => (float[n, 2, 1] y) { y = GlobalLpPool(x) }", "GlobalLpPool", "'x' has sizes"),
        (
            "g (float[5, n, 2] x, float[1, k, 2] w, float[1, k, k] r) => (float[5, 1, n, 1] y) { "
            "y = RNN <hidden_size = 1> (x, w, r) }",
            "RNN",
            "'w' has sizes that are not known, and OpenVINO compiles no RNN without them",
        ),
        (
            "g (float[5, n, 2] x, float[1, 3, 2] w, float[1, 3, 1] r) => (float[5, 1, n, 1] y) "
            "<float[1, 1, 1] h = {0.5}> { y = GRU <hidden_size = 1> (x, w, r, , , h) }",
            "GRU",
            "'x' has sizes that are not known",
        ),
        (
            "g (float[2, 4] a, float[n, 4] b) => (float[2, m] y) <float[3] c = {1.0, 2.0, 3.0}> { "
            "y = Gemm <transB = 1> (a, b, c) }",
            "Gemm",
            "a transposed product of unknown width together with constants for each column",
        ),
    ],
)
def test_what_is_left_to_others(text: str, op_type: str, words: str) -> None:
    """Types, domains, and integers that 32 bits do not hold."""
    functions = '<domain: "org.example", opset_import: ["" : 21]> Twice (a) => (b) { b = Add(a, a) }'
    session = opened(parsed(text, functions=functions if "example" in text else ""))
    assert words in refusals(session, op_type) or op_type == "Twice"
    assert NAME not in runners(session).values() or op_type == "Twice"


@pytest.mark.parametrize("end", ["y = Add(m, c)", "r = Relu(m) y = Mul(c, r)", "y = PRelu(m, c)"])
def test_constants_for_columns_behind_a_product_of_unknown_width(end: str) -> None:
    """OpenVINO takes the product alone; with a single constant it takes all."""
    text = """g (float[2, 4] a, float[n, 4] b) => (float[2, k] y) <float[%s] c = {%s}> {
        t = Transpose <perm = [1, 0]> (b) m = MatMul(a, t) %s
    }"""
    feeds = {"a": floats(2, 4), "b": floats(3, 4)}
    session = check(text % (3, "0.5, 2.0, 3.0", end), feeds)
    assert runners(session)["MatMul"] == NAME
    assert "product of unknown width" in refusals(session, end.rpartition("=")[2].partition("(")[0].strip())
    assert set(runners(check(text % (1, "0.5", end), feeds)).values()) == {NAME}


def test_sizes_and_places_may_be_int64() -> None:
    """Shapes computed at run time stay in the region, and token numbers find their rows."""
    text = """g (float[9, 4] table, int64[a, b] tokens) => (float[c, d] y)
    <int64[1] minus = {-1}, int64[1] zero = {0}> {
        rows = Gather(table, tokens) s = Shape(rows) first = Gather(s, zero) wanted = Concat <axis = 0> (first, minus)
        y = Reshape(rows, wanted)
    }"""
    session = check(text, {"table": floats(9, 4), "tokens": np.array([[0, 8, -1], [3, 3, 3]])})
    assert set(runners(session).values()) == {NAME}


def test_static_shapes_only_where_that_is_asked() -> None:
    session = opened("g (float[n, 4] x) => (float[n, 4] y) { y = Exp(x) }", disable_dynamic_shapes=True)
    assert "sizes that are not known, and disable_dynamic_shapes is set" in refusals(session, "Exp")


def test_small_regions_do_not_pay() -> None:
    """A request costs more than a few numbers do on NumPy."""
    session = opened("g (float[4] x) => (float[4] y) { y = Exp(x) }", claim_small=False)
    assert "does not pay: too little work for a request" in refusals(session, "Exp")


def test_nested_graphs_are_the_cores() -> None:
    """The node is not taken; what its branches do may be."""
    text = """g (bool c, float[4] x) => (float[4] y) {
        y = If (c) <
            then_branch = t () => (float[4] a) { a = Sin(x) }, else_branch = e () => (float[4] b) { b = Cos(x) }
        >
    }"""
    session = check(text, {"c": np.array(True), "x": floats(4)})
    assert refusals(session, "If") == "nested graphs are run by the core, step by step"


def test_integer_weights_are_no_reason_to_round_activations() -> None:
    """OpenVINO by itself rounds them to 8 bits, 2 % off; here a float32 product is one."""
    text = """g (float[4, 512] x, int8[512, 256] q, float[256] s) => (float[4, 256] y) {
        w = DequantizeLinear <axis = 1> (q, s) y = MatMul(x, w)
    }"""
    q = RNG.integers(-127, 128, (512, 256), np.int8)
    s = RNG.uniform(0.001, 0.002, 256).astype(np.float32)
    model = parsed(text)
    for name, array in (("q", q), ("s", s)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del model.graph.input[1:]
    session = opened(model)
    assert set(runners(session).values()) == {NAME}
    x = floats(4, 512)
    (y,) = session.run(None, {"x": x})
    exact = x.astype(np.float64) @ (q * s.astype(np.float64))
    assert np.linalg.norm(y - exact) / np.linalg.norm(exact) < 1e-5


def test_an_operator_in_the_middle_splits_the_region() -> None:
    """Operators that OpenVINO lacks run on NumPy, and the others do not."""
    text = """g (float[3, 3] x) => (float[3, 3] y) { a = Sin(x) d = Det(a) b = Cos(a) y = Mul(b, d) }"""
    found = runners(check(text, {"x": floats(3, 3)}))
    assert found == {"Sin": NAME, "Det": "CPUExecutionProvider", "Cos": NAME, "Mul": NAME}
