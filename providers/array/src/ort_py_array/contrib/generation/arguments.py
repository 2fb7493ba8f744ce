"""Inputs of a generating node: read once per call, checked, and refused by name.

Numbers come as arrays of one element on the host. It is independent of loops and graphs.
"""

from __future__ import annotations

from typing import Any

import numpy as np  # of host inputs only

from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass

__all__ = ["Lengths", "matrix_of", "number_of", "prompt_of", "token_of", "vocabulary_mask"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Length of a sequence at the start, and the least and the greatest length at the end, in tokens."""

    prompt: int
    least: int
    most: int

    @classmethod
    def read(cls, prompt: int, max_length: Any, min_length: Any | None, where: Location) -> Lengths:
        """Read the lengths from the inputs.

        Raises:
            InvalidArgument: There is no room for a token after the prompt.
        """
        most = int(number_of("max_length", max_length, where))
        if most <= prompt:
            raise InvalidArgument(
                f"'max_length' is {most}, but the sequences begin with {prompt} tokens.",
                where=where,
                why="it counts the tokens of the prompt too",
                fix=f"Feed a 'max_length' of at least {prompt + 1}, or a shorter prompt.",
            )
        return cls(prompt, int(number_of("min_length", min_length, where, default=0)), most)


def number_of(
    name: str,
    value: Any | None,
    where: Location,
    *,
    default: float | None = None,
    least: float | None = None,
    above: float | None = None,
) -> float:
    """The one number of an input.

    Args:
        name: Of the input, for messages.
        value: The input, None where it is absent.
        where: The node.
        default: Stands for an absent input.
        least: The least value allowed.
        above: The number must be greater than this.

    Raises:
        InvalidArgument: It is absent and has no default, holds no or several numbers, or one that is not allowed.
    """
    if value is None and default is None:
        raise InvalidArgument(f"The input '{name}' is missing.", where=where, fix="Connect it: it has no default.")
    if value is None:
        assert default is not None
        return default
    if value.size != 1:
        raise InvalidArgument(
            f"The input '{name}' has the shape {list(value.shape)}.", where=where, fix="Feed one number, of shape [1]."
        )
    found: float = value.item() if value.dtype.kind in "iu" else float(value.item())
    if (least is not None and not found >= least) or (above is not None and not found > above):
        allowed = f"at least {least:g}" if least is not None else f"greater than {above:g}"
        raise InvalidArgument(f"The input '{name}' is {found:g}.", where=where, fix=f"It must be {allowed}.")
    return found


def prompt_of(name: str, value: Any, where: Location) -> Any:
    """Tokens ``(batch, tokens)``, at least one per sequence.

    Raises:
        InvalidArgument: The shape is another.
    """
    if value.ndim != 2 or value.shape[1] == 0 or value.dtype.kind not in "iu":
        raise InvalidArgument(
            f"The input '{name}' has the shape {list(value.shape)} and the type {value.dtype}.",
            where=where,
            fix="Feed int32 tokens of the shape [batch][tokens], at least one token a sequence.",
        )
    return value


def matrix_of(name: str, value: Any | None, shape: tuple[int, ...], where: Location) -> Any | None:
    """An optional input that must have this shape.

    Raises:
        InvalidArgument: It has another.
    """
    if value is not None and tuple(value.shape) != shape:
        raise InvalidArgument(
            f"The input '{name}' has the shape {list(value.shape)}.",
            where=where,
            fix=f"It must have the shape {list(shape)}, as the other inputs and the decoder's logits have it.",
        )
    return value


def vocabulary_mask(name: str, value: Any | None, shape: tuple[int, ...], where: Location) -> Any | None:
    """An optional mask of the vocabulary, True for tokens that are forbidden.

    Raises:
        InvalidArgument: It has another shape than `shape`.
    """
    found = matrix_of(name, value, shape, where)
    return None if found is None else np.equal(found, 0)


def token_of(name: str, token: int, size: int, where: Location) -> int:
    """A token that an attribute names, which must be one of the vocabulary.

    Raises:
        InvalidArgument: It is none of the `size` tokens.
    """
    if not 0 <= token < size:
        raise InvalidArgument(
            f"The attribute '{name}' is {token}, but the decoder knows {size} tokens.",
            where=where,
            fix=f"It must be in [0, {size - 1}].",
        )
    return token
