"""Gradient nodes replaced: what is differentiated, at which values, in which order."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from core.tests.transforms.gradient.models import DOMAIN, computed, lowered, operators, with_gradient
from ort_py.dtypes import TensorType
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.graph.checking.verify import verify
from ort_py.limits import Limits
from ort_py.transforms.gradient.lowering import lower_gradients
from ort_py_kit.graphs import model_from_text, reference_run, typed_model


def test_every_x_gets_its_partial_derivative() -> None:
    """d(a (a + b)) is 2 a + b and a."""
    found = computed(
        """g (float a, float b) => (float da, float db) {
            c = Add(a, b) d = Mul(c, a) da, db = Gradient<xs = ["a", "b"], y = "d">(a, b)
        }""",
        a=3.0,
        b=5.0,
    )
    assert found == [11.0, 3.0]


def test_a_model_without_gradients_is_left_alone() -> None:
    """Nothing is counted, nothing is changed."""
    model = typed_model("g (float x) => (float y) { y = Exp(x) }")
    before = list(model.graph.nodes)
    assert lower_gradients(model, SchemaRegistry(), Limits()) == 0
    assert model.graph.nodes == before


def test_a_y_of_many_elements_is_summed() -> None:
    """The gradient is that of the sum of y: y's own gradient is one everywhere."""
    found = computed(
        """g (float[2, 2] x, float[2] w) => (dw) {
            y = Mul(x, w) dw = Gradient<xs = ["w"], zs = ["x"], y = "y">(w, x)
        }""",
        x=[[1, 2], [3, 4]],
        w=[1, 1],
    )
    assert found == [[4.0, 6.0]]


def test_an_x_that_y_does_not_depend_on_gets_zeros() -> None:
    """In its own shape, sizes unknown included."""
    found = computed(
        'g (float x, float[N] u) => (dx, du) { y = Mul(x, x) dx, du = Gradient<xs = ["x", "u"], y = "y">(x, u) }',
        x=3.0,
        u=[1, 2],
    )
    assert found == [6.0, [0.0, 0.0]]


def test_y_may_be_an_x() -> None:
    """Its derivative by itself is one."""
    found = computed('g (float[2] x) => (dx) { dx = Gradient<xs = ["x"], y = "x">(x) }', x=[3, 4])
    assert found == [[1.0, 1.0]]


def test_a_path_without_derivative_gives_zeros() -> None:
    """Through integers, and through operators that are constant between steps."""
    found = computed(
        """g (float[3] x) => (da, db, dc) {
            i = Cast<to = 7>(x) a = Cast<to = 1>(i) b = Floor(x) n = Size(x) c = Cast<to = 1>(n)
            da = Gradient<xs = ["x"], y = "a">(x)
            db = Gradient<xs = ["x"], y = "b">(x)
            dc = Gradient<xs = ["x"], y = "c">(x)
        }""",
        x=[1, 2, 3],
    )
    assert found == [[0.0] * 3] * 3


def test_outputs_nobody_asks_for_are_left_out() -> None:
    """An empty name skips a gradient, and so does leaving outputs away: c's path needs no rule then."""
    model = lowered(
        """g (float a, float b, float[2, 2] c) => (db) {
            d = Mul(a, b) e = Det(c) y = Mul(d, e) "", db = Gradient<xs = ["a", "b", "c"], y = "y">(a, b, c)
        }"""
    )
    assert operators(model) == {"Mul": 4, "Det": 1, "Expand": 1}


def test_intermediate_tensors_may_be_x() -> None:
    """dY/dH: what H is computed from plays no part."""
    found = computed(
        """g (float x, float z) => (dh, dz) {
            h = Exp(x) y = Mul(h, z) dh, dz = Gradient<xs = ["h", "z"], y = "y">(h, z)
        }""",
        x=0.0,
        z=5.0,
    )
    assert found == [5.0, 1.0]


