"""Refusals of Gradient and their messages."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from core.tests.transforms.gradient.models import lowered
from ort_py import errors
from ort_py.errors import InvalidGraph, LimitError, OrtPyError
from ort_py.limits import Limits
from ort_py.transforms.gradient.registry import find_rule, rules

XY = "y = Mul(x, x)"


def refusal(graph: str, kind: type[OrtPyError], opset: int = 21, limits: Limits | None = None) -> OrtPyError:
    """The error that lowering raises; it names the node and says what to do."""
    with pytest.raises(kind) as caught:
        lowered(graph, opset, limits)
    error = caught.value
    assert error.location.node
    assert error.why
    assert error.fix
    return error


@pytest.mark.parametrize(
    ("gradient", "attribute"),
    [
        ('Gradient<xs = ["q"], y = "y">(x)', "xs"),
        ('Gradient<xs = ["x"], zs = ["q"], y = "y">(x, x)', "zs"),
        ('Gradient<xs = ["x"], y = "q">(x)', "y"),
    ],
)
def test_a_name_that_does_not_exist(gradient: str, attribute: str) -> None:
    """Each attribute's names are looked up in the graph and around it."""
    error = refusal(f"g (float x) => (d) {{ {XY} d = {gradient} }}", InvalidGraph)
    assert f"names 'q' in {attribute}, which does not exist" in str(error)


@pytest.mark.parametrize("inputs", ["x, x", "", '""'])
def test_inputs_that_do_not_fit_the_names(inputs: str) -> None:
    text = f'g (float x) => (d) {{ {XY} d = Gradient<xs = ["x"], zs = ["x", "x"], y = "y">({inputs}) }}'
    with pytest.raises(InvalidGraph) as caught:
        lowered(text)
    assert "inputs" in str(caught.value)


def test_more_outputs_than_xs() -> None:
    """There is one gradient for each."""
    error = refusal(f'g (float x) => (d, e) {{ {XY} d, e = Gradient<xs = ["x"], y = "y">(x) }}', InvalidGraph)
    assert "2 outputs for 1 xs" in str(error)


def test_a_name_given_twice() -> None:
    """In xs, in zs, or in both."""
    error = refusal(f'g (float x) => (d) {{ {XY} d = Gradient<xs = ["x"], zs = ["x"], y = "y">(x, x) }}', InvalidGraph)
    assert "'x' more than once" in str(error)


def test_variables_that_are_not_independent() -> None:
    """The specification forbids a tensor beside one that is computed from it."""
    error = refusal(
        """g (float w, float x) => (d, e) {
            h = Mul(w, x) i = Exp(h) y = Mul(i, w) d, e = Gradient<xs = ["w", "i"], y = "y">(w, i)
        }""",
        InvalidGraph,
    )
    assert "names 'w' and a tensor that is computed from it" in str(error)


@pytest.mark.parametrize("which", ["x", "y"])
def test_tensors_without_derivatives(which: str) -> None:
    body = {
        "x": 'g (int64 n) => (float d) { y = Cast<to = 1>(n) d = Gradient<xs = ["n"], y = "y">(n) }',
        "y": 'g (float x) => (float d) { y = Cast<to = 7>(x) d = Gradient<xs = ["x"], y = "y">(x) }',
    }[which]
    error = refusal(body, InvalidGraph)
    assert "needs floating-point tensors" in str(error)


def test_a_value_of_another_type() -> None:
    error = refusal(f'g (float x, double p) => (d) {{ {XY} d = Gradient<xs = ["x"], y = "y">(p) }}', InvalidGraph)
    assert "for 'x'" in str(error)
    assert "Cast" in error.fix


def test_a_gradient_of_itself() -> None:
    """y may not follow from the result; the circle is named."""
    error = refusal(
        """g (float x) => (y) {
            d = Gradient<xs = ["x"], y = "y">(x) y = Mul(x, d)
        }""",
        InvalidGraph,
    )
    assert "differentiates its own result" in str(error)
    assert "d -> d" in str(error)


def test_two_gradients_of_each_other() -> None:
    error = refusal(
        """g (float x) => (y, z) {
            d = Gradient<xs = ["x"], y = "z">(x) y = Mul(x, d)
            e = Gradient<xs = ["x"], y = "y">(x) z = Mul(x, e)
        }""",
        InvalidGraph,
    )
    assert "d -> e -> d" in str(error) or "e -> d -> e" in str(error)


def test_an_operator_without_a_rule() -> None:
    """Names the node, the operator, its version, and where rules are added."""
    error = refusal(
        'g (float[2, 2] x) => (d) { e = Det(x) y = Exp(e) d = Gradient<xs = ["x"], y = "y">(x) }', errors.NotImplemented
    )
    assert "derivative of Det(11)" in str(error)
    assert error.location.node == "e"
    assert "@rule" in error.fix


def test_an_operator_without_a_rule_beside_the_path() -> None:
    """A node that does not depend on xs, or does not reach y, needs no rule."""
    lowered(
        """g (float[2, 2] x, float[2, 2] z) => (d, f) {
            e = Det(z) f = Det(x) y = Mul(x, e) d = Gradient<xs = ["x"], y = "y">(x)
        }"""
    )


