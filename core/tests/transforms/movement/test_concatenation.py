"""Concat of Concat, Split and Concat, Slice of Slice, Gather of everything."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators, optimise
from ort_py.transforms.movement.concatenation import EliminateWholeGather, MergeConcats, MergeSlices

X = np.random.default_rng(9).standard_normal((4, 6)).astype(np.float32)
RULES = (MergeConcats(), MergeSlices(), EliminateWholeGather())
CONSTANTS = """int64[1] z = {0}, int64[1] o = {1}, int64[1] tw = {2}, int64[1] th = {3}, int64[1] fi = {5},
    int64[1] m = {-1}, int64[1] big = {9223372036854775807}, int64[2] both = {1, 2}, int64[2] ends = {4, 5},
    int64[6] all = {0, 1, 2, -3, 4, 5}, int64[6] mixed = {0, 2, 1, 3, 4, 5}, int64[4] four = {0, 1, 2, 3}"""


def run(body: str, opset: int = 21) -> tuple[dict[str, int], str]:
    """Optimise a body; give operators and notes."""
    model, report = optimise(
        f"g (float[4, 6] x, float[N, 6] n) => (float[P, Q] y) <{CONSTANTS}> {{ {body} }}",
        *RULES,
        feeds={"x": X, "n": X[:3]},
        opset=opset,
    )
    return dict(operators(model)), notes(report)


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Concat<axis = 0>(x, n) y = Concat<axis = 0>(n, a, x)", {"Concat": 1}),
        ("a = Concat<axis = 0>(x, n) y = Concat<axis = -2>(a, x)", {"Concat": 1}),
        ("a = Concat<axis = 0>(x, n) b = Concat<axis = 0>(x, a) y = Concat<axis = 0>(b, x)", {"Concat": 1}),
        ("e = Exp(x) a, b = Split<axis = 1, num_outputs = 2>(e) y = Concat<axis = -1>(a, b)", {"Exp": 1}),
        ("a = Slice(x, o, big, z) y = Slice(a, tw, fi, o)", {"Slice": 1}),
        ("a = Slice(x, o, fi, o) y = Slice(a, o, th, o)", {"Slice": 1}),
        ("a = Slice(x, o, th, o) y = Slice(a, o, big, o)", {"Slice": 1}),
        ("a = Slice(x, both, ends) y = Slice(a, o, big, o)", {"Slice": 1}),
        ("a = Slice(n, m, big, z, m) y = Slice(a, tw, fi, o)", {"Slice": 1}),
        ("a = Slice(x, fi, big, o) y = Slice(a, th, fi, m)", {"Slice": 1}),
        ("e = Exp(x) y = Gather<axis = 1>(e, all)", {"Exp": 1}),
    ],
)
def test_what_becomes_less(body: str, left: dict[str, int]) -> None:
    """With values and shapes as before."""
    assert run(body)[0] == left


def test_slices_with_attributes() -> None:
    model, _ = optimise(
        """g (float[4, 6] x) => (float[P, Q] y) {
            a = Slice<starts = [1], ends = [4], axes = [0]>(x) y = Slice<starts = [1], ends = [3], axes = [1]>(a)
        }""",
        *RULES,
        opset=9,
    )
    (node,) = model.graph.nodes
    assert node.attributes == {"starts": (1, 1), "ends": (4, 3), "axes": (0, 1)}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("a = Concat<axis = 1>(x, x) b = Concat<axis = 1>(n, n) y = Concat<axis = 0>(a, b)", ""),
        ("a = Concat<axis = 0>(x, n) b = Concat<axis = 0>(a, x) c = ReduceMax(a) y = Add(b, c)", "read elsewhere too"),
        ("a, b = Split<axis = 1, num_outputs = 2>(x) y = Concat<axis = 1>(b, a)", ""),
        ("a, b = Split<axis = 1, num_outputs = 2>(x) y = Concat<axis = 0>(a, b)", ""),
        ("a, b = Split<axis = 0>(n, both) y = Concat<axis = 0>(a, b)", ""),  # N may be another number than 3
        ("a = Slice(x, z, m, o) y = Slice(a, o, fi, o)", "not forwards from the beginning"),
        ("a = Slice(x, z, fi, o, tw) y = Slice(a, o, fi, o)", "not forwards from the beginning"),
        ("a = Slice(x, o, fi, o) b = Slice(a, o, fi, z) c = ReduceMax(a) y = Add(b, c)", "read elsewhere too"),
        ("k = Abs(o) a = Slice(x, k, fi, o) y = Slice(a, o, fi, z)", "is not constant"),
        ("y = Gather<axis = 1>(x, mixed)", ""),
        ("y = Gather<axis = 1>(x, four)", ""),
        ("y = Gather<axis = 0>(n, z)", ""),
    ],
)
def test_what_must_stay(body: str, reason: str) -> None:
    """Near misses, where there is a reason with it in the report."""
    found, said = run(body)
    assert sum(found.values()) == body.count(" = ") - body.count("<axis = ") - body.count("num_outputs = ")
    assert reason in said
