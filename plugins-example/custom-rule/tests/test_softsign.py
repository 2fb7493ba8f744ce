"""x / (1 + |x|) becomes Softsign where that is the same."""

from __future__ import annotations

import numpy as np
import pytest

from ort_py_custom_rule.plugin import ort_py_transforms
from ort_py_custom_rule.softsign import FuseSoftsign
from ort_py_kit.graphs import model_from_text, reference_run
from ort_py_kit.rules import apply_rules

X = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)
MODEL = """g (float[2, 3] x) => (float[2, 3] y) <float one = {1}> {
    a = Abs(x) b = Add(a, one) y = Div(x, b)
}"""


@pytest.mark.parametrize("sum_of", ["Add(a, one)", "Add(one, a)"])
def test_it_becomes_a_softsign(sum_of: str) -> None:
    """With the inputs of Add in any order."""
    text = MODEL.replace("Add(a, one)", sum_of)
    model, _ = apply_rules(text, FuseSoftsign())
    assert [node.op_type for node in model.graph.nodes] == ["Softsign"]
    np.testing.assert_array_equal(reference_run(model, {"x": X})[0], reference_run(model_from_text(text), {"x": X})[0])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("{1}", "{2}", "is 2.0, not 1.0"),
        ("Div(x, b)", "Div(a, b)", "is not 'a'"),
        ("=> (", "=> (float[2, 3] b, ", "the graph returns 'b', which Add 'b' writes"),
        ("float one = {1}", "float[1, 1, 1] one = {1}", "more dimensions than the value has"),
        ("float", "bfloat16", "no Softsign of bfloat16"),
    ],
)
def test_near_misses_stay(old: str, new: str, reason: str) -> None:
    text = MODEL.replace(old, new)
    if new == "bfloat16":
        text = text.replace("{1}", "{16256}")  # the text form wants its bits
    if "[1, 1, 1]" in new:
        text = text.replace("(float[2, 3] y)", "(float[1, 2, 3] y)")
    model, report = apply_rules(text, FuseSoftsign())
    assert len(model.graph.nodes) == 3
    assert reason in str(report)


def test_the_plugin_contributes_it() -> None:
    """By the hook that ort-py asks."""
    assert [rule.name for rule in ort_py_transforms()] == ["SoftsignFusion"]