def test_weights_may_be_x() -> None:
    """Initializers have gradients as inputs have."""
    found = computed(
        'g (float[2] x) => (dw) <float[2] w = {3, 4}> { y = Mul(x, w) dw = Gradient<xs = ["w"], y = "y">(w) }',
        x=[5, 6],
    )
    assert found == [[5.0, 6.0]]


def test_values_read_twice_sum_both_ways() -> None:
    """x^2 + exp(x), each through its own nodes."""
    found = computed(
        """g (float x) => (dx) {
            a = Mul(x, x) b = Exp(x) c = Add(a, b) y = Add(c, x) dx = Gradient<xs = ["x"], y = "y">(x)
        }""",
        x=0.0,
    )
    assert found == [2.0]


# Values that are fed --------------------------------------------------------------------------------------------------


def test_the_gradient_is_taken_at_the_values_fed() -> None:
    """Nothing but the tensors named is replaced; the graph's own y stays what it was."""
    found = computed(
        """g (float x, float p) => (y, dx) {
            h = Mul(x, x) y = Mul(h, x) dx = Gradient<xs = ["x"], y = "y">(p)
        }""",
        x=2.0,
        p=10.0,
    )
    assert found == [8.0, 300.0]


def test_an_intermediate_tensor_fed_with_another_value() -> None:
    """dY/dH at H_1; Z is what the graph has."""
    found = computed(
        """g (float x, float h1, float z) => (dh) {
            h = Exp(x) s = Mul(h, h) y = Mul(s, z) dh = Gradient<xs = ["h"], zs = ["z"], y = "y">(h1, z)
        }""",
        x=0.0,
        h1=7.0,
        z=3.0,
    )
    assert found == [42.0]


def test_only_zs_may_be_fed_with_another_value() -> None:
    """The value takes the place of the tensor wherever the path reads it."""
    found = computed(
        """g (float x, float z, float q) => (dx) {
            y = Mul(x, z) dx = Gradient<xs = ["x"], zs = ["z"], y = "y">(x, q)
        }""",
        x=1.0,
        z=2.0,
        q=9.0,
    )
    assert found == [9.0]


def test_two_tensors_fed_with_one_value_stay_two_variables() -> None:
    """The partial derivatives of a b at (p, p) are p and p, not 2 p."""
    found = computed(
        """g (float a, float b, float p) => (da, db) {
            y = Mul(a, b) da, db = Gradient<xs = ["a", "b"], y = "y">(p, p)
        }""",
        a=1.0,
        b=2.0,
        p=4.0,
    )
    assert found == [4.0, 4.0]


def test_a_tensor_fed_with_what_is_computed_from_another() -> None:
    """The value is a constant for the derivative, though the path computes the same number itself."""
    found = computed(
        """g (float a, float b) => (da) {
            f = Exp(a) y = Mul(f, b) da = Gradient<xs = ["a"], zs = ["b"], y = "y">(a, f)
        }""",
        a=0.0,
        b=2.0,
    )
    assert found == [1.0]


def test_a_function_is_evaluated_at_other_values() -> None:
    """The operator is copied whole before its function takes its place, for the gradient alone."""
    graph = """g (float[1, 2] x, int64[1] t, float[1, 2] p) => (loss, dx) {
        loss = SoftmaxCrossEntropyLoss(x, t) dx = Gradient<xs = ["x"], zs = ["t"], y = "loss">(p, t)
    }"""
    loss, slope = computed(graph, x=[[0, 0]], p=[[0, np.log(3)]], t=np.array([0]))
    np.testing.assert_allclose(loss, np.log(2), rtol=1e-6)
    np.testing.assert_allclose(slope, [[-0.75, 0.75]], rtol=1e-6)
    assert operators(lowered(graph))["SoftmaxCrossEntropyLoss"] == 1


