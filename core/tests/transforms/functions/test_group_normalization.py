"""Groups of channels, normalised as PyTorch's exporters write it, become one GroupNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.graph.editing.edit import Editor
from ort_py.graph.editing.edit_state import EditState
from ort_py.transforms.functions.group_normalization import FuseGroupNormalization

GROUPS = """g (float[N, 6, H, 4] x) => (float[N, 6, H, 4] y)
    <int64[3] split = {0, 3, -1}, float[3] ones = {1, 1, 1}, float[3] zeros = {0, 0, 0},
     float[6, 1, 1] w = {1, 2, 3, 4, 5, 6}, float[6, 1, 1] b = {6, 5, 4, 3, 2, 1}> {
    rows = Reshape (x, split)
    normal = InstanceNormalization <epsilon = 0.001> (rows, ones, zeros)
    size = Shape (x)
    joined = Reshape (normal, size)
    scaled = Mul (joined, w)
    y = Add (b, scaled)
}"""


def _feeds() -> dict[str, Any]:
    return {"x": np.random.default_rng(2).standard_normal((2, 6, 3, 4)).astype(np.float32)}


@pytest.mark.parametrize("opset", [17, 21])
def test_the_nodes_become_one(opset: int) -> None:
    """It is of opset 21, which scales by channel, in older models too."""
    model, _ = optimise(GROUPS, FuseGroupNormalization(), feeds=_feeds(), opset=opset)
    assert operators(model) == {"GroupNormalization": 1}
    (node,) = model.graph.nodes
    assert (node.since_version, node.attributes["num_groups"]) == (21, 3)
    assert model.opset_imports[""] == opset
    assert [value.shape for one in node.inputs[1:] if one is not None and (value := one.weight) is not None] == [
        (6,),
        (6,),
    ]


def test_its_function_is_what_it_replaces() -> None:
    """A provider that lacks the operator gets the InstanceNormalization, of the model's opset."""
    model, _ = optimise(GROUPS, FuseGroupNormalization(), feeds=_feeds(), opset=17)
    (node,) = model.graph.nodes
    Editor(model.graph, EditState(model)).expand(node)
    assert operators(model)["InstanceNormalization"] == 1
    assert {one.opset_version for one in model.graph.nodes} == {17}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("ones = {1, 1, 1}", "ones = {1, 2, 1}", "it is not 1 everywhere"),
        ("zeros = {0, 0, 0}", "zeros = {0, 0, 1}", "it is not 0 everywhere"),
        ("float[6, 1, 1] w = {1, 2, 3, 4, 5, 6}", "float[4] w = {1, 2, 3, 4}", "'w' is not a number for each channel"),
        ("size = Shape (x)", "turned = Transpose <perm = [0, 2, 1, 3]> (x) size = Shape (turned)", "after the groups"),
        ("Reshape (x, split)", "Reshape (x, split) other = Neg (rows)", "is read by"),
    ],
    ids=["scaled groups", "shifted groups", "columns", "another shape", "rows read"],
)
def test_what_stays(old: str, new: str, reason: str) -> None:
    """A near miss says what stands against it."""
    text = GROUPS.replace(old, new)
    if "turned" in new:
        text = text.replace(
            "(float[N, 6, H, 4] x) => (float[N, 6, H, 4] y)", "(float[2, 6, 6, 4] x) => (float[a, b, c, d] y)"
        )
        text = text.replace("[0, 2, 1, 3]", "[0, 1, 3, 2]")
    if "other" in new:
        text = text.replace("(float[N, 6, H, 4] y)", "(float[N, 6, H, 4] y, float[N, 3, K] other)")
    model, report = optimise(text, FuseGroupNormalization())
    assert operators(model)["InstanceNormalization"] == 1
    assert reason in notes(report)
