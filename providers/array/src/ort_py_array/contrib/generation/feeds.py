"""A model as a loop sees it: logits of the first step, and of each next one. And what all kinds of models share.

It is independent of loops and layouts of a graph; `gpt_feeds` and `pair_feeds` implement the class here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np  # of logits and tokens on the host

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument, Location

__all__ = ["Model", "last_logits", "reordered", "repeated"]


class Model(ABC):
    """One call's model with its states: made at the start of a call, gone at its end."""

    @abstractmethod
    def first(self) -> Any:
        """Run the prompt.

        Returns:
            Logits of the token after it, ``(rows, vocabulary)`` float32, the caller's own.
        """

    @abstractmethod
    def next(self, tokens: Any, parents: Any | None, sequences: Any) -> Any:
        """Run one token a row.

        Args:
            tokens: The last token of each row ``(rows,)``.
            parents: The row of the previous step that each row continues; None where each continues itself.
            sequences: All tokens of each row, the last one too.

        Returns:
            Logits as in `first`.
        """


def last_logits(logits: Any, rows: int, size: int, where: Location) -> Any:
    """Logits of the last token of each row, as new float32.

    Args:
        logits: What the graph gave, ``(rows, tokens, vocabulary)`` on the host.
        rows: How many rows it was fed.
        size: How many tokens the vocabulary has; 0 where the graph decides.
        where: The node.

    Raises:
        InvalidArgument: The shape is another.
    """
    if logits.ndim != 3 or logits.shape[0] != rows or logits.shape[1] == 0 or logits.shape[2] < max(size, 2):
        raise InvalidArgument(
            f"A graph gave logits of the shape {list(logits.shape)} for {rows} sequences.",
            where=where,
            why=f"the vocabulary has {size} tokens" if size else "",
            fix="Logits must have the shape [sequences][tokens][vocabulary], with a vocabulary of at least two tokens "
            "and of 'vocab_size' ones where that attribute is given.",
        )
    return logits[:, -1, : size or None].astype(np.float32)


def reordered(xp: Any, state: Array, parents: Any | None, axis: int) -> Array:
    """Rows of a state taken where each row's parent was; the state itself where nothing moves."""
    if parents is None or np.array_equal(parents, np.arange(parents.size)):
        return state
    return xp.take(state, xp.asarray(parents), axis=axis)


def repeated(ctx: KernelContext, states: Sequence[Array], beams: int, axis: int) -> list[Array]:
    """States of batch entries made states of their beams, each entry's beside each other.

    Raises:
        LimitError: They would be too large.
    """
    for state in states:
        shape = list(state.shape)
        shape[axis] *= beams
        ctx.check_allocation(shape, state.dtype)
    return [ctx.xp.repeat(state, beams, axis=axis) for state in states]