def test_names_swapped() -> None:
    found = computed(
        """g (float a, float b) => (da, db) {
            s = Mul(a, a) y = Mul(s, b) da, db = Gradient<xs = ["a", "b"], y = "y">(b, a)
        }""",
        a=2.0,
        b=3.0,
    )
    assert found == [12.0, 9.0]


# Order and nesting ----------------------------------------------------------------------------------------------------


def test_gradients_of_gradients() -> None:
    """x^4: 4 x^3, 12 x^2, 24 x."""
    found = computed(
        """g (float x) => (d1, d2, d3) {
            s = Mul(x, x) y = Mul(s, s)
            d1 = Gradient<xs = ["x"], y = "y">(x)
            d2 = Gradient<xs = ["x"], y = "d1">(x)
            d3 = Gradient<xs = ["x"], y = "d2">(x)
        }""",
        x=2.0,
    )
    assert found == [32.0, 48.0, 48.0]


def test_a_gradient_may_stand_before_what_it_differentiates() -> None:
    """Names are not reads, so files may hold the nodes in any order."""
    found = computed(
        """g (float x) => (d2, d1, y) {
            d2 = Gradient<xs = ["x"], y = "d1">(x)
            d1 = Gradient<xs = ["x"], y = "y">(x)
            y = Mul(x, x)
        }""",
        x=3.0,
    )
    assert found == [2.0, 6.0, 9.0]


def test_the_result_of_a_gradient_is_used_in_a_loss() -> None:
    """A penalty on the gradient, as in training: d(x^2 + (2 x)^2) = 10 x."""
    found = computed(
        """g (float x) => (total) {
            y = Mul(x, x) d = Gradient<xs = ["x"], y = "y">(x) p = Mul(d, d) l = Add(y, p)
            total = Gradient<xs = ["x"], y = "l">(x)
        }""",
        x=1.5,
    )
    assert found == [15.0]


@pytest.mark.parametrize(("flag", "expected"), [(True, 6.0), (False, 1.0)])
def test_inside_a_branch(flag: bool, expected: float) -> None:
    """Nested graphs may differentiate what is outside, and what is their own."""
    found = computed(
        """g (float x, bool c) => (r) {
            y = Mul(x, x)
            r = If(c) <
                then_branch = t () => (float a) { a = Gradient<xs = ["x"], y = "y">(x) },
                else_branch = e () => (float b) { k = Identity(x) b = Gradient<xs = ["x"], y = "k">(x) }
            >
        }""",
        x=3.0,
        c=np.array(flag),
    )
    assert found == [expected]


@pytest.mark.parametrize("feed", ["x", "p"])
def test_inside_a_function(feed: str) -> None:
    """Names mean what they mean in the function, wherever it is called from and whatever the model calls its values."""
    found = computed(
        "g (float y, float p) => (r, s) { x = Mul(p, p) r = local.slope(x, p) s = local.slope(y, p) }",
        more=f"""<domain: "local", opset_import: ["" : 21, "{DOMAIN}" : 1]>
        slope (x, p) => (d) {{ h = Mul(x, x) y = Mul(h, x) d = {DOMAIN}.Gradient<xs = ["x"], y = "y">({feed}) }}""",
        y=1.0,
        p=2.0,
    )
    assert found == ([48.0, 3.0] if feed == "x" else [12.0, 12.0])


def test_siblings_with_one_name_for_two_values() -> None:
    """Each branch differentiates its own y."""
    for flag, expected in ((True, 6.0), (False, 27.0)):
        found = computed(
            """g (float x, bool c) => (r) {
                r = If(c) <
                    then_branch = t () => (float a) { y = Mul(x, x) a = Gradient<xs = ["x"], y = "y">(x) },
                    else_branch = e () => (float b) {
                        h = Mul(x, x) y = Mul(h, x) b = Gradient<xs = ["x"], y = "y">(x)
                    }
                >
            }""",
            x=3.0,
            c=np.array(flag),
        )
        assert found == [expected]


