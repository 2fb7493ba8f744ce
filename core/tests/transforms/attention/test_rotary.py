"""Turned halves of heads become one RotaryEmbedding, where positions are the same for the whole batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.tests.transforms.fusions import fuse
from ort_py.transforms.attention.rotary import FuseRotaryEmbedding
from ort_py.transforms.elimination.unused import EliminateDeadCode

TEXT = """g (float[B, 2, N, 6] x, float[1, N, 3] angles) => (float[B, 2, N, 6] y) {
    axis = Constant <value_ints = [1]> () zero = Constant <value_ints = [0]> () half = Constant <value_ints = [3]> ()
    end = Constant <value_ints = [9223372036854775807]> () last = Constant <value_ints = [3]> ()
    both = Concat <axis = -1> (angles, angles)
    c = Cos (both) s = Sin (both)
    ch = Unsqueeze (c, axis) sh = Unsqueeze (s, axis)
    left = Slice (x, zero, half, last, axis)
    right = Slice (x, half, end, last, axis)
    negative = Neg (right)
    turned = Concat <axis = -1> (negative, left)
    kept = Mul (x, ch)
    moved = Mul (turned, sh)
    y = Add (kept, moved)
}"""

RULES = (FuseRotaryEmbedding(), EliminateDeadCode())


def _feeds() -> dict[str, Any]:
    random = np.random.default_rng(9)
    shapes = {"x": (2, 2, 5, 6), "angles": (1, 5, 3)}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_turned_halves() -> None:
    """One node turns them, by matrices of cosines and sines with a row a position."""
    counts, model, _ = fuse(TEXT, *RULES)
    assert counts["RotaryEmbedding"] == 1
    assert not counts["Slice"] + counts["Neg"] + counts["Mul"]
    node = next(one for one in model.graph.nodes if one.op_type == "RotaryEmbedding")
    assert node.attributes == {"interleaved": 0}
    fuse(TEXT, *RULES, feeds=_feeds())


def test_factors_in_another_order() -> None:
    """Sums and products may be written either way."""
    text = (
        TEXT.replace("(kept, moved)", "(moved, kept)").replace("(x, ch)", "(ch, x)").replace("turned, sh", "sh, turned")
    )
    counts, _, _ = fuse(text, *RULES, feeds=_feeds())
    assert counts["RotaryEmbedding"] == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("float[1, N, 3] angles", "float[B, N, 3] angles", "positions may differ between the batch's entries"),
        ("float[1, N, 3] angles", "float[1, M, 3] angles", "there are M positions for N rows"),
        ("s = Sin (both)", "other = Neg (both) s = Sin (other)", "are not cosines and sines of the same angles"),
        ("(angles, angles)", "(angles, twice)", "are not cosines and sines of the same angles"),
        ("half = Constant <value_ints = [3]>", "half = Constant <value_ints = [2]>", "are not the two halves"),
    ],
    ids=["batch", "length", "other angles", "halves of two", "not the middle"],
)
def test_near_misses(old: str, new: str, reason: str) -> None:
    """Patterns that only resemble an embedding of positions give a reason."""
    text = TEXT.replace(old, new).replace("both = ", "twice = Neg (angles) both = ")
    _, _, report = fuse(text, *RULES)
    assert reason in report
