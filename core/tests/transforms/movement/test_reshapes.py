"""Reshapes of reshapes become one."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.elimination.no_ops import noop_rules
from ort_py.transforms.movement.reshapes import MergeReshapes

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
CONSTANTS = "int64[1] first = {0}, int64[2] flat = {6, -1}, int64[2] copied = {0, -1}, int64[3] back = {2, 3, 4}"


@pytest.mark.parametrize(
    "body",
    [
        "a = Unsqueeze(x, first) y = Reshape(a, flat)",
        "a = Reshape(x, back) y = Reshape(a, flat)",
        "a = Flatten(x) b = Unsqueeze(a, first) y = Reshape(b, flat)",
        "a = Reshape(x, flat) b = Unsqueeze(a, first) y = Squeeze(b, first)",
        "a = Unsqueeze(x, first) b = Flatten<axis = 2>(a) y = Reshape(b, flat)",
    ],
)
@pytest.mark.parametrize("size", ["2", "N"])
def test_one_is_left(body: str, size: str) -> None:
    """This holds for every mixture, with sizes known and with one unknown."""
    model, _ = optimise(
        f"g (float[{size}, 3, 4] x) => (float[P, Q] y) <{CONSTANTS}> {{ {body} }}", MergeReshapes(), feeds={"x": X}
    )
    assert operators(model) == {"Reshape": 1}


def test_there_and_back_is_nothing() -> None:
    """Together with the rule for reshapes that change nothing."""
    model, _ = optimise(
        f"""g (float[N, 3, 4] x) => (float[N, 3, 4] y) <{CONSTANTS}> {{
            a = Unsqueeze(x, first) b = Squeeze(a, first) y = Neg(b)
        }}""",
        MergeReshapes(),
        *noop_rules(),
        feeds={"x": X},
    )
    assert operators(model) == {"Neg": 1}


@pytest.mark.parametrize("opset", [11, 21])
def test_squeezing_what_was_added_is_nothing(opset: int) -> None:
    there, back = ("<axes = [0, 2]>(x)", "<axes = [0, 2]>(a)") if opset == 11 else ("(x, two)", "(a, owt)")
    model, _ = optimise(
        f"""g (float[L, M, N] x) => (float[L, M, N] y) <int64[2] two = {{0, 2}}, int64[2] owt = {{2, 0}}> {{
            a = Unsqueeze{there} b = Squeeze{back} y = Neg(b)
        }}""",
        MergeReshapes(),
        feeds={"x": X},
        opset=opset,
    )
    assert operators(model) == {"Neg": 1}


def test_a_result_of_the_graph_keeps_its_name() -> None:
    """It is a copy of the input then."""
    model, _ = optimise(
        f"g (float[L, M, N] x) => (float[L, M, N] y) <{CONSTANTS}> {{ a = Unsqueeze(x, first) y = Squeeze(a, first) }}",
        MergeReshapes(),
        feeds={"x": X},
    )
    assert operators(model) == {"Identity": 1}


@pytest.mark.parametrize("axes", ["second", ""])
def test_squeezing_something_else_stays(axes: str) -> None:
    """Other axes, or all that have one element: those of what came in may be among them."""
    model, _ = optimise(
        f"""g (float[L, M, N] x) => (float[P, Q, R] y) <{CONSTANTS}, int64[1] second = {{1}}> {{
            a = Unsqueeze(x, first) b = Squeeze(a, {axes}) y = Neg(b)
        }}""",
        MergeReshapes(),
    )
    assert operators(model) == {"Unsqueeze": 1, "Squeeze": 1, "Neg": 1}


def test_a_declared_shape_says_nothing_about_the_axes_that_are_squeezed() -> None:
    """The number of axes follows from the sizes of the run: only one row makes the result a scalar."""
    text = "g (float[N] x) => (float y) <int64[2] ends = {0, -1}> { a = Unsqueeze(x, ends) y = Squeeze(a) }"
    model, _ = optimise(text, MergeReshapes(), feeds={"x": np.ones(5, np.float32)})
    assert operators(model) == {"Unsqueeze": 1, "Squeeze": 1}


def test_a_size_copied_from_between_stays() -> None:
    """Two sizes are only known when it runs, one of them that of the node between."""
    model, report = optimise(
        f"""g (float[N, M, 4] x, int64[2] s) => (float[P, Q] y) <{CONSTANTS}> {{
            a = Reshape(x, s) y = Reshape(a, copied)
        }}""",
        MergeReshapes(),
    )
    assert operators(model)["Reshape"] == 2
    assert "more than one size of its result is not known" in notes(report)


def test_empty_tensors() -> None:
    """A size of 0 is asked for as such."""
    text = """g (float[0, 3] x) => (float[3, 0] y) <int64[1] flat = {0}, int64[2] turned = {3, 0}> {
        a = Reshape<allowzero = 1>(x, flat) y = Reshape<allowzero = 1>(a, turned)
    }"""
    model, _ = optimise(text, MergeReshapes(), feeds={"x": np.zeros((0, 3), np.float32)})
    (node,) = model.graph.nodes
    assert node.attributes["allowzero"] == 1


def test_the_first_one_stays_where_it_is_read() -> None:
    """The second one reads the source itself."""
    model, _ = optimise(
        f"""g (float[2, 3, 4] x) => (float[6, 4] y, float[1, 2, 3, 4] z) <{CONSTANTS}> {{
            z = Unsqueeze(x, first) y = Reshape(z, flat)
        }}""",
        MergeReshapes(),
        feeds={"x": X},
    )
    assert operators(model) == {"Unsqueeze": 1, "Reshape": 1}
    assert all(node.inputs[0] is model.graph.inputs[0] for node in model.graph.nodes)
