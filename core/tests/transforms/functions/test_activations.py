"""Activations out of the nodes they are written as."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.fusions import fuse
from ort_py.transforms.elimination.no_ops import EliminateIdentity
from ort_py.transforms.functions.activations import activation_fusions
from ort_py.transforms.functions.powers import ExpandCube
from ort_py.transforms.functions.softmax_chain import FuseSoftmax

FEEDS = {"x": np.linspace(-5, 5, 24, dtype=np.float32).reshape(2, 3, 4)}
HEAD = (
    "g (float[2, 3, 4] x) => (float[2, 3, 4] y) <float three = {3.0}, float six = {6.0}, float zero = {0.0}, "
    "float sixth = {0.16666667}, int64[1] last = {-1}, int64[1] middle = {1}>"
)


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        ("a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)", "HardSwish"),
        ("a = Add(three, x) c = Clip(a, zero, six) m = Mul(c, sixth) y = Mul(m, x)", "HardSwish"),
        ("a = Add(x, three) r = Relu(a) c = Min(r, six) d = Div(x, six) y = Mul(d, c)", "HardSwish"),
        ("h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, h)", "HardSwish"),
        ("a = Add(x, three) c = Clip(a, zero, six) y = Div(c, six)", "HardSigmoid"),
        ("s = Softplus(x) t = Tanh(s) y = Mul(t, x)", "Mish"),
    ],
)
def test_spelt_out_activations(body: str, operator: str) -> None:
    found, _, _ = fuse(f"{HEAD} {{ {body} }}", *activation_fusions(), opset=18, feeds=FEEDS)
    fused, _, _ = fuse(f"{HEAD} {{ {body} }}", *activation_fusions(), opset=18)
    assert found == fused == {operator: 1}


@pytest.mark.parametrize(
    ("body", "opset", "reason"),
    [
        ("a = Add(x, three) c = Clip(a, zero, three) y = Div(c, six)", 18, "is 3.0, not 6.0"),
        ("h = HardSigmoid<alpha = 0.2>(x) y = Mul(x, h)", 18, "alpha is 0.2"),
        ("s = Softplus(x) t = Tanh(s) y = Mul(t, x)", 17, "came with opset 18"),
    ],
)
def test_what_only_looks_like_one_stays(body: str, opset: int, reason: str) -> None:
    """Other numbers, and opsets that lack the operator."""
    _, model, why = fuse(f"{HEAD} {{ {body} }}", *activation_fusions(), opset=opset)
    assert all(not node.origin for node in model.graph.nodes)
    assert reason in why


def test_one_example_names_an_operator_that_the_opset_lacks() -> None:
    """Others are not looked for, in later rounds neither."""
    chain = "s = Softplus(x) t = Tanh(s) a = Mul(t, x) u = Softplus(a) v = Tanh(u) b = Mul(v, a) i = Identity(b)"
    rules = [*activation_fusions(), EliminateIdentity()]
    found, _, why = fuse(f"{HEAD} {{ {chain} y = Neg(i) }}", *rules, opset=17)
    assert found == {"Softplus": 2, "Tanh": 2, "Mul": 2, "Neg": 1}
    assert why.count("came with opset 18") == 1


def test_cubes_are_products() -> None:
    """A third power is two multiplications."""
    found, _, _ = fuse(f"{HEAD} {{ y = Pow(x, three) }}", ExpandCube(), feeds=FEEDS)
    assert found == {"Mul": 2}


def test_cubes_of_integers_stay() -> None:
    """Products of integers wrap where powers are computed in float64."""
    _, model, why = fuse("g (int32[2] x) => (int32[2] y) <float three = {3.0}> { y = Pow(x, three) }", ExpandCube())
    assert [node.op_type for node in model.graph.nodes] == ["Pow"]
    assert why == "" or "int32" in why


SOFTMAX = "m = ReduceMax<axes = [-1]>(x) d = Sub(x, m) e = Exp(d) t = ReduceSum(e, last) y = Div(e, t)"


def test_softmax_chain() -> None:
    """Exponentials over their sum, the largest entry subtracted."""
    found, model, _ = fuse(f"{HEAD} {{ {SOFTMAX} }}", FuseSoftmax(), feeds=FEEDS)
    assert found == {"Softmax": 1}
    assert model.graph.nodes[0].attributes == {"axis": 2}


def test_a_sum_along_another_axis_is_no_softmax() -> None:
    found, _, why = fuse(f"{HEAD} {{ {SOFTMAX.replace('last', 'middle')} }}", FuseSoftmax())
    assert "Softmax" not in found
    assert "one and the same axis" in why
