"""Nodes that cannot fail, as candidates for leaving a loop that may run zero times."""

from __future__ import annotations

import pytest

from core.tests.transforms.support import notes, optimise
from ort_py.transforms.functions.gelu import FuseGelu
from ort_py.transforms.movement.loop_invariants import MoveLoopInvariants

CONSTANTS = (
    "bool yes = {1}, int64[1] zero = {0}, int64[1] last = {-1}, int64[2] far = {0, 7}, int64[3] split = {0, 2, -1}, "
    "int64[2] six = {2, 3}, int64[1, 1] deep = {0}, int64[1] flat = {6}, float k = {2}, "
    "float[3, 5] w = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5}, float[1, 5] bias = {1, 2, 3, 4, 5}"
)
VALUES = "float[2, 3] x, float[N, 3] q, float[N, 4] d, float[0, 3] e, float[1, N] one, int64[2, 3] g, int64[P] h"


def stays(node: str) -> str:
    """Explain why a node that computes v from outer values stays in a loop; empty if it has left."""
    model, report = optimise(
        f"""g ({VALUES}, string[2] text, float r, int64 n) => (float y) <{CONSTANTS}> {{
            y = Loop(n, yes, r) <body = b (int64 i, bool c, float s) => (bool c, float t) {{
                {node} m = Shape(v) f = Cast<to = 1>(m) sum = ReduceSum<keepdims = 0>(f) t = Add(s, sum)
            }}>
        }}""",
        MoveLoopInvariants(),
    )
    left = any(value is not None and value.name == "v" for one in model.graph.nodes for value in one.outputs)
    reasons = [line for line in notes(report).splitlines() if "'v' stays" in line]
    assert left == (not reasons)
    return "" if left else reasons[0].partition(": ")[2]


@pytest.mark.parametrize(
    "node",
    [
        "v = Tanh(q)",
        "v = Add(q, k)",
        "v = Mul(x, x)",
        "v = Mul(one, k)",
        "v = Div(x, k)",
        "v = Add(g, g)",
        "v = Cast<to = 7>(q)",
        "v = MatMul(q, w)",
        "v = Gemm(q, w, bias)",
        "v = Gemm<transB = 1>(bias, bias)",
        "v = Transpose(q)",
        "v = Flatten(q)",
        "v = Shape(q)",
        "v = Unsqueeze(q, zero)",
        "v = Squeeze(one)",
        "v = Squeeze(one, zero)",
        "v = Reshape(d, split)",
        "v = Reshape(x, flat)",
        "v = Reshape(x, six)",
        "v = Concat<axis = 1>(x, x)",
        "v = Slice(q, zero, last)",
        "v = Gather<axis = 1>(q, last)",
        "v = Softmax(x)",
        "v = ReduceMax(x, last)",
    ],
)
def test_what_cannot_fail_moves(node: str) -> None:
    """This holds for all unknown sizes and all inputs."""
    assert stays(node) == ""


@pytest.mark.parametrize(
    "node",
    [
        "v = Add(q, one)",
        "v = MatMul(one, q)",
        "v = Gemm(one, q)",
        "v = Gemm(q, w, d)",
        "v = Reshape(d, six)",
        "v = Squeeze(q, zero)",
        "v = Concat<axis = 1>(q, d)",
        "v = Gather<axis = 1>(q, far)",
        "v = Gather(q, zero)",
        "v = Softmax(q)",
        "v = ReduceMax(e, last)",
        "v = ReduceMax(q, last)",
    ],
)
def test_shapes_that_may_not_fit(node: str) -> None:
    """The cases are unknown sizes, axes without elements, and positions beyond the end."""
    assert stays(node) == "its shapes are not known to fit"


def test_shapes_that_never_fit() -> None:
    """They are an error when the loop runs, and only then."""
    assert stays("v = Reshape(q, split)") == "its shapes do not fit"


@pytest.mark.parametrize("node", ["v = Slice(q, deep, deep)", "v = Unsqueeze(q, deep)", "v = ReduceMax(x, deep)"])
def test_lists_of_two_axes(node: str) -> None:
    """A run refuses them; inference reads them as if they were flat."""
    assert stays(node) == "its shapes are not known to fit"


@pytest.mark.parametrize("node", ["v = Gather(x, h)", "v = Reshape(x, h)", "v = Slice(x, h, h)", "v = Unsqueeze(x, h)"])
def test_positions_from_data(node: str) -> None:
    assert stays(node) == "its shapes are not known to fit"


@pytest.mark.parametrize("node", ["v = Div(g, g)", "v = Pow(g, g)"])
def test_integers_that_cannot_be_divided(node: str) -> None:
    assert "may fail for integers" in stays(node)


@pytest.mark.parametrize(
    "node",
    [
        "v = RandomNormalLike(x)",
        "v = Expand(x, h)",
        "v = GatherND(x, g)",
        "v = Mod(g, g)",
    ],
)
def test_other_operators(node: str) -> None:
    """Operators that are not listed stay, even if they could move."""
    assert "is not among the operators that move" in stays(node)


def test_texts() -> None:
    assert stays("v = Equal(text, text)") == "not all it reads and writes is known to be tensors of numbers"


@pytest.mark.parametrize(("shape", "left"), [("2, 3", True), ("N, 3", False)])
def test_fused_nodes_move_by_what_they_stand_for(shape: str, left: bool) -> None:
    """Their functions hold listed operators only; their sizes must be known."""
    model, _ = optimise(
        f"""g (float[{shape}] x, float[{shape}] r, int64 n) => (float[{shape}] y)
            <bool yes = {{1}}, float root = {{1.4142135}}, float one = {{1}}, float half = {{0.5}}> {{
            y = Loop(n, yes, r) <body = b (int64 i, bool c, float[{shape}] s) => (bool c, float[{shape}] t) {{
                d = Div(x, root) e = Erf(d) f = Add(e, one) g = Mul(x, f) v = Mul(g, half) t = Add(s, v)
            }}>
        }}""",
        FuseGelu(),
        MoveLoopInvariants(),
    )
    assert (model.graph.nodes[0].op_type == "Gelu") == left
