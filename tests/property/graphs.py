"""Random graphs for hypothesis: `ort_py.testing.random_graphs` draws them, hypothesis chooses and shrinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import hypothesis.strategies as st
import onnx

from ort_py.testing.random_graphs import Choices, random_model

__all__ = ["models"]

T = TypeVar("T")


class _Drawn(Choices):
    """Choices that hypothesis makes.

    Args:
        draw: What hypothesis hands to a composite strategy.
    """

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def integer(self, first: int, last: int) -> int:
        chosen: int = self._draw(st.integers(first, last))
        return chosen

    def boolean(self) -> bool:
        chosen: bool = self._draw(st.booleans())
        return chosen

    def one_of(self, among: Sequence[T]) -> T:
        chosen: T = self._draw(st.sampled_from(among))
        return chosen

    def permutation(self, of: Sequence[T]) -> list[T]:
        chosen: list[T] = self._draw(st.permutations(of))
        return chosen

    def several(self, among: Sequence[T], least: int, most: int) -> list[T]:
        chosen: list[T] = self._draw(st.lists(st.sampled_from(among), min_size=least, max_size=most))
        return chosen


@st.composite
def models(draw: Any) -> onnx.ModelProto:
    """A model as `random_model` makes it."""
    return random_model(_Drawn(draw))