def test_functions_on_the_path_are_expanded() -> None:
    """An operator without a rule whose function ONNX knows is replaced by it; others stay as they are."""
    model = lowered(
        """g (float[2, 4] x, float[4] s, float[2, 4] u) => (dx, v) {
            y = RMSNormalization(x, s) v = RMSNormalization(u, s) dx = Gradient<xs = ["x"], zs = ["s"], y = "y">(x, s)
        }""",
        opset=23,
    )
    assert operators(model)["RMSNormalization"] == 1


# Types, names, order of the result ------------------------------------------------------------------------------------


def test_results_are_typed() -> None:
    """A gradient has the element type and the shape of its tensor, symbolic sizes included."""
    model = lowered(
        """g (double[N, 3] x, double[3] w) => (dx, dw) {
            y = Mul(x, w) dx, dw = Gradient<xs = ["x", "w"], y = "y">(x, w)
        }"""
    )
    types = [value.type for value in model.graph.outputs]
    assert [known.shape for known in types if isinstance(known, TensorType)] == [("N", 3), (3,)]


def test_a_wrong_declared_shape_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        model = lowered('g (float[2] x) => (float[5] dx) { y = Mul(x, x) dx = Gradient<xs = ["x"], y = "y">(x) }')
    assert "the gradient of 'x'" in caplog.text
    found = model.graph.outputs[0].type
    assert isinstance(found, TensorType)
    assert found.shape == (2,)


def test_only_what_is_needed_is_written() -> None:
    """Derivatives by other operands leave no nodes and no constants behind."""
    model = lowered(
        """g (float[2] x, float[2] z) => (dx) {
            e = Pow(x, z) y = Div(e, z) dx = Gradient<xs = ["x"], zs = ["z"], y = "y">(x, z)
        }"""
    )
    assert "Log" not in operators(model)
    assert all(value.uses for value in model.graph.initializers.values())


def test_names_that_are_taken_stay_with_their_values() -> None:
    """New values get other names than those of the model's own."""
    text = 'g (float x) => (d, t) { q = Exp(x) t = Neg(q) y = Mul(x, x) d = Gradient<xs = ["x"], y = "y">(x) }'
    first = lowered(text)
    made = {value.name for node in first.graph.nodes if node.origin for value in node.outputs if value is not None}
    taken = next(name for name in sorted(made) if name != "d")
    proto = model_from_text(with_gradient(text))
    proto.graph.node[0].output[0] = proto.graph.node[1].input[0] = taken
    model = typed_model(proto)
    lower_gradients(model, SchemaRegistry(), Limits())
    verify(model.graph)
    assert reference_run(model, {"x": np.float32(0.0)}) == [0.0, -1.0]


@pytest.mark.parametrize(("number", "name"), [(10, "FLOAT16"), (16, "BFLOAT16"), (11, "DOUBLE")])
def test_constants_take_the_type_of_the_values(number: int, name: str) -> None:
    """On a path that goes through another type, nodes compute in that type."""
    model = lowered(
        f"""g (float[2] x) => (d) {{
            a = Cast<to = {number}>(x) b = Tanh(a) y = Cast<to = 1>(b) d = Gradient<xs = ["x"], y = "y">(x)
        }}"""
    )
    (difference,) = [node for node in model.graph.nodes if node.op_type == "Sub"]
    types = [value.type for value in difference.inputs if value is not None]
    assert [known.data_type.name for known in types if isinstance(known, TensorType)] == [name, name]


def test_deep_graphs_need_no_recursion() -> None:
    """Three thousand nodes in a row."""
    steps = " ".join(f"v{index + 1} = Sin(v{index})" for index in range(3000))
    model = lowered(f'g (float v0) => (d) {{ {steps} d = Gradient<xs = ["v0"], y = "v3000">(v0) }}')
    assert operators(model) == {"Sin": 3000, "Cos": 3000, "Mul": 3000, "Expand": 1}
