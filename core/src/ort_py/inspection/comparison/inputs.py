"""The feeds of a comparison: those that the caller gives, or made-up ones.

Comes before `forcing`. What a feed must hold is the session's business: it checks each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ort_py.engine.metadata import NodeArg
from ort_py.errors import ArgumentTypeError, InvalidArgument
from ort_py.inspection.generated_inputs import InputRecipe, generate

Feeds: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""One feed, several, or None for generated values."""


def feeds_of(given: Feeds, declared: Sequence[NodeArg], seed: int) -> list[Mapping[str, Any]]:
    """Convert the caller's argument to feeds.

    Args:
        declared: Inputs the model must be fed.

    Raises:
        ArgumentTypeError: It is neither a mapping nor a list of mappings; a builtin TypeError too.
        InvalidArgument: The list is empty, or an input cannot be generated.
    """
    if given is None:
        recipe = InputRecipe(seed=seed)
        return [{argument.name: generate(argument, recipe).value for argument in declared}]
    if isinstance(given, Mapping):
        return [given]
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(one, Mapping) for one in given):
        raise ArgumentTypeError(
            f"inputs cannot be a {type(given).__name__}.",
            why="a feed must be a mapping of input names to values",
            fix="Pass one feed, a list of feeds, or None for generated values.",
        )
    if not given:
        raise InvalidArgument(
            "There are no feeds to compare with.", fix="Pass at least one, or None for generated values."
        )
    return list(given)
