"""Operators that are constant wherever they have a derivative: nothing flows back through them.

Operators whose results are not floats need no entry: only float tensors carry a gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.transforms.gradient.registry import Call, Gradients, rule

if TYPE_CHECKING:
    from ort_py.transforms.gradient.builder import GradientBuilder


@rule("Ceil", "Floor", "Hardmax", "Round", "Sign")
def steps(b: GradientBuilder, call: Call) -> Gradients:
    return ()


@rule("Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike")
def unrelated(b: GradientBuilder, call: Call) -> Gradients:
    """Only the shape, or the odds of a draw, depend on the input."""
    return ()