def test_control_flow_on_the_path() -> None:
    """Also where the nested graph reads the tensor from outside."""
    error = refusal(
        """g (float x, bool c) => (d) {
            y = If(c) <
                then_branch = t () => (float a) { a = Exp(x) }, else_branch = e () => (float b) { b = Neg(x) }
            >
            d = Gradient<xs = ["x"], y = "y">(x)
        }""",
        errors.NotImplemented,
    )
    assert "cannot differentiate through If" in str(error)
    assert error.location.node == "y"


CONDITIONAL = """g (float x, float z, float q, bool c) => (d) {
    f = If(c) <
        then_branch = t () => (float a) { a = Exp(OTHER) }, else_branch = e () => (float b) { b = Neg(OTHER) }
    >
    y = Mul(x, f)
    d = Gradient<xs = ["x"], zs = ["z"], y = "y">(x, FED)
}"""


def test_control_flow_beside_the_path() -> None:
    """A factor that does not depend on xs may come from anywhere."""
    lowered(CONDITIONAL.replace("OTHER", "z").replace("FED", "z"))
    lowered(CONDITIONAL.replace("OTHER", "q").replace("FED", "q"))


def test_control_flow_at_other_values() -> None:
    """Nested graphs cannot be copied with a capture replaced."""
    error = refusal(CONDITIONAL.replace("OTHER", "z").replace("FED", "q"), errors.NotImplemented)
    assert "cannot be evaluated at other values" in str(error)
    assert "its nested graphs read 'z'" in str(error)


def test_opsets_before_11() -> None:
    """Rules are written with operators of opset 11."""
    error = refusal(
        f'g (float x) => (d) {{ {XY} d = Gradient<xs = ["x"], y = "y">(x) }}', errors.NotImplemented, opset=10
    )
    assert "Gradient needs opset 11" in str(error)


def test_what_a_rule_cannot_write_at_an_opset() -> None:
    """Overlapping windows add up, which scattering does since opset 16."""
    graph = """g (float[1, 1, 4] x) => (d) {
        y = MaxPool<kernel_shape = [2]>(x) d = Gradient<xs = ["x"], y = "y">(x)
    }"""
    error = refusal(graph, errors.NotImplemented, opset=15)
    assert "needs opset 16" in str(error)
    lowered(graph, opset=16)


def test_broadcasting_of_unknown_ranks() -> None:
    """Needs axes that are computed, which opset 13 has."""
    model = 'g (float[N] x, float[M] s) => (d) { r = Reshape(x, i) y = Mul(r, r) d = Gradient<xs = ["r"], y = "y">(r) }'
    graph = model.replace("float[M] s", "int64[R] i")
    lowered(graph, opset=13)
    error = refusal(graph, errors.NotImplemented, opset=12)
    assert "needs opset 13" in str(error)
    assert "whose rank is unknown" in str(error)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("y = Dropout(x, p, t)", "mask output"),
        ('y = ScatterND<reduction = "mul">(x, j, x)', "'mul'"),
        ('y = ScatterElements<reduction = "max">(x, j, x)', "'max'"),
        ('y = Einsum<equation = "...i->...">(x)', "ellipsis"),
        ('y = Einsum<equation = "ii->i">(x)', "diagonal"),
        ("y = MaxPool<kernel_shape = [1], storage_order = 1>(u)", "column-major"),
        ('y = ConvTranspose<auto_pad = "SAME_UPPER">(u, w)', "auto_pad"),
        ('f = Constant<value = float[3] {1.0, 1.0, 2.0}>() y = Resize<mode = "linear">(u, , f)', "'linear'"),
        ("v, m, y = LayerNormalization(x, r)", "an output other than the first"),
        ("s = Reshape(x, n) y = GatherElements<axis = -1>(s, n)", "the rank of its input 's' is unknown"),
    ],
)
def test_forms_that_a_rule_does_not_know(body: str, why: str) -> None:
    """Each says what it is that it does not know."""
    error = refusal(
        f"""g (float[2, 2] x, float[1, 1, 2] w, float[1] r, float p, bool t, int64[2, 2] j, int64[N] n) => (d) {{
            k = Constant<value_ints = [1, 1, 4]>() u = Reshape(x, k) {body}
            d = Gradient<xs = ["x"], y = "y">(x)
        }}""",
        errors.NotImplemented,
    )
    assert why in str(error)


def test_gradients_that_multiply() -> None:
    """Each differentiates the one before; the model's bound on nodes holds."""
    lines = ["y0 = Tanh(x)"] + [f'y{n + 1} = Gradient<xs = ["x"], y = "y{n}">(x)' for n in range(24)]
    graph = f"g (float x) => (y24) {{ {' '.join(lines)} }}"
    error = refusal(graph, LimitError, limits=Limits(nodes_after_inlining=2000))
    assert "2,000 nodes that are allowed" in str(error)


def test_every_rule_is_written_for_versions_that_exist() -> None:
    """A rule that names no operator of ONNX, or starts after it ends, could never be found."""
    known = {(schema.name, schema.domain) for schema in onnx.defs.get_all_schemas_with_history()}
    for one in rules():
        assert (one.op_type, one.domain) in known
        assert one.until is None or one.since <= one.until
        newest = onnx.defs.get_schema(one.op_type, one.domain).since_version
        assert find_rule(one.op_type, one.domain, newest) is not None
    assert find_rule("Add", "", 1) is None
    assert np.unique([(one.op_type, one.since) for one in rules()], axis=0).shape[0] == len(rules())
